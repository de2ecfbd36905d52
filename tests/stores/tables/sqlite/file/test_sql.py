"""Statements over many rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tidings.clock import Clock
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.engine import Transaction
from tidings.stores.tables.sqlite.file.sql import Bulk


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    sqlite_file.prepare(path, Clock())
    made = sqlite_file.connect(path)
    yield made
    made.close()


@pytest.mark.parametrize("count", [0, 1, 16, 17, 31, 33, 64, 100, 200])
def test_a_bulk_writes_every_row_once(connection: apsw.Connection, count: int) -> None:
    tx = Transaction(connection)
    bulk = Bulk("meta", "INSERT INTO meta (key, value) VALUES {values}", columns=2)
    assert bulk.write(tx, [(f"{number:04}", str(number)) for number in range(count)]) == count
    found = tx.rows("meta", "SELECT value FROM meta WHERE key < 'a' ORDER BY key", ())
    assert [int(value) for (value,) in found] == list(range(count))
    assert tx.take_tally() == ({"meta": count}, {"meta": count} if count else {})
