"""A keyspace command as a value: its words, the key that decides its server, and how its answer is read.

Use cases build `Call`s and hand many of them to `Keyspace.run` at once: one round trip, answers in order. A call that
`needs_epoch` gets the epoch of the very connection it is written to, so a command can never reach another life of the
server with the old one's epoch in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tidings.errors import Unavailable

R = TypeVar("R")
Arg = str | bytes | int
SLICE_STEPS = 500  # of calls in one slice: about a millisecond of the server
AT_ONCE_STEPS = 1_000  # a run of no more is not cut: the batches of all lanes leave together, and share their wake-ups


class Call(Generic[R]):
    """One command. `words` is complete, except that the epoch is inserted at `epoch_at` when the call is written.

    `epoch_tag` is added to that epoch: what was built under another tag counts as built in another epoch. `steps` say
    what the call costs the server, about 2 us each: 0 stands for as many as it has words.
    """

    __slots__ = ("epoch_at", "epoch_tag", "key", "parse", "steps", "words")

    def __init__(
        self,
        key: str,
        words: tuple[Arg, ...],
        parse: Callable[[Any], R],
        epoch_at: int | None = None,
        epoch_tag: str = "",
        steps: int = 0,
    ) -> None:
        self.key = key  # decides the slot
        self.words = words
        self.parse = parse
        self.epoch_at = epoch_at
        self.epoch_tag = epoch_tag
        self.steps = steps or len(words)


SCRIPT_NAMES: dict[Arg, str] = {}  # hash -> name of every script; each library adds its own


def op_of(calls: Sequence[Call[Any]]) -> str:
    """The names of the commands and scripts of a run, each once: the `op` of its error. No argument is among them."""
    names = [SCRIPT_NAMES.get(call.words[1]) if call.words[0] == b"EVALSHA" else _word(call) for call in calls]
    return " ".join(dict.fromkeys(name or "EVALSHA" for name in names))


def _word(call: Call[Any]) -> str:
    name = call.words[0]
    return name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)


class Keyspace(Protocol):
    """A Valkey or Redis: one server or a cluster. The keys of a call to a cluster share a slot."""

    is_cluster: bool

    async def run(self, calls: Sequence[Call[R]]) -> list[R]:
        """Run all calls in one round trip per server. Returns the answers in order.

        A script that is not loaded is loaded, and its call is repeated. Raises errors.Unavailable(is_ambiguous=True)
        when the answers are lost. An error reply raises too: it is a mistake of ours.
        """
        ...

    def begin(self, calls: Sequence[Call[R]]) -> Awaitable[list[R]]:
        """Start `run` now. The caller must await the result, and nothing is raised before that."""
        ...

    async def one(self, call: Call[R]) -> R: ...

    def epoch(self, key: str) -> str:
        """The epoch of the primary that serves this key now; raises Unavailable when it is unknown."""
        ...

    def is_up(self) -> bool: ...

    def server_of(self, key: str) -> str:
        """The name of the server that has this key now. Calls to one server do not wait for another."""
        ...

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


class Slices:
    """Runs many calls in slices. Calls of others pass in between, and several who run many take turns.

    A server and its connection do one thing after the other. Without slices everybody waits for the longest run.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._turn = asyncio.Lock()

    async def run(self, calls: Sequence[Call[R]]) -> list[R]:
        """Run the calls in their order. Their answers may be of different moments."""
        if sum([call.steps for call in calls]) <= AT_ONCE_STEPS:
            return await self._keyspace.run(calls) if calls else []
        answers: list[R] = []
        for some in _sliced(calls):
            async with self._turn:
                answers += await self._keyspace.run(some)
        return answers


def _sliced(calls: Sequence[Call[R]]) -> Iterator[Sequence[Call[R]]]:
    start = steps = 0
    for at, call in enumerate(calls):
        steps += call.steps
        if steps > SLICE_STEPS and at > start:
            yield calls[start:at]
            start, steps = at, call.steps
    if start < len(calls):
        yield calls[start:]


async def each_alone(keyspace: Keyspace, calls: Sequence[Call[R]]) -> dict[int, R]:
    """Run each call alone: position -> answer. A shard that does not answer does not lose the answers of the others.

    Calls of one turn still leave together. Raises Unavailable when nobody answers.
    """
    answers = await asyncio.gather(*(keyspace.one(call) for call in calls), return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    if failed and (len(failed) == len(calls) or not all(isinstance(error, Unavailable) for error in failed)):
        raise next((error for error in failed if not isinstance(error, Unavailable)), failed[0])
    return {at: answer for at, answer in enumerate(answers) if not isinstance(answer, BaseException)}
