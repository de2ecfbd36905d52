"""A keyspace command as a value: what to say, where it belongs, how to read the answer.

Use cases build `Call`s and hand many of them to `Keyspace.run` at once: one round trip, answers in order. A call that
`needs_epoch` gets the epoch of the very connection it is written to, so a command can never reach another life of the
server with the old one's epoch in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tidings.errors import Unavailable

R = TypeVar("R")
Arg = str | bytes | int


class Call(Generic[R]):
    """One command. `words` is complete, except that the epoch is inserted at `epoch_at` when the call is written."""

    __slots__ = ("epoch_at", "key", "parse", "words")

    def __init__(
        self, key: str, words: tuple[Arg, ...], parse: Callable[[Any], R], epoch_at: int | None = None
    ) -> None:
        self.key = key  # decides the slot
        self.words = words
        self.parse = parse
        self.epoch_at = epoch_at


class Keyspace(Protocol):
    """A Valkey or Redis: one server or a cluster."""

    async def run(self, calls: Sequence[Call[R]]) -> list[R]:
        """All calls in one round trip per server; answers in order.

        Raises errors.Unavailable(is_ambiguous=True) when the answers are lost; a script that is not loaded is loaded
        and the call repeated. An error reply raises too: it is a mistake of ours.
        """
        ...

    def begin(self, calls: Sequence[Call[R]]) -> Awaitable[list[R]]:
        """`run`, under way when this returns; whoever begins awaits it. Raises nothing before that."""
        ...

    async def one(self, call: Call[R]) -> R: ...

    def epoch(self, key: str) -> str:
        """The epoch of the primary that serves this key now; raises Unavailable when it is unknown."""
        ...

    def is_up(self) -> bool: ...

    async def subscribe(
        self, channel: str, on_message: Callable[[bytes], None], on_subscribed: Callable[[], None]
    ) -> Subscription:
        """Listen to a sharded channel. `on_subscribed` is called after every (re)subscribe."""
        ...


class Subscription(Protocol):
    @property
    def is_up(self) -> bool: ...

    async def close(self) -> None: ...


def plain(key: str, *words: Arg, parse: Callable[[Any], Any] = lambda reply: reply) -> Call[Any]:
    """An ordinary command on one key."""
    return Call(key, words, parse)


async def each_alone(keyspace: Keyspace, calls: Sequence[Call[R]]) -> dict[int, R]:
    """Position -> answer, without those whose server does not answer: what one shard gave is not lost with another.

    Calls of one turn still leave together. Raises Unavailable when nobody answers.
    """
    answers = await asyncio.gather(*(keyspace.one(call) for call in calls), return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    if failed and (len(failed) == len(calls) or not all(isinstance(error, Unavailable) for error in failed)):
        raise next((error for error in failed if not isinstance(error, Unavailable)), failed[0])
    return {at: answer for at, answer in enumerate(answers) if not isinstance(answer, BaseException)}
