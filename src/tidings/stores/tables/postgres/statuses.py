"""message_status on PostgreSQL: receipts go forward only, and a status is stored over the version it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tidings.errors import Conflict
from tidings.model import Ranges, Status
from tidings.stores.tables.postgres.server.database import Database, columns, names

_STATUS = Status.__struct_fields__
_encode_ranges = msgspec.json.Encoder().encode
_decode_ranges = msgspec.json.Decoder(Ranges).decode

_NAMED = f"SELECT {names(_STATUS)} FROM @message_status WHERE user_id = $1 AND conversation_id = ANY($2::text[])"
# Of those who are present: the status of a member who left stays, because its version must never begin anew.
_OF_CONVERSATION = f"""
    SELECT {names(_STATUS, "s")} FROM @members AS m JOIN @message_status AS s USING (conversation_id, user_id)
    WHERE m.conversation_id = $1 AND m.left_seq IS NULL ORDER BY m.user_id
"""
_VERSION = "SELECT version FROM @message_status WHERE conversation_id = $1 AND user_id = $2"
_KEYS = ("conversation_id", "user_id")
_FORWARD = ("delivered_seq", "read_seq")
_SET = ", ".join(
    f"{field} = greatest({field}, ${at})" if field in _FORWARD else f"{field} = ${at}"
    for at, field in enumerate(_STATUS, 1)
    if field not in _KEYS
)
# The unread count of the inbox row is from before the status that is put: up to its cursor everything is read.
_UNCOUNT = f"""
    , counted AS (
      UPDATE @conversations SET
        status_version = ${_STATUS.index("version") + 1},
        unread_count = CASE WHEN last_seq <= ${_STATUS.index("cursor_seq") + 1} THEN 0 END
      WHERE user_id = $2 AND conversation_id = $1 AND EXISTS (SELECT 1 FROM put)
    )
    SELECT delivered_seq, read_seq FROM put
"""
_UPDATE = f"""
    WITH put AS (
      UPDATE @message_status SET {_SET}
      WHERE conversation_id = $1 AND user_id = $2 AND version = ${_STATUS.index("version") + 1} - 1
      RETURNING delivered_seq, read_seq
    ){_UNCOUNT}
"""
_INSERT = f"""
    WITH put AS (
      INSERT INTO @message_status ({names(_STATUS)}) VALUES ({", ".join(f"${at + 1}" for at in range(len(_STATUS)))})
      ON CONFLICT DO NOTHING RETURNING delivered_seq, read_seq
    ){_UNCOUNT}
"""
# A late mark must not bring back the row of a user who left, so it needs a present member. Its cursor counts for
# nothing (since_seq 0): a member who never read anything stands where the membership began.
_DELIVER = """
    INSERT INTO @message_status AS s
      (conversation_id, user_id, delivered_seq, read_seq, cursor_seq, ranges, version, since_seq)
    SELECT v.conversation_id, v.user_id, v.seq_no, 0, 0, NULL, 0, 0
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS v (conversation_id, user_id, seq_no)
    JOIN @members AS m ON m.conversation_id = v.conversation_id AND m.user_id = v.user_id AND m.left_seq IS NULL
    ORDER BY v.conversation_id, v.user_id
    ON CONFLICT (conversation_id, user_id)
    DO UPDATE SET delivered_seq = excluded.delivered_seq WHERE excluded.delivered_seq > s.delivered_seq
    RETURNING conversation_id, user_id
"""


class PostgresStatuses:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]:
        found = await self._database.rows("message_status", _NAMED, user_id, list(dict.fromkeys(conversation_ids)))
        return {row[0]: _status(row) for row in found}

    async def of_conversation(self, conversation_id: str) -> list[Status]:
        return [_status(row) for row in await self._database.rows("message_status", _OF_CONVERSATION, conversation_id)]

    async def put(self, status: Status) -> Status:
        found = await self._database.changed("message_status", _UPDATE, *_values(status))
        if not found and status.version == 1:
            found = await self._database.changed("message_status", _INSERT, *_values(status))
        if not found:
            rows = await self._database.rows("message_status", _VERSION, status.conversation_id, status.user_id)
            version = rows[0][0] if rows else 0
            raise Conflict(f"the status has version {version}, not {status.version - 1}")
        return msgspec.structs.replace(status, delivered_seq=found[0][0], read_seq=found[0][1])

    async def deliver(self, marks: Sequence[tuple[str, str, int]]) -> set[tuple[str, str]]:
        highest: dict[tuple[str, str], int] = {}
        for conversation_id, user_id, seq_no in marks:
            key = conversation_id, user_id
            highest[key] = max(seq_no, highest.get(key, seq_no))
        values = [(*key, seq_no) for key, seq_no in sorted(highest.items())]
        found = await self._database.changed("message_status", _DELIVER, *columns(values, 3))
        return {(row[0], row[1]) for row in found}


def _values(status: Status) -> tuple[Any, ...]:
    ranges = _encode_ranges(status.ranges) if status.ranges else None
    return tuple(ranges if field == "ranges" else getattr(status, field) for field in _STATUS)


def _status(row: Any) -> Status:
    fields = dict(zip(_STATUS, row, strict=True))
    fields["ranges"] = () if fields["ranges"] is None else _decode_ranges(fields["ranges"])
    return Status(**fields)
