"""message_status on PostgreSQL: receipts go forward only, and a status is stored over the version it was made from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from tidings.errors import Conflict, StoreError
from tidings.model import Status
from tidings.stores.tables.postgres.server.database import Port, columns, names
from tidings.stores.tables.whole import STATUSES
from tidings.tasks import attempt

_STATUS, _status, _values = STATUSES.columns, STATUSES.value_of, STATUSES.row_of
_NAMED = f"SELECT {names(_STATUS)} FROM @message_status WHERE user_id = $1 AND conversation_id = ANY($2::text[])"
# Of those who are present: the status of a member who left stays, because its version must never begin anew.
_OF_CONVERSATION = f"""
    SELECT {names(_STATUS, "s")} FROM @members AS m JOIN @message_status AS s USING (conversation_id, user_id)
    WHERE m.conversation_id = $1 AND m.left_seq IS NULL ORDER BY m.user_id
"""
_OF_MEMBERS = f"""
    SELECT {names(_STATUS)} FROM @message_status
    WHERE conversation_id = $1 AND user_id = ANY($2::text[]) ORDER BY user_id
"""
_VERSION = "SELECT version FROM @message_status WHERE conversation_id = $1 AND user_id = $2"
_KEYS = ("conversation_id", "user_id")
_AT = {field: f"${at}" for at, field in enumerate(_STATUS, 1)}
# Each of these moves with its mark, forward only.
_FORWARD = {
    "delivered_seq": "delivered_seq",
    "delivered_ms": "delivered_seq",
    "read_seq": "read_seq",
    "read_ms": "read_seq",
    "read_before": "read_seq",
}
_SET = ", ".join(
    f"{field} = CASE WHEN {_AT[mark]} > {mark} THEN {at} ELSE {field} END"
    if (mark := _FORWARD.get(field))
    else f"{field} = {at}"
    for field, at in _AT.items()
    if field not in _KEYS
)
# The unread count of the inbox row is from before the status that is put: up to its cursor everything is read.
_UNCOUNT = f"""
    , counted AS (
      UPDATE @conversations SET
        status_version = {_AT["version"]},
        unread_count = CASE WHEN last_seq <= {_AT["cursor_seq"]} THEN 0 END
      WHERE user_id = $2 AND conversation_id = $1 AND EXISTS (SELECT 1 FROM put)
    )
    SELECT {names(_STATUS)} FROM put
"""
_UPDATE = f"""
    WITH put AS (
      UPDATE @message_status SET {_SET}
      WHERE conversation_id = $1 AND user_id = $2 AND version = {_AT["version"]} - 1
      RETURNING {names(_STATUS)}
    ){_UNCOUNT}
"""
_INSERT = f"""
    WITH put AS (
      INSERT INTO @message_status ({names(_STATUS)}) VALUES ({", ".join(_AT.values())})
      ON CONFLICT DO NOTHING RETURNING {names(_STATUS)}
    ){_UNCOUNT}
"""
# A late mark must not bring back the row of a user who left, so it needs a present member. Its cursor counts for
# nothing (since_seq 0): a member who never read anything stands where the membership began. LATERAL with a LIMIT is
# looked up by key for each mark; of a plain join the planner may read the whole index of members.
_DELIVER = """
    INSERT INTO @message_status AS s
      (conversation_id, user_id, delivered_seq, read_seq, cursor_seq, ranges, version, since_seq, delivered_ms)
    SELECT v.conversation_id, v.user_id, v.seq_no, 0, 0, NULL, 0, 0, $4::bigint
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS v (conversation_id, user_id, seq_no)
    CROSS JOIN LATERAL (
      SELECT 1 FROM @members
      WHERE conversation_id = v.conversation_id AND user_id = v.user_id AND left_seq IS NULL LIMIT 1
    ) AS m
    ORDER BY v.conversation_id, v.user_id
    ON CONFLICT (conversation_id, user_id)
    DO UPDATE SET delivered_seq = excluded.delivered_seq, delivered_ms = excluded.delivered_ms
    WHERE excluded.delivered_seq > s.delivered_seq
    RETURNING conversation_id, user_id
"""


class PostgresStatuses(Port):
    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]:
        found = await self._database.rows("message_status", _NAMED, user_id, list(dict.fromkeys(conversation_ids)))
        return {row[0]: _status(row) for row in found}

    async def of_conversation(self, conversation_id: str) -> list[Status]:
        return [_status(row) for row in await self._database.rows("message_status", _OF_CONVERSATION, conversation_id)]

    async def of_members(self, conversation_id: str, user_ids: Iterable[str]) -> list[Status]:
        found = await self._database.rows("message_status", _OF_MEMBERS, conversation_id, list(user_ids))
        return [_status(row) for row in found]

    async def put(self, status: Status) -> Status:
        # A receipt may make the row before the first status does, so the last try is over that row.
        for sql in (_UPDATE, _INSERT, _UPDATE) if status.version == 1 else (_UPDATE,):
            if found := await self._database.changed("message_status", sql, *_values(status)):
                return _status(found[0])
        rows = await self._database.rows("message_status", _VERSION, status.conversation_id, status.user_id)
        version = rows[0][0] if rows else 0
        raise Conflict(f"the status has version {version}, not {status.version - 1}")

    async def put_each(self, statuses: Sequence[Status]) -> list[Status | StoreError]:
        return list(await asyncio.gather(*(attempt(self.put(status)) for status in statuses)))

    async def deliver(self, marks: Sequence[tuple[str, str, int]], at_ms: int = 0) -> set[tuple[str, str]]:
        highest: dict[tuple[str, str], int] = {}
        for conversation_id, user_id, seq_no in marks:
            key = conversation_id, user_id
            highest[key] = max(seq_no, highest.get(key, seq_no))
        values = [(*key, seq_no) for key, seq_no in sorted(highest.items())]
        found = await self._database.changed("message_status", _DELIVER, *columns(values, 3), at_ms)
        return {(row[0], row[1]) for row in found}
