"""pending_deliveries on PostgreSQL. The end of a row never goes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidings.stores.tables.postgres.server.database import Port, columns, names, unnested
from tidings.stores.tables.postgres.server.rows import Rows
from tidings.stores.tables.values import Waiting
from tidings.stores.tables.whole import WAITING

_WAITING, _row, _TYPES = WAITING.columns, WAITING.value_of, Rows(WAITING).types
_EXPIRE_CHUNK = 1_000  # rows that one commit removes

_PUT = f"""
    INSERT INTO @pending_deliveries AS p ({names(_WAITING)}) SELECT * FROM {unnested(_TYPES)}
    ON CONFLICT (user_id, conversation_id) DO UPDATE SET
      last_seq = greatest(p.last_seq, excluded.last_seq), expires = greatest(p.expires, excluded.expires)
"""
_OF_CONVERSATION = f"""
    SELECT {names(_WAITING)} FROM @pending_deliveries WHERE conversation_id = $1 AND user_id = ANY($2::text[])
"""
_OF_USER = f"SELECT {names(_WAITING)} FROM @pending_deliveries WHERE user_id = $1 ORDER BY conversation_id"
_MARKS = "unnest($1::text[], $2::text[], $3::bigint[]) AS v (conversation_id, user_id, seq_no)"
_CLEAR = f"""
    DELETE FROM @pending_deliveries AS p USING {_MARKS}
    WHERE p.user_id = v.user_id AND p.conversation_id = v.conversation_id AND p.last_seq <= v.seq_no
"""
_SHORTEN = f"""
    UPDATE @pending_deliveries AS p SET first_seq = v.seq_no + 1 FROM {_MARKS}
    WHERE p.user_id = v.user_id AND p.conversation_id = v.conversation_id AND p.first_seq <= v.seq_no
"""
_EXPIRE = """
    DELETE FROM @pending_deliveries WHERE (user_id, conversation_id) IN (
      SELECT p.user_id, p.conversation_id FROM @pending_deliveries AS p
      WHERE p.expires <= $1 OR NOT EXISTS (
        SELECT 1 FROM @members AS m
        WHERE m.conversation_id = p.conversation_id AND m.user_id = p.user_id AND m.left_seq IS NULL
      ) OR EXISTS (
        SELECT 1 FROM @message_status AS s
        WHERE s.conversation_id = p.conversation_id AND s.user_id = p.user_id AND s.delivered_seq >= p.last_seq
      )
      LIMIT $2 FOR UPDATE SKIP LOCKED
    )
"""


class PostgresPending(Port):
    async def put(self, rows: Sequence[Waiting]) -> None:
        """A row that comes twice is put twice: one statement may change a row once."""
        waiting = list(rows)
        while waiting:
            first = {(row.user_id, row.conversation_id): row for row in reversed(waiting)}
            values = [WAITING.row_of(row) for _, row in sorted(first.items())]
            await self._database.write("pending_deliveries", _PUT, *columns(values, len(_TYPES)))
            done = {id(row) for row in first.values()}
            waiting = [row for row in waiting if id(row) not in done]

    async def of_conversation(self, conversation_id: str, user_ids: Iterable[str]) -> dict[str, Waiting]:
        found = await self._database.rows("pending_deliveries", _OF_CONVERSATION, conversation_id, list(user_ids))
        return {row[0]: _row(row) for row in found}

    async def of_user(self, user_id: str) -> list[Waiting]:
        return [_row(row) for row in await self._database.rows("pending_deliveries", _OF_USER, user_id)]

    async def clear(self, marks: Sequence[tuple[str, str, int]]) -> None:
        highest: dict[tuple[str, str], int] = {}
        for conversation_id, user_id, seq_no in marks:
            key = conversation_id, user_id
            highest[key] = max(seq_no, highest.get(key, seq_no))
        if highest:
            values = columns([(*key, seq_no) for key, seq_no in sorted(highest.items())], 3)
            async with self._database.transaction() as tx:
                await tx.write("pending_deliveries", _CLEAR, *values)
                await tx.write("pending_deliveries", _SHORTEN, *values)

    async def expire(self, now_ms: int) -> int:
        expired = 0
        while count := await self._database.write("pending_deliveries", _EXPIRE, now_ms // 1000, _EXPIRE_CHUNK):
            expired += count
        return expired
