"""message_status on SQLite: receipts go forward only, and a status is stored over the version it was made from.

Each function at module level is the work of one request: it runs on a thread of engine.py, in a transaction that it
does not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.errors import Conflict
from tidings.model import Ranges, Status
from tidings.stores.tables.sqlite.engine import Port, Transaction
from tidings.stores.tables.sqlite.inboxes import uncount_row
from tidings.stores.tables.sqlite.sql import Bulk, json_of, names

_STATUS = Status.__struct_fields__

_encode_ranges = msgspec.json.Encoder().encode
_decode_ranges = msgspec.json.Decoder(Ranges).decode

_STATUSES_NAMED = f"""
    SELECT {names(_STATUS, "s")} FROM json_each(?2) AS named
    CROSS JOIN message_status AS s ON s.conversation_id = named.value AND s.user_id = ?1
"""
# Of those who are present: the status of a member who left stays, because its version must never begin anew.
_STATUSES_OF = f"""
    SELECT {names(_STATUS, "s")} FROM members AS m INDEXED BY present
    CROSS JOIN message_status AS s ON s.conversation_id = m.conversation_id AND s.user_id = m.user_id
    WHERE m.conversation_id = ? AND m.left_seq IS NULL ORDER BY m.user_id
"""
_VERSION = "SELECT version, delivered_seq, read_seq FROM message_status WHERE conversation_id = ? AND user_id = ?"
_PUT_STATUS = f"INSERT OR REPLACE INTO message_status ({names(_STATUS)}) VALUES ({','.join('?' * len(_STATUS))})"
# A late mark must not bring back the row of someone who left, so it needs a present member. Its cursor counts for
# nothing (since_seq 0): a member who never read anything has the cursor of joining.
_DELIVER = Bulk(
    "message_status",
    f"""
    INSERT INTO message_status ({names(_STATUS)})
    SELECT v.column1, v.column2, v.column3, 0, 0, NULL, 0, 0 FROM (VALUES {{values}}) AS v
    CROSS JOIN members AS m ON m.conversation_id = v.column1 AND m.user_id = v.column2 AND m.left_seq IS NULL
    WHERE true
    ON CONFLICT DO UPDATE SET delivered_seq = excluded.delivered_seq WHERE excluded.delivered_seq > delivered_seq
    RETURNING conversation_id, user_id
    """,
    columns=3,
)


class SqliteStatuses(Port):
    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]:
        return await self._read(partial(_get, user_id, tuple(conversation_ids)))

    async def of_conversation(self, conversation_id: str) -> list[Status]:
        return await self._read(partial(_of_conversation, conversation_id))

    async def put(self, status: Status) -> Status:
        return await self._write(partial(put_status, status))

    async def deliver(self, marks: Sequence[tuple[str, str, int]]) -> set[tuple[str, str]]:
        return await self._write(partial(_deliver, marks))


def _get(user_id: str, conversation_ids: Iterable[str], tx: Transaction) -> dict[str, Status]:
    found = tx.rows("message_status", _STATUSES_NAMED, (user_id, json_of(conversation_ids)))
    return {row[0]: _status(row) for row in found}


def _of_conversation(conversation_id: str, tx: Transaction) -> list[Status]:
    return [_status(row) for row in tx.rows("message_status", _STATUSES_OF, (conversation_id,))]


def put_status(status: Status, tx: Transaction) -> Status:
    found = tx.rows("message_status", _VERSION, (status.conversation_id, status.user_id))
    version, delivered_seq, read_seq = found[0] if found else (0, 0, 0)
    if version != status.version - 1:
        raise Conflict(f"the status has version {version}, not {status.version - 1}")
    stored = msgspec.structs.replace(
        status,
        delivered_seq=max(delivered_seq, status.delivered_seq),
        read_seq=max(read_seq, status.read_seq),
    )
    tx.write("message_status", _PUT_STATUS, _status_values(stored))
    uncount_row(tx, stored)
    return stored


def _deliver(marks: Sequence[tuple[str, str, int]], tx: Transaction) -> set[tuple[str, str]]:
    return set(_DELIVER.changed(tx, marks))


def _status(row: tuple[Any, ...]) -> Status:
    conversation_id, user_id, delivered_seq, read_seq, cursor_seq, ranges, version, since_seq = row
    return Status(
        conversation_id=conversation_id,
        user_id=user_id,
        delivered_seq=delivered_seq,
        read_seq=read_seq,
        cursor_seq=cursor_seq,
        ranges=() if ranges is None else _decode_ranges(ranges),
        version=version,
        since_seq=since_seq,
    )


def _status_values(status: Status) -> tuple[Any, ...]:
    ranges = _encode_ranges(status.ranges) if status.ranges else None
    return tuple(ranges if field == "ranges" else getattr(status, field) for field in _STATUS)
