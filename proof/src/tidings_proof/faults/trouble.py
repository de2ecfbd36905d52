"""Trouble inside a node, for torture only: a clock that jumps, tables that refuse and lose their answers.

A node that `planted.py` starts reads a small file for it, so whoever tortures it writes the file and the node changes
at once; without a file nothing is different. The stores below are the real ones: a fault loses a request before it
arrives, or its answer after it was carried out.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.errors import Throttled, Unavailable
from tidings.node import graph
from tidings.node.stores import Stores
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Answer, Group

VARIABLE = "TORTURE_TROUBLE"  # names the file; not a setting of Tidings, so it has another prefix
_PORTS = ("log", "conversations", "inboxes", "statuses")
_WRITES = frozenset(("append", "put", "deliver", "touch", "create"))
_READS = frozenset(("page", "top", "unread", "seq_at", "heads", "members", "rows", "scan", "get", "of_conversation"))


class Trouble(msgspec.Struct, frozen=True):
    """Trouble: the chance of each fault per call, 0 to 1."""

    clock_ms: int = 0  # how far ahead the wall clock is
    refused: float = 0.0  # of writes and reads: nothing happened, and the node knows
    throttled: float = 0.0  # of writes: the same, in other words
    hot: float = 0.0  # of conversations: their appends are refused, and those of the others in the batch are not
    request_lost: float = 0.0  # of writes: nothing happened, and the node cannot know
    answer_lost: float = 0.0  # of writes: it happened, and the node cannot know
    slow_s: float = 0.0  # writes wait up to so long


class TroubleFile:
    """How it is told. Written whole, by rename: nobody reads half of it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp = (0, 0)
        self._now = Trouble()

    def write(self, trouble: Trouble) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(trouble))
        fresh.rename(self._file)

    def change(self, **fields: float) -> None:
        """These, and the rest as it is: several troubles may hold at once."""
        self.write(msgspec.structs.replace(self.read(), **fields))

    def read(self) -> Trouble:
        try:
            state = os.stat(self._file)
            stamp = (state.st_ino, state.st_mtime_ns)  # a new file may get an old one's number
            if stamp != self._stamp:
                self._now, self._stamp = msgspec.json.decode(self._file.read_bytes(), type=Trouble), stamp
        except OSError:
            return Trouble()
        return self._now


class TurnedClock(Clock):
    def __init__(self, file: TroubleFile) -> None:
        self._file = file

    def now_ms(self) -> int:
        return super().now_ms() + self._file.read().clock_ms


class TroubledPort:
    """A port of any tables, whose calls meet the trouble of the moment."""

    def __init__(self, port: Any, file: TroubleFile, clock: Clock) -> None:
        self._port = port
        self._file = file
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        do = self._append if name == "append" else getattr(self._port, name)
        if name in _WRITES:
            return self._troubled(do, self._write)
        return self._troubled(do, self._read) if name in _READS else do

    def _troubled(
        self, do: Callable[..., Awaitable[Any]], meet: Callable[[Trouble, Callable[[], Awaitable[Any]]], Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **fields: Any) -> Any:
            return await meet(self._file.read(), lambda: do(*args, **fields))

        return call

    def _strikes(self, chance: float) -> bool:
        return chance > 0 and self._clock.random_fraction() < chance

    async def _append(self, groups: Sequence[Group]) -> Sequence[Answer]:
        hot = [is_hot(group.conversation_id, self._file.read().hot) for group in groups]
        if not any(hot):
            answers: Sequence[Answer] = await self._port.append(groups)
            return answers
        if all(hot):
            raise Throttled("a hot key, says torture")
        cool = iter(await self._port.append([group for group, is_it in zip(groups, hot, strict=True) if not is_it]))
        return [Throttled("a hot key, says torture") if is_it else next(cool) for is_it in hot]

    async def _read(self, trouble: Trouble, do: Callable[[], Awaitable[Any]]) -> Any:
        if self._strikes(trouble.refused):
            raise Unavailable("refused, by torture")
        return await do()

    async def _write(self, trouble: Trouble, do: Callable[[], Awaitable[Any]]) -> Any:
        if trouble.slow_s:
            await asyncio.sleep(trouble.slow_s * self._clock.random_fraction())
        if self._strikes(trouble.throttled):
            raise Throttled("less, says torture")
        if self._strikes(trouble.request_lost):
            raise Unavailable("the request was lost, by torture", is_ambiguous=True)
        if self._strikes(trouble.answer_lost):
            await do()
            raise Unavailable("the answer was lost, by torture", is_ambiguous=True)
        return await self._read(trouble, do)


def is_hot(conversation_id: str, share: float) -> bool:
    """Whether the conversation is among the share of all that is hot: the same ones, on every node."""
    return zlib.crc32(conversation_id.encode()) % 1000 < share * 1000


def troubled(tables: Tables, file: TroubleFile, clock: Clock) -> Tables:
    ports: Any = {name: TroubledPort(getattr(tables, name), file, clock) for name in _PORTS}
    return replace(tables, **ports)


def install(file: TroubleFile) -> None:
    """From here on, stores opened in this process are troubled."""
    seam: Any = graph  # the one place from which a node opens its stores
    plain = seam.open_stores

    @asynccontextmanager
    async def open_stores(settings: Settings, clock: Clock, *, is_guest: bool) -> AsyncIterator[Stores]:
        async with plain(settings, TurnedClock(file), is_guest=is_guest) as stores:
            yield replace(stores, tables=troubled(stores.tables, file, clock))

    seam.open_stores = open_stores
