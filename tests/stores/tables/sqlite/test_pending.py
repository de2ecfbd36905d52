"""The contract of pending deliveries on SQLite, and how little they ask of the writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.devices import device
from tests.contracts.pending import PendingContract, waiting
from tests.stores.tables.sqlite.conftest import Counts
from tidings.stores.tables.ports import Tables


class TestPending(PendingContract): ...


async def test_everything_is_there_after_it_was_closed_and_opened_again(path: Path, counts: Counts) -> None:
    kept, row = device("bob"), waiting("bob", "c1", 1, 2)
    for is_first in (True, False):
        tables = await counts.open(path)
        if is_first:
            await tables.devices.put(kept)
            await tables.pending.put([row])
        assert (await tables.devices.of_user("bob"), await tables.pending.of_user("bob")) == ([kept], [row])
        await tables.close()


async def test_a_receipt_without_a_row_leaves_the_writer_alone(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    await tables.pending.put([waiting("bob", "c1", 5, 9)])

    async def refused(work: object) -> None:
        raise AssertionError("the writer was asked")

    monkeypatch.setattr(tables.pending, "_write", refused)
    await tables.pending.clear([("c1", "bob", 4), ("c2", "bob", 9), ("c1", "carol", 9)])
    assert await tables.pending.of_user("bob") == [waiting("bob", "c1", 5, 9)]


async def test_a_row_is_counted_under_its_table(tables: Tables, counts: Counts) -> None:
    await tables.pending.put([waiting("bob", "c1", 1, 2)])
    assert counts.writes == {"pending_deliveries": 1}
