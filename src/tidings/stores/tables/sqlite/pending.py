"""pending_deliveries on SQLite. The end of a row never goes back.

Each function at module level is the work of one request: it runs on a thread of engine.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import Bulk, json_of, names
from tidings.stores.tables.values import Waiting
from tidings.stores.tables.whole import WAITING

_WAITING, _row = WAITING.columns, WAITING.value_of

_PUT = Bulk(
    "pending_deliveries",
    f"""
    INSERT INTO pending_deliveries ({names(_WAITING)}) VALUES {{values}}
    ON CONFLICT DO UPDATE SET last_seq = max(last_seq, excluded.last_seq), expires = max(expires, excluded.expires)
    """,
    len(_WAITING),
)
_OF_CONVERSATION = f"""
    SELECT {names(_WAITING, "p")} FROM json_each(?2) AS named
    CROSS JOIN pending_deliveries AS p ON p.user_id = named.value AND p.conversation_id = ?1
"""
_OF_USER = f"SELECT {names(_WAITING)} FROM pending_deliveries WHERE user_id = ? ORDER BY conversation_id"
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


class SqlitePending(Port):
    async def put(self, rows: Sequence[Waiting]) -> None:
        await self._write(lambda tx: _PUT.write(tx, [WAITING.row_of(row) for row in rows]))

    async def of_conversation(self, conversation_id: str, user_ids: Iterable[str]) -> dict[str, Waiting]:
        bindings = (conversation_id, json_of(user_ids))
        found = await self._read(lambda tx: tx.rows("pending_deliveries", _OF_CONVERSATION, bindings))
        return {row[0]: _row(row) for row in found}

    async def of_user(self, user_id: str) -> list[Waiting]:
        return [_row(row) for row in await self._read(lambda tx: tx.rows("pending_deliveries", _OF_USER, (user_id,)))]

    async def clear(self, marks: Sequence[tuple[str, str, int]]) -> None:
        """Clear rows of receipts. Nearly every receipt has no row: then the writer has nothing to do."""
        named = (json_of(marks),)
        if marks and await self._read(lambda tx: tx.rows("pending_deliveries", _MARKED, named)):
            await self._write(partial(_clear, marks))

    async def expire(self, now_ms: int) -> int:
        """Remove useless rows. A reader finds them; the writer removes some at a time, if they are still useless."""
        expired = 0
        while found := await self._read(partial(_useless, now_ms)):
            expired += await self._write(partial(_expire, now_ms, found))
        return expired


def _clear(marks: Sequence[tuple[str, str, int]], tx: Transaction) -> None:
    for mark in marks:
        tx.write("pending_deliveries", _CLEAR, mark)
        tx.write("pending_deliveries", _SHORTEN, mark)


def _useless(now_ms: int, tx: Transaction) -> list[tuple[str, str]]:
    return tx.rows("pending_deliveries", _USELESS, (now_ms // 1000, bounds.DELETE_CHUNK))


def _expire(now_ms: int, keys: Sequence[tuple[str, str]], tx: Transaction) -> int:
    return sum(tx.write("pending_deliveries", _EXPIRE, (*key, now_ms // 1000)) for key in keys)
