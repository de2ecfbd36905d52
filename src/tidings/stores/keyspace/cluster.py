"""The keyspace on a Valkey or Redis Cluster: the `Keyspace` of call.py over one link per primary.

A run is split by server, sent to all servers at once, and joined again in order: one round trip, as long as the
slowest. It is no transaction. Calls of one run keep their order on one server only. When a part fails, the whole run
raises, and the error says whether something may have happened. A refusal says where a slot moved to, and only the
refused calls are repeated. Where the primary of a slot is another life of a server, the epoch listeners are called
before anything is sent there. topology.py has the map of slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from weakref import WeakSet

from tidings.bounds import CLUSTER_KEYS_CACHED_MAX, CLUSTER_REDIRECTS_MAX
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import Call, op_of, plain
from tidings.stores.keyspace.hash_slots import Redirect, parse_cluster_url, parse_redirect, slot_of
from tidings.stores.keyspace.link import EpochListener, Link
from tidings.stores.keyspace.server import KeyspaceMistake, verdict
from tidings.stores.keyspace.subscription import Feed
from tidings.stores.keyspace.topology import Topology
from tidings.stores.keyspace.wire import Address, ErrorReply, Run
from tidings.tasks import Recent

R = TypeVar("R")

_ASKING = plain("", b"ASKING")


class Part:
    """The calls of a run that one server gets, with their positions in the run."""

    __slots__ = ("calls", "is_asking", "link", "positions")

    def __init__(self, link: Link, is_asking: bool = False) -> None:
        self.link = link
        self.is_asking = is_asking  # ASKING comes before each call: the slot is moving to this server
        self.calls: list[Call[Any]] = []
        self.positions: list[int] = []

    def add(self, position: int, call: Call[Any]) -> None:
        self.positions.append(position)
        if self.is_asking:
            self.calls.append(_ASKING)
        self.calls.append(call)

    def answers_of(self, run: Run) -> list[Any]:
        return run.answers[1::2] if self.is_asking else run.answers


class ClusterKeyspace:
    """The keyspace of a cluster: each slot is on one of its servers."""

    is_cluster = True

    def __init__(self, topology: Topology, clock: Clock) -> None:
        self._topology = topology
        self._clock = clock
        self._slots = Recent[str, int](CLUSTER_KEYS_CACHED_MAX)  # by key: ten times faster than computing
        self._feeds: WeakSet[Feed] = WeakSet()
        topology.on_change(self._follow)

    def begin(self, calls: Sequence[Call[R]]) -> asyncio.Task[list[R]]:
        return asyncio.get_running_loop().create_task(self.run(calls), name="keyspace-run")

    async def run(self, calls: Sequence[Call[R]]) -> list[R]:
        parts = self._split(calls)
        try:
            if len(parts) == 1:
                run = await parts[0].link.exchange(calls)
                answers, is_faulty = run.answers, run.is_faulty
            else:
                answers = [None] * len(calls)
                is_faulty = await self._exchange(parts, answers)
            if is_faulty:
                await self._redirect(calls, parts, answers)
        except Unavailable as error:
            error.locate("keyspace", op_of(calls))
            raise
        return [call.parse(answer) for call, answer in zip(calls, answers, strict=True)]

    async def one(self, call: Call[R]) -> R:
        return (await self.run((call,)))[0]

    def epoch(self, key: str) -> str:
        return self._topology.owners[slot_of(key)].epoch

    def is_up(self) -> bool:
        """Whether every slot is served."""
        return self._topology.is_up

    def server_of(self, key: str) -> str:
        slot = self._slots.get(key)
        return self._topology.owners[self._slot(key) if slot is None else slot].label

    def on_epoch(self, listener: EpochListener) -> None:
        """Call `listener(old, new)` whenever slots are found in another life of their server, or on another server."""
        self._topology.on_epoch(listener)

    async def subscribe(
        self, channel: str, on_message: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> Feed:
        """Listen to a sharded channel, on the primary that has its slot. Raises Unavailable."""
        slot = slot_of(channel)
        feed = Feed(lambda: self._locate(slot), channel, self._clock, on_message, on_subscribed)
        await feed.open()
        self._feeds.add(feed)
        return feed

    async def close(self) -> None:
        await self._topology.close()

    # --- one run ----------------------------------------------------------------------------------

    def _split(self, calls: Sequence[Call[Any]]) -> list[Part]:
        owners, slots, parts = self._topology.owners, self._slots, dict[Link, Part]()
        for position, call in enumerate(calls):
            slot = slots.get(call.key)
            if slot is None:
                slot = self._slot(call.key)
            link = owners[slot]
            part = parts.get(link)
            if part is None:
                part = parts[link] = Part(link)
            part.positions.append(position)
            part.calls.append(call)
        return list(parts.values())

    def _slot(self, key: str) -> int:
        slot = slot_of(key)
        self._slots.put(key, slot)
        return slot

    async def _exchange(self, parts: Sequence[Part], answers: list[Any]) -> bool:
        """Send everything before waiting for the first answer. Returns whether something is wrong; lost answers count.

        Links that are up need no task of their own: their runs are under way as soon as they are handed over.
        """
        begun = [_begin(part) for part in parts]
        is_faulty = False
        try:
            for part, future in zip(parts, begun, strict=True):
                is_faulty |= await _settle(part, future, answers)
        finally:
            for future in begun:
                _drop(future)
        return is_faulty

    async def _redirect(self, calls: Sequence[Call[Any]], parts: Sequence[Part], answers: list[Any]) -> None:
        """Send refused calls to the servers of their slots, until all are answered. Raises what remains."""
        for _ in range(CLUSTER_REDIRECTS_MAX):
            if any(isinstance(answer, Unavailable) for answer in answers):
                break
            parts = await self._elsewhere(calls, parts, answers)
            if not parts or not await self._exchange(parts, answers):
                break
        if any(isinstance(answer, ErrorReply | Unavailable) for answer in answers):
            self._topology.refresh_soon()
            raise _verdict(calls, answers)

    async def _elsewhere(self, calls: Sequence[Call[Any]], parts: Sequence[Part], answers: list[Any]) -> list[Part]:
        """The redirected calls, by the servers that they were redirected to."""
        found: dict[tuple[Link, bool], Part] = {}
        for part in parts:
            host = part.link.address.host
            for position in part.positions:
                answer = answers[position]
                redirect = parse_redirect(str(answer), host) if isinstance(answer, ErrorReply) else None
                if redirect is None:
                    continue
                try:
                    link = await self._target(redirect)
                except Unavailable as error:
                    answers[position] = error
                    continue
                at = (link, not redirect.is_moved)
                found.setdefault(at, Part(*at)).add(position, calls[position])
        return list(found.values())

    async def _target(self, redirect: Redirect) -> Link:
        if redirect.is_moved:
            return await self._topology.learn(redirect.slot, redirect.place)
        return await self._topology.link_to(redirect.place)

    # --- feeds ------------------------------------------------------------------------------------

    def _locate(self, slot: int) -> Address:
        self._topology.refresh_soon()  # that server may have refused the caller
        return self._topology.owners[slot].address

    def _follow(self) -> None:
        for feed in self._feeds:
            feed.follow()


def _begin(part: Part) -> asyncio.Future[Run]:
    """Start a part. A task waits for a link that is down."""
    try:
        future = part.link.begin(part.calls)
    except Unavailable as error:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(error)
    return future or asyncio.ensure_future(part.link.exchange(part.calls))


async def _settle(part: Part, future: asyncio.Future[Run], answers: list[Any]) -> bool:
    """Put a part's answers in their places. Returns whether something is wrong."""
    try:
        run = await future
        if run.is_faulty:
            await part.link.mend(part.calls, run)
    except Unavailable as error:
        for position in part.positions:
            answers[position] = error
        return True
    for position, answer in zip(part.positions, part.answers_of(run), strict=True):
        answers[position] = answer
    return run.is_faulty


