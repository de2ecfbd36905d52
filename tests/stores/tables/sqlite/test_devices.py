"""The contract of devices on SQLite, and how their rows are counted."""

from __future__ import annotations

from tests.contracts import fresh
from tests.contracts.devices import DevicesContract, device
from tests.stores.tables.sqlite.conftest import Counts
from tidings.stores.tables.ports import Tables


class TestDevices(DevicesContract): ...


async def test_a_device_is_counted_under_its_table(tables: Tables, counts: Counts) -> None:
    await tables.devices.put(device(fresh("user")))
    assert counts.writes == {"devices": 1}
