"""The keyspace on one Valkey or Redis server, reached by a URL: what use cases hand their calls to.

It turns raw answers into values and error replies into the two things a caller can act on: `Unavailable` (the moment's
trouble, with the truth about ambiguity) and `KeyspaceMistake` (ours, never hidden by a retry). wiring.py opens it, for
the embedded server as for a remote one.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.calls import Call
from tidings.stores.keyspace_feed import Feed
from tidings.stores.keyspace_link import EpochListener, Link
from tidings.stores.keyspace_wire import ErrorReply, Run, parse_address

R = TypeVar("R")

# Refused before anything was done, and another time it may work: starting, failing over, full, or busy.
PASSING_CODES = frozenset(
    ("LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "OOM", "MISCONF", "BUSY", "NOREPLICAS")
)


class KeyspaceMistake(RuntimeError):
    """The server refused a command that we should not have sent. Names the command, never its arguments."""


class SingleKeyspace:
    """All slots on one server: the `Keyspace` protocol of calls.py over one link."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def begin(self, calls: Sequence[Call[R]]) -> Awaitable[list[R]]:
        """Without a task: what is sent needs nobody until the answers are wanted."""
        try:
            return self.run(calls, self._link.begin(calls))
        except Unavailable:
            return self.run(calls)

    async def run(self, calls: Sequence[Call[R]], begun: Future[Run] | None = None) -> list[R]:
        run = await self._link.exchange(calls, begun)
        if run.is_faulty:
            raise verdict(calls, run.answers)
        return [call.parse(answer) for call, answer in zip(calls, run.answers, strict=True)]

    async def one(self, call: Call[R]) -> R:
        return (await self.run((call,)))[0]

    def epoch(self, key: str) -> str:
        return self._link.epoch

    def is_up(self) -> bool:
        return self._link.is_up

    def on_epoch(self, listener: EpochListener) -> None:
        """`listener(old, new)` whenever another life of the server is met."""
        self._link.on_epoch(listener)

    async def subscribe(
        self, channel: str, on_message: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> Feed:
        """Listen to a sharded channel, on a connection of its own; raises Unavailable."""
        feed = Feed(lambda: self._link.address, channel, self._link.clock, on_message, on_subscribed)
        await feed.open()
        return feed

    async def close(self) -> None:
        await self._link.close()


def verdict(calls: Sequence[Call[Any]], answers: Sequence[Any]) -> Exception:
    """The one error for a run with refusals. Ambiguous exactly when some other call of the run was carried out."""
    pairs = zip(calls, answers, strict=True)
    refused = [(call, answer) for call, answer in pairs if isinstance(answer, ErrorReply)]
    for call, answer in refused:
        if answer.code not in PASSING_CODES:
            return KeyspaceMistake(f"{_command_name(call)}: {_without_arguments(answer)}")
    text = _without_arguments(refused[0][1])
    return Unavailable(f"the keyspace refuses: {text}", is_ambiguous=len(refused) < len(calls))


def _command_name(call: Call[Any]) -> str:
    name = call.words[0]
    return name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)


def _without_arguments(refusal: ErrorReply) -> str:
    """Servers quote the arguments of a command that they do not know."""
    return str(refusal).partition(", with args")[0][:200]


async def open_keyspace(
    url: str, scripts: Iterable[str], clock: Clock, count: Callable[[int], None] = lambda commands: None
) -> SingleKeyspace:
    """Connected, or Unavailable with the reason in one line within KEYSPACE_CONNECT_S. A bad URL is a ValueError."""
    link = Link(parse_address(url), scripts, clock, count)
    await link.open()
    if link.is_cluster:
        await link.close()
        raise Unavailable(f"{link.label}: it is part of a cluster; a single server is needed")
    return SingleKeyspace(link)