def _drop(future: asyncio.Future[Run]) -> None:
    """Drop an answer that nobody takes any more: the caller was cancelled."""
    if not future.cancel() and not future.cancelled():
        future.exception()  # seen, so that the loop does not report it as forgotten


def _verdict(calls: Sequence[Call[Any]], answers: Sequence[Any]) -> Exception:
    """The one error for a run, a mistake of ours first. It is ambiguous when a call was done, or may have been."""
    answers = [_settled(answer) for answer in answers]
    lost = [answer for answer in answers if isinstance(answer, Unavailable)]
    if not lost:
        return verdict(calls, answers)
    refused = [pair for pair in zip(calls, answers, strict=True) if isinstance(pair[1], ErrorReply)]
    mistake = verdict(*zip(*refused, strict=True)) if refused else None
    if isinstance(mistake, KeyspaceMistake):
        return mistake
    is_done = len(lost) + len(refused) < len(calls)
    return Unavailable(str(lost[0]), is_ambiguous=is_done or any(error.is_ambiguous for error in lost))


def _settled(answer: Any) -> Any:
    """Read an answer. A redirection that led nowhere is a temporary failure, and nothing was done."""
    if isinstance(answer, ErrorReply) and answer.code in ("MOVED", "ASK"):
        return ErrorReply("TRYAGAIN the slot keeps moving")
    return answer


async def open_cluster(
    url: str, scripts: Iterable[str], clock: Clock, count: Callable[[int], None] = lambda commands: None
) -> ClusterKeyspace:
    """Connect to every primary. Raises Unavailable with the reason in one line, and ValueError for a bad URL."""
    topology = Topology(parse_cluster_url(url), scripts, clock, count)
    await topology.open()
    return ClusterKeyspace(topology, clock)
