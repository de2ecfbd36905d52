"""devices on PostgreSQL.

A push token is in one row only, so that a phone that changes hands never hears of its former owner's messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidings import bounds
from tidings.stores.tables.postgres.server.database import Port, columns, names
from tidings.stores.tables.values import Device
from tidings.stores.tables.whole import DEVICES

_DEVICE, _device = DEVICES.columns, DEVICES.value_of

# Two devices that register one token at the same moment take turns, and the later one has it.
_LOCK = "SELECT pg_advisory_xact_lock(hashtext($1))"
_TAKE_TOKEN = """
    DELETE FROM @devices WHERE provider = $1 AND token = $2 AND (user_id, device_id) IS DISTINCT FROM ($3, $4)
    RETURNING user_id, device_id
"""
_PUT = f"""
    INSERT INTO @devices ({names(_DEVICE)}) VALUES ({", ".join(f"${at + 1}" for at in range(len(_DEVICE)))})
    ON CONFLICT (user_id, device_id) DO UPDATE SET {", ".join(f"{field} = excluded.{field}" for field in _DEVICE[2:])}
"""
_CROWD_OUT = """
    DELETE FROM @devices WHERE user_id = $1 AND device_id IN (
      SELECT device_id FROM @devices WHERE user_id = $1 AND device_id <> $2
      ORDER BY last_seen_ms DESC, device_id OFFSET $3
    )
"""
_OF_USERS = f"SELECT {names(_DEVICE)} FROM @devices WHERE user_id = ANY($1::text[]) ORDER BY user_id, device_id"
_TOUCH = """
    UPDATE @devices AS d SET last_seen_ms = greatest(d.last_seen_ms, v.seen_ms)
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS v (user_id, device_id, seen_ms)
    WHERE d.user_id = v.user_id AND d.device_id = v.device_id
"""
_REMOVE = """
    DELETE FROM @devices
    WHERE user_id = $1 AND ($2::text IS NULL OR device_id = $2) AND ($3::text IS NULL OR token = $3)
"""


class PostgresDevices(Port):
    async def put(self, device: Device) -> tuple[str, str] | None:
        async with self._database.transaction() as tx:
            await tx.rows("devices", _LOCK, f"device {device.provider} {device.token}")
            key = (device.provider, device.token, device.user_id, device.device_id)
            former = await tx.changed("devices", _TAKE_TOKEN, *key)
            await tx.write("devices", _PUT, *DEVICES.row_of(device))
            others_max = bounds.DEVICES_PER_USER_MAX - 1
            await tx.write("devices", _CROWD_OUT, device.user_id, device.device_id, others_max)
        return (former[0][0], former[0][1]) if former else None

    async def of_user(self, user_id: str) -> list[Device]:
        return (await self.of_users([user_id])).get(user_id, [])

    async def of_users(self, user_ids: Iterable[str]) -> dict[str, list[Device]]:
        found: dict[str, list[Device]] = {}
        for row in await self._database.rows("devices", _OF_USERS, list(dict.fromkeys(user_ids))):
            device = _device(row)
            found.setdefault(device.user_id, []).append(device)
        return found

    async def touch(self, seen: Mapping[tuple[str, str], int]) -> None:
        if seen:
            values = sorted((*key, seen_ms) for key, seen_ms in seen.items())
            await self._database.write("devices", _TOUCH, *columns(values, 3))

    async def remove(self, user_id: str, *, device_id: str | None = None, token: str | None = None) -> int:
        return await self._database.write("devices", _REMOVE, user_id, device_id, token)
