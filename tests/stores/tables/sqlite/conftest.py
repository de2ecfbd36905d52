"""Tables in a file of their own for each test, with what the metrics would be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidings.clock import Clock
from tidings.stores.tables.ports import Counts as Counters
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.sqlite import adapter


class Counts:
    """What the metrics would be told."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()

    async def open(self, path: Path) -> Tables:
        return await adapter.open(
            f"sqlite://{path}", Counters(read=self._read, write=self._write, units=lambda *_: None), Clock()
        )

    def _read(self, table: str, rows: int) -> None:
        self.reads[table] += rows

    def _write(self, table: str, rows: int) -> None:
        self.writes[table] += rows


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tidings.db"


@pytest.fixture
async def tables(path: Path, counts: Counts) -> AsyncIterator[Tables]:
    tables: Tables = await counts.open(path)
    yield tables
    await tables.close()
