"""Devices and pending deliveries on SQLite: two of the ports of ports_push.py, on the threads of tables_sqlite.py.

Guards: a push token is in one row only, so that a phone that changes hands never hears of its former owner's messages;
a pending row's end never goes back. The two tables are made when they are missing, so an older file gets them.
Opened by wiring.py with `open_devices`, after the tables themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings import bounds
from tidings.model_push import Device, Waiting
from tidings.stores.sqlite_engine import Bulk, Hop, Threads

_DEVICE = Device.__struct_fields__
_WAITING = Waiting.__struct_fields__

_SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS devices (
      user_id       TEXT    NOT NULL,
      device_id     TEXT    NOT NULL,
      provider      TEXT    NOT NULL,
      token         TEXT    NOT NULL,
      p256dh        TEXT,
      auth          TEXT,
      registered_ms INTEGER NOT NULL,
      last_seen_ms  INTEGER NOT NULL,
      PRIMARY KEY (user_id, device_id)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS device_token ON devices (provider, token)",
    """
    CREATE TABLE IF NOT EXISTS pending_deliveries (
      user_id         TEXT    NOT NULL,
      conversation_id TEXT    NOT NULL,
      first_seq       INTEGER NOT NULL,
      last_seq        INTEGER NOT NULL,
      since_ms        INTEGER NOT NULL,
      expires         INTEGER NOT NULL,
      PRIMARY KEY (user_id, conversation_id)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS pending_expires ON pending_deliveries (expires)",
)


async def open_devices(reads: Threads, writes: Threads) -> SqliteDevices:
    """On the threads of the tables; makes the two tables if need be."""
    await writes.run(_prepare)
    return SqliteDevices(reads, writes)


class SqliteDevices:
    """The ports Devices and Pending. Each method is one errand; its promises are written in ports_push.py."""

    def __init__(self, reads: Threads, writes: Threads) -> None:
        self._read = reads.run
        self._write = writes.run

    async def put_device(self, device: Device) -> None:
        await self._write(partial(_put_device, device))

    async def devices(self, user_id: str) -> list[Device]:
        return await self._read(partial(_devices, user_id))

    async def devices_of(self, user_ids: Iterable[str]) -> dict[str, list[Device]]:
        return await self._read(partial(_devices_of, tuple(user_ids)))

    async def touch_devices(self, seen: Mapping[tuple[str, str], int]) -> None:
        """Most devices are not registered: then the writer is left alone."""
        known: list[tuple[str, str]] = await self._read(partial(_registered, tuple(seen)))
        if known:
            await self._write(partial(_touch_devices, [(*key, seen[key]) for key in known]))

    async def remove_device(self, user_id: str, *, device_id: str | None = None, token: str | None = None) -> int:
        return await self._write(partial(_remove_device, user_id, device_id, token))

    async def put_waiting(self, rows: Sequence[Waiting]) -> None:
        await self._write(partial(_put_waiting, rows))

    async def waiting(self, conversation_id: str, user_ids: Iterable[str]) -> dict[str, Waiting]:
        return await self._read(partial(_waiting, conversation_id, tuple(user_ids)))

    async def waiting_of(self, user_id: str) -> list[Waiting]:
        return await self._read(partial(_waiting_of, user_id))

    async def clear_waiting(self, marks: Sequence[tuple[str, str, int]]) -> None:
        is_any: bool = bool(marks) and await self._read(partial(_is_any_waiting, marks))
        if is_any:
            await self._write(partial(_clear_waiting, marks))

    async def expire_waiting(self, now_ms: int) -> int:
        """Found by a reader, which disturbs nobody; removed by the writer, some at a time, if it still is so."""
        expired = 0
        while found := await self._read(partial(_useless, now_ms)):
            expired += await self._write(partial(_expire, now_ms, found))
        return expired


def _prepare(hop: Hop) -> None:
    for sql in _SCHEMA:
        hop.execute(sql)


def _names(fields: Sequence[str], table: str = "") -> str:
    return ", ".join(f"{table}.{field}" if table else field for field in fields)


def _json(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(dict.fromkeys(values))).decode()


# --- devices --------------------------------------------------------------------------------------
_TAKE_TOKEN = """
    DELETE FROM devices WHERE provider = ? AND token = ? AND (user_id, device_id) IS NOT (?, ?)
"""
_PUT_DEVICE = f"INSERT OR REPLACE INTO devices ({_names(_DEVICE)}) VALUES ({','.join('?' * len(_DEVICE))})"
_CROWD_OUT = """
    DELETE FROM devices WHERE user_id = ?1 AND device_id IN (
      SELECT device_id FROM devices WHERE user_id = ?1 AND device_id <> ?2
      ORDER BY last_seen_ms DESC, device_id LIMIT -1 OFFSET ?3
    )
"""
_DEVICES = f"SELECT {_names(_DEVICE)} FROM devices WHERE user_id = ? ORDER BY device_id"
_DEVICES_OF = f"""
    SELECT {_names(_DEVICE, "d")} FROM json_each(?) AS named
    CROSS JOIN devices AS d ON d.user_id = named.value ORDER BY d.user_id, d.device_id
"""
_REGISTERED = """
    SELECT d.user_id, d.device_id FROM json_each(?) AS named
    CROSS JOIN devices AS d ON d.user_id = named.value ->> 0 AND d.device_id = named.value ->> 1
"""
_TOUCH_DEVICE = "UPDATE devices SET last_seen_ms = max(last_seen_ms, ?3) WHERE user_id = ?1 AND device_id = ?2"
_REMOVE_DEVICE = """
    DELETE FROM devices WHERE user_id = ?1 AND (?2 IS NULL OR device_id = ?2) AND (?3 IS NULL OR token = ?3)
"""


