"""DynamoDB tables for tests of the adapter's parts: opened, counted, and with faults when asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from tidings.clock import Clock
from tidings.stores.tables.dynamodb import adapter
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.operations import Store
from tidings.stores.tables.dynamodb.log import DynamoLog
from tidings.stores.tables.ports import Counts as Counters
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal
from tidings_proof.world.dynamodb_shim import Choose


class Counts:
    """What the metrics would be told."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.units: dict[str, float] = {"read": 0.0, "write": 0.0}

    async def open(self, url: str) -> Tables:
        return await adapter.open(url, Counters(read=self._read, write=self._write, units=self._units), Clock())

    @asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[Tables]:
        tables = await self.open(url)
        try:
            yield tables
        finally:
            await tables.close()

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]

    def _read(self, table: str, rows: int) -> None:
        self.reads[table] += rows

    def _write(self, table: str, rows: int) -> None:
        self.writes[table] += rows

    def _units(self, kind: str, units: float) -> None:
        self.units[kind] += units


def store_of(tables: Tables) -> Store:
    """The requests below the ports."""
    assert isinstance(tables.log, DynamoLog)
    return tables.log._store


class Once:
    """A fault for the first requests that fit, then none: `Once("lost", "TransactWriteItems")`."""

    def __init__(self, kind: str, action: str, *, table: str = "", times: int = 1) -> None:
        self._kind, self._action, self._table = kind, action, table
        self.left = times

    def __call__(self, action: str, payload: dict[str, Any]) -> str | None:
        name = payload.get("TableName", "")
        if self.left and action == self._action and name.endswith(self._table):
            self.left -= 1
            return self._kind
        return None


def never_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an operation end at its first trouble, because no pause fits its time. A slow answer is no trouble."""
    monkeypatch.setattr(bounds, "PAUSE_S", 1e12)


@contextmanager
def faults(dynamodb: DynamoLocal, choose: Choose | Callable[..., str | None]) -> Iterator[None]:
    dynamodb.shim.choose = choose
    try:
        yield
    finally:
        dynamodb.shim.choose = None
