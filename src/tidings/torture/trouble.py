"""Trouble inside a node, for torture only: a clock that jumps, tables that refuse and lose their answers.

A node that `planted.py` starts reads a small file for it, so whoever tortures it writes the file and the node changes
at once; without a file nothing is different. The stores below are the real ones: a fault loses a request before it
arrives, or its answer after it was carried out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tidings import wiring
from tidings.clock import Clock
from tidings.config import Settings
from tidings.errors import Throttled, Unavailable
from tidings.opening import Stores

VARIABLE = "TORTURE_TROUBLE"  # names the file; not a setting of Tidings, so it has another prefix
_WRITES = frozenset(("append", "put", "deliver", "touch", "create", "put_waiting", "clear_waiting"))
_READS = frozenset(("page", "top", "unread", "seq_at", "heads", "members", "rows", "scan", "get", "of_conversation"))


class Trouble(msgspec.Struct, frozen=True):
    """What goes wrong: chances are per call, 0 to 1."""

    clock_ms: int = 0  # how far ahead the wall clock is
    refused: float = 0.0  # of writes and reads: nothing happened, and the node knows
    throttled: float = 0.0  # of writes: the same, in other words
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


class TroubledTables:
    """Any tables, whose calls meet the trouble of the moment."""

    def __init__(self, tables: Any, file: TroubleFile, clock: Clock) -> None:
        self._tables = tables
        self._file = file
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        do = getattr(self._tables, name)
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


def install(file: TroubleFile) -> None:
    """From here on, stores opened in this process are troubled."""
    seam: Any = wiring  # the one place from which a node opens its stores
    plain = seam.open_stores

    @asynccontextmanager
    async def open_stores(settings: Settings, clock: Clock, *, is_guest: bool) -> AsyncIterator[Stores]:
        async with plain(settings, TurnedClock(file), is_guest=is_guest) as stores:
            tables: Any = TroubledTables(stores.tables, file, clock)
            yield replace(stores, tables=tables)

    seam.open_stores = open_stores
