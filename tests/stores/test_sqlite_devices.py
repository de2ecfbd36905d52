"""The contracts of devices and pending deliveries on SQLite, and that an older file gets its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts import fresh
from tests.contracts.devices import DevicesContract, device
from tests.contracts.pending import PendingContract, waiting
from tidings.clock import Clock
from tidings.stores.ports import Tables
from tidings.stores.sqlite_devices import SqliteDevices, open_devices
from tidings.stores.tables_sqlite import SqliteTables, open_sqlite


@pytest.fixture
def counted() -> Counter[str]:
    return Counter()


@pytest.fixture
async def sqlite(tmp_path: Path, counted: Counter[str]) -> AsyncIterator[SqliteTables]:
    def count(table: str, rows: int) -> None:
        counted[table] += rows

    tables = await open_sqlite(tmp_path / "tidings.db", count_read=count, count_write=count, clock=Clock())
    yield tables
    await tables.close()


@pytest.fixture
async def devices(sqlite: SqliteTables) -> SqliteDevices:
    return await open_devices(sqlite.reads, sqlite.writes)


@pytest.fixture
def pending(devices: SqliteDevices) -> SqliteDevices:
    return devices


@pytest.fixture
def tables(sqlite: SqliteTables) -> Tables:
    return sqlite


class TestDevices(DevicesContract): ...


class TestPending(PendingContract): ...


async def test_everything_is_there_after_it_was_closed_and_opened_again(tmp_path: Path) -> None:
    path, kept, row = tmp_path / "kept.db", device("bob"), waiting("bob", "c1", 1, 2)
    for is_first in (True, False):
        tables = await open_sqlite(path, count_read=lambda t, n: None, count_write=lambda t, n: None, clock=Clock())
        devices = await open_devices(tables.reads, tables.writes)
        if is_first:
            await devices.put_device(kept)
            await devices.put_waiting([row])
        assert (await devices.devices("bob"), await devices.waiting_of("bob")) == ([kept], [row])
        await tables.close()


async def test_a_receipt_without_a_row_leaves_the_writer_alone(
    devices: SqliteDevices, sqlite: SqliteTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    await devices.put_waiting([waiting("bob", "c1", 5, 9)])

    async def refused(work: object) -> None:
        raise AssertionError("the writer was asked")

    monkeypatch.setattr(devices, "_write", refused)
    await devices.clear_waiting([("c1", "bob", 4), ("c2", "bob", 9), ("c1", "carol", 9)])
    assert await devices.waiting_of("bob") == [waiting("bob", "c1", 5, 9)]


async def test_rows_are_counted_under_their_tables(devices: SqliteDevices, counted: Counter[str]) -> None:
    user_id = fresh("user")
    await devices.put_device(device(user_id))
    await devices.put_waiting([waiting(user_id, "c1", 1, 2)])
    assert counted["devices"] == 1 and counted["pending_deliveries"] == 1
