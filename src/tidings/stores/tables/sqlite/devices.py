"""devices on SQLite.

A push token is in one row only, so that a phone that changes hands never hears of its former owner's messages. Each
function at module level is the work of one request: it runs on a thread of engine.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from tidings import bounds
from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import json_of, names, values_of
from tidings.stores.tables.values import Device
from tidings.stores.tables.whole import DEVICES

_DEVICE, _device = DEVICES.columns, DEVICES.value_of

_FORMER = """
    SELECT user_id, device_id FROM devices WHERE provider = ? AND token = ? AND (user_id, device_id) IS NOT (?, ?)
"""
_TAKE_TOKEN = "DELETE FROM devices WHERE user_id = ? AND device_id = ?"
_PUT = f"INSERT OR REPLACE INTO devices ({names(_DEVICE)}) VALUES ({','.join('?' * len(_DEVICE))})"
_CROWD_OUT = """
    DELETE FROM devices WHERE user_id = ?1 AND device_id IN (
      SELECT device_id FROM devices WHERE user_id = ?1 AND device_id <> ?2
      ORDER BY last_seen_ms DESC, device_id LIMIT -1 OFFSET ?3
    )
"""
_OF_USERS = f"""
    SELECT {names(_DEVICE, "d")} FROM json_each(?) AS named
    CROSS JOIN devices AS d ON d.user_id = named.value ORDER BY d.user_id, d.device_id
"""
_REGISTERED = """
    SELECT d.user_id, d.device_id FROM json_each(?) AS named
    CROSS JOIN devices AS d ON d.user_id = named.value ->> 0 AND d.device_id = named.value ->> 1
"""
_TOUCH = "UPDATE devices SET last_seen_ms = max(last_seen_ms, ?3) WHERE user_id = ?1 AND device_id = ?2"
_REMOVE = """
    DELETE FROM devices WHERE user_id = ?1 AND (?2 IS NULL OR device_id = ?2) AND (?3 IS NULL OR token = ?3)
"""


class SqliteDevices(Port):
    async def put(self, device: Device) -> tuple[str, str] | None:
        return await self._write(partial(_put, device))

    async def of_user(self, user_id: str) -> list[Device]:
        return (await self.of_users([user_id])).get(user_id, [])

    async def of_users(self, user_ids: Iterable[str]) -> dict[str, list[Device]]:
        return await self._read(partial(_of_users, tuple(user_ids)))

    async def touch(self, seen: Mapping[tuple[str, str], int]) -> None:
        """Record when devices were seen. Most devices are not registered: then the writer has nothing to do."""
        keys = (json_of(seen),)
        known: list[tuple[str, str]] = await self._read(lambda tx: tx.rows("devices", _REGISTERED, keys))
        if known:
            await self._write(partial(_touch, [(*key, seen[key]) for key in known]))

    async def remove(self, user_id: str, *, device_id: str | None = None, token: str | None = None) -> int:
        return await self._write(lambda tx: tx.write("devices", _REMOVE, (user_id, device_id, token)))


def _put(device: Device, tx: Transaction) -> tuple[str, str] | None:
    former = tx.rows("devices", _FORMER, (device.provider, device.token, device.user_id, device.device_id))
    for owner in former:
        tx.write("devices", _TAKE_TOKEN, owner)
    tx.write("devices", _PUT, values_of(device))
    others_max = bounds.DEVICES_PER_USER_MAX - 1
    tx.write("devices", _CROWD_OUT, (device.user_id, device.device_id, others_max))
    return (former[0][0], former[0][1]) if former else None


def _of_users(user_ids: Sequence[str], tx: Transaction) -> dict[str, list[Device]]:
    found: dict[str, list[Device]] = {}
    for device in map(_device, tx.rows("devices", _OF_USERS, (json_of(user_ids),))):
        found.setdefault(device.user_id, []).append(device)
    return found


def _touch(seen: Sequence[tuple[str, str, int]], tx: Transaction) -> None:
    for one in seen:
        tx.write("devices", _TOUCH, one)
