"""The keyspace on one Valkey or Redis server, reached by a URL.

It turns raw answers into values, and error replies into the two errors that a caller can act on. `Unavailable` is
temporary, and says whether the calls may have run. `KeyspaceMistake` is ours, and no retry hides it. The embedded
server and a remote one are used alike.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar
from weakref import WeakSet

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import Call, op_of
from tidings.stores.keyspace.link import EpochListener, Link
from tidings.stores.keyspace.subscription import Feed
from tidings.stores.keyspace.wire import ErrorReply, Run, parse_address

R = TypeVar("R")

# Refused before anything was done, and another time it may work: starting, failing over, full, or busy.
PASSING_CODES = frozenset(
    ("LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "OOM", "MISCONF", "BUSY", "NOREPLICAS")
)


class KeyspaceMistake(RuntimeError):
    """The server refused a command that we should not have sent. Names the command, never its arguments."""


class SingleKeyspace:
    """All slots on one server: the `Keyspace` protocol of call.py over one link."""

    is_cluster = False

    def __init__(self, link: Link) -> None:
        self._link = link
        self._feeds: WeakSet[Feed] = WeakSet()
        link.on_epoch(self._follow)

    def begin(self, calls: Sequence[Call[R]]) -> Awaitable[list[R]]:
        """Send without a task. Nothing runs until the caller awaits the answers."""
        try:
            return self.run(calls, self._link.begin(calls))
        except Unavailable:
            return self.run(calls)

    async def run(self, calls: Sequence[Call[R]], begun: Future[Run] | None = None) -> list[R]:
        try:
            run = await self._link.exchange(calls, begun)
        except Unavailable as error:
            error.locate("keyspace", op_of(calls))
            raise
        if run.is_faulty:
            raise verdict(calls, run.answers)
        return [call.parse(answer) for call, answer in zip(calls, run.answers, strict=True)]

    async def one(self, call: Call[R]) -> R:
        return (await self.run((call,)))[0]

    def epoch(self, key: str) -> str:
        return self._link.epoch

    def is_up(self) -> bool:
        return self._link.is_up

    def server_of(self, key: str) -> str:
        return self._link.label

    def on_epoch(self, listener: EpochListener) -> None:
        """Call `listener(old, new)` whenever another life of the server is found."""
        self._link.on_epoch(listener)

    async def subscribe(
        self, channel: str, on_message: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> Feed:
        """Listen to a sharded channel, on a connection of its own; raises Unavailable."""
        feed = Feed(lambda: self._link.address, channel, self._link.clock, on_message, on_subscribed)
        await feed.open()
        self._feeds.add(feed)
        return feed

    def _follow(self, old: str, new: str) -> None:
        """The link may have gone to another server: the subscriptions must be there too."""
        for feed in self._feeds:
            feed.follow()

    async def close(self) -> None:
        await self._link.close()


def verdict(calls: Sequence[Call[Any]], answers: Sequence[Any]) -> Exception:
    """The one error for a run with refusals. Ambiguous exactly when some other call of the run was carried out."""
    pairs = zip(calls, answers, strict=True)
    refused = [(call, answer) for call, answer in pairs if isinstance(answer, ErrorReply)]
    for call, answer in refused:
        if answer.code not in PASSING_CODES:
            return KeyspaceMistake(f"{op_of([call])}: {_without_arguments(answer)}")
    text = _without_arguments(refused[0][1])
    op = op_of([call for call, _ in refused])
    return Unavailable(f"the keyspace refuses: {text}", is_ambiguous=len(refused) < len(calls), store="keyspace", op=op)


def _without_arguments(refusal: ErrorReply) -> str:
    """The refusal without arguments: servers quote those of a command that they do not know."""
    return str(refusal).partition(", with args")[0][:200]


async def open_keyspace(
    url: str, scripts: Iterable[str], clock: Clock, count: Callable[[int], None] = lambda commands: None
) -> SingleKeyspace:
    """Connect within KEYSPACE_CONNECT_S. Raises Unavailable with a reason of one line, and ValueError for a bad URL."""
    return await open_link(Link(parse_address(url), scripts, clock, count))


async def open_link(link: Link) -> SingleKeyspace:
    """Connect the link to a server that is no part of a cluster. Raises Unavailable."""
    await link.open()
    if link.is_cluster:
        await link.close()
        raise Unavailable(f"{link.label}: it is part of a cluster; a single server is needed")
    return SingleKeyspace(link)