def _put_device(device: Device, hop: Hop) -> None:
    hop.write("devices", _TAKE_TOKEN, (device.provider, device.token, device.user_id, device.device_id))
    hop.write("devices", _PUT_DEVICE, msgspec.structs.astuple(device))
    others_max = bounds.DEVICES_PER_USER_MAX - 1
    hop.write("devices", _CROWD_OUT, (device.user_id, device.device_id, others_max))


def _devices(user_id: str, hop: Hop) -> list[Device]:
    return [_device(row) for row in hop.rows("devices", _DEVICES, (user_id,))]


def _devices_of(user_ids: Sequence[str], hop: Hop) -> dict[str, list[Device]]:
    found: dict[str, list[Device]] = {}
    for device in map(_device, hop.rows("devices", _DEVICES_OF, (_json(user_ids),))):
        found.setdefault(device.user_id, []).append(device)
    return found


def _registered(keys: Sequence[tuple[str, str]], hop: Hop) -> list[tuple[str, str]]:
    return hop.rows("devices", _REGISTERED, (_json(keys),))


def _touch_devices(seen: Sequence[tuple[str, str, int]], hop: Hop) -> None:
    for one in seen:
        hop.write("devices", _TOUCH_DEVICE, one)


def _remove_device(user_id: str, device_id: str | None, token: str | None, hop: Hop) -> int:
    return hop.write("devices", _REMOVE_DEVICE, (user_id, device_id, token))


def _device(row: Sequence[Any]) -> Device:
    return Device(**dict(zip(_DEVICE, row, strict=True)))


# --- pending deliveries ---------------------------------------------------------------------------
_PUT_WAITING = Bulk(
    "pending_deliveries",
    f"""
    INSERT INTO pending_deliveries ({_names(_WAITING)}) VALUES {{values}}
    ON CONFLICT DO UPDATE SET last_seq = max(last_seq, excluded.last_seq), expires = max(expires, excluded.expires)
    """,
    len(_WAITING),
)
_WAITING_IN = f"""
    SELECT {_names(_WAITING, "p")} FROM json_each(?2) AS named
    CROSS JOIN pending_deliveries AS p ON p.user_id = named.value AND p.conversation_id = ?1
"""
_WAITING_OF = f"SELECT {_names(_WAITING)} FROM pending_deliveries WHERE user_id = ? ORDER BY conversation_id"
_MARKED = """
    SELECT 1 FROM json_each(?) AS mark CROSS JOIN pending_deliveries AS p
    ON p.user_id = mark.value ->> 1 AND p.conversation_id = mark.value ->> 0
    WHERE p.first_seq <= mark.value ->> 2 LIMIT 1
"""
_CLEAR = "DELETE FROM pending_deliveries WHERE conversation_id = ? AND user_id = ? AND last_seq <= ?"
_SHORTEN = """
    UPDATE pending_deliveries SET first_seq = ?3 + 1
    WHERE conversation_id = ?1 AND user_id = ?2 AND first_seq <= ?3
"""
_IS_USELESS = """
    expires <= ? OR NOT EXISTS (
      SELECT 1 FROM members AS m
      WHERE m.conversation_id = p.conversation_id AND m.user_id = p.user_id AND m.left_seq IS NULL
    ) OR EXISTS (
      SELECT 1 FROM message_status AS s
      WHERE s.conversation_id = p.conversation_id AND s.user_id = p.user_id AND s.delivered_seq >= p.last_seq
    )
"""
_USELESS = f"SELECT user_id, conversation_id FROM pending_deliveries AS p WHERE {_IS_USELESS} LIMIT ?"
_EXPIRE = f"DELETE FROM pending_deliveries AS p WHERE user_id = ? AND conversation_id = ? AND ({_IS_USELESS})"


def _put_waiting(rows: Sequence[Waiting], hop: Hop) -> None:
    _PUT_WAITING.write(hop, [msgspec.structs.astuple(row) for row in rows])


def _waiting(conversation_id: str, user_ids: Sequence[str], hop: Hop) -> dict[str, Waiting]:
    found = hop.rows("pending_deliveries", _WAITING_IN, (conversation_id, _json(user_ids)))
    return {row[0]: _waiting_row(row) for row in found}


def _waiting_of(user_id: str, hop: Hop) -> list[Waiting]:
    return [_waiting_row(row) for row in hop.rows("pending_deliveries", _WAITING_OF, (user_id,))]


def _is_any_waiting(marks: Sequence[tuple[str, str, int]], hop: Hop) -> bool:
    """Nearly every receipt comes in time and has no row to clear: then the writer is left alone."""
    return bool(hop.rows("pending_deliveries", _MARKED, (_json(marks),)))


def _clear_waiting(marks: Sequence[tuple[str, str, int]], hop: Hop) -> None:
    for mark in marks:
        hop.write("pending_deliveries", _CLEAR, mark)
        hop.write("pending_deliveries", _SHORTEN, mark)


def _useless(now_ms: int, hop: Hop) -> list[tuple[str, str]]:
    return hop.rows("pending_deliveries", _USELESS, (now_ms // 1000, bounds.SQLITE_DELETE_CHUNK))


def _expire(now_ms: int, keys: Sequence[tuple[str, str]], hop: Hop) -> int:
    return sum(hop.write("pending_deliveries", _EXPIRE, (*key, now_ms // 1000)) for key in keys)


def _waiting_row(row: Sequence[Any]) -> Waiting:
    return Waiting(**dict(zip(_WAITING, row, strict=True)))
