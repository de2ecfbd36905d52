"""conversations on SQLite: one inbox row per user and conversation.

A touch never creates a row and never takes one back. Each function at module level is the work of one request: it runs
on a thread of engine.py, in a transaction that it does not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from tidings.errors import Missing
from tidings.model import Row, Status
from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import Bulk, json_of, names, values_of
from tidings.stores.tables.stored_content import DELETED
from tidings.stores.tables.values import FLAGS, Group, Touch
from tidings.stores.tables.whole import ROWS

_ROW, _row = ROWS.columns, ROWS.value_of
_KEPT = ("user_id", "conversation_id", *FLAGS)  # the user's own: never overwritten by a put
_PUT_ROWS = Bulk(
    "conversations",
    f"""
    INSERT INTO conversations ({names(_ROW)}) VALUES {{values}}
    ON CONFLICT DO UPDATE SET {", ".join(f"{field} = excluded.{field}" for field in _ROW if field not in _KEPT)}
    """,
    len(_ROW),
)
_ACCEPT_ROW = "UPDATE conversations SET is_requested = 0 WHERE user_id = ? AND conversation_id = ?"
_KEEP_ROLE = "UPDATE conversations SET role = ? WHERE user_id = ? AND conversation_id = ?"
_HIDE = "UPDATE conversations SET is_hidden = 1, hidden_seq = ? WHERE user_id = ? AND conversation_id = ?"
_REMOVE_ROW = "DELETE FROM conversations WHERE user_id = ? AND conversation_id = ?"
_ROWS = f"""
    SELECT {names(_ROW, "c")} FROM json_each(?2) AS named
    CROSS JOIN conversations AS c ON c.user_id = ?1 AND c.conversation_id = named.value
"""
_SCAN = f"""
    SELECT {names(_ROW)} FROM conversations WHERE user_id = ? AND conversation_id > ?
    ORDER BY conversation_id LIMIT ?
"""
# The place of a row is written as the index inbox_order has it.
_LATEST = f"""
    SELECT {names(_ROW)} FROM conversations
    WHERE user_id = ?1 AND (is_hidden = 0 OR last_seq > hidden_seq) AND max(last_message_ts, joined_ms, 1) <= ?2
    AND (max(last_message_ts, joined_ms, 1) < ?2 OR conversation_id < ?3)
    ORDER BY max(last_message_ts, joined_ms, 1) DESC, conversation_id DESC LIMIT ?4
"""
_UNREAD = """
    SELECT coalesce(sum(unread_count), 0), count(nullif(unread_count, 0)) FROM conversations
    WHERE user_id = ? AND (is_hidden = 0 OR last_seq > hidden_seq)
"""
# A status that was put: what is up to its cursor is read, and more is not known.
_STALE = Bulk(
    "conversations",
    """
    UPDATE conversations SET unread_count = iif(last_seq <= v.column3, 0, NULL) FROM (VALUES {values}) AS v
    WHERE user_id = v.column1 AND conversation_id = v.column2
    """,
    columns=3,
)
# A message above hidden_seq makes a hidden row visible.
_TOUCH = Bulk(
    "conversations",
    f"""
    UPDATE conversations SET
      last_seq = v.column3,
      last_message_ts = v.column4,
      last_message_preview = v.column5,
      last_message = v.column8,
      unread_count = CASE
        WHEN (SELECT cursor_seq FROM message_status AS s
              WHERE s.conversation_id = v.column2 AND s.user_id = v.column1) >= v.column3 THEN 0
        WHEN v.column7 = coalesce((SELECT version FROM message_status AS s
              WHERE s.conversation_id = v.column2 AND s.user_id = v.column1), 0) THEN v.column6
      END,
      is_hidden = is_hidden AND v.column3 <= hidden_seq
    FROM (VALUES {{values}}) AS v
    WHERE conversations.user_id = v.column1 AND conversations.conversation_id = v.column2 AND (
      last_seq < v.column3
      OR last_seq = v.column3 AND (
        v.column5 IS NULL OR last_message_preview IS NOT NULL OR last_message NOT LIKE '%{DELETED}%'))
    """,
    columns=8,
)
_LABEL = "UPDATE conversations SET name = ?, avatar_url = ? WHERE user_id = ? AND conversation_id = ?"
_USERS = """
    WITH RECURSIVE found (user_id) AS (
      SELECT min(user_id) FROM conversations WHERE user_id > ?
      UNION ALL
      SELECT (SELECT min(c.user_id) FROM conversations AS c WHERE c.user_id > found.user_id)
      FROM found WHERE user_id IS NOT NULL LIMIT ?
    )
    SELECT user_id FROM found WHERE user_id IS NOT NULL
"""


_PLACE_MAX = 1 << 62  # no row is newer


class SqliteInboxes(Port):
    async def rows(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Row]:
        return await self._read(partial(_rows, user_id, tuple(conversation_ids)))

    async def scan(self, user_id: str, *, after_id: str, limit: int) -> list[Row]:
        bindings = (user_id, after_id, max(limit, 0))
        return await self._read(lambda tx: [_row(row) for row in tx.rows("conversations", _SCAN, bindings)])

    async def latest(self, user_id: str, *, before: tuple[int, str] | None, limit: int) -> list[Row]:
        bindings = (user_id, *(before or (_PLACE_MAX, "")), max(limit, 0))
        return await self._read(lambda tx: [_row(row) for row in tx.rows("conversations", _LATEST, bindings)])

    async def unread(self, user_id: str) -> tuple[int, int]:
        (found,) = await self._read(lambda tx: tx.rows("conversations", _UNREAD, (user_id,)))
        return int(found[0]), int(found[1])

    async def touch(self, touches: Sequence[Touch]) -> None:
        await self._write(partial(_touch, touches))

    async def flag(self, user_id: str, conversation_id: str, changes: Mapping[str, object]) -> Row:
        return await self._write(partial(_flag, user_id, conversation_id, changes))

    async def hide(self, user_id: str, conversation_id: str, *, up_to_seq: int) -> None:
        await self._write(lambda tx: tx.write("conversations", _HIDE, (up_to_seq, user_id, conversation_id)))

    async def label(self, rows: Sequence[tuple[str, str]], *, name: str, avatar_url: str | None) -> None:
        await self._write(partial(_label, rows, name, avatar_url))

    async def users(self, *, after_id: str, limit: int) -> list[str]:
        found = await self._read(lambda tx: tx.rows("conversations", _USERS, (after_id, max(limit, 0))))
        return [user_id for (user_id,) in found]


def put_rows(tx: Transaction, rows: Sequence[Row]) -> None:
    _PUT_ROWS.write(tx, [values_of(row) for row in rows])


def remove_rows(tx: Transaction, conversation_id: str, user_ids: Iterable[str]) -> None:
    for user_id in user_ids:
        tx.write("conversations", _REMOVE_ROW, (user_id, conversation_id))


def accept_rows(tx: Transaction, conversation_id: str, user_ids: Iterable[str]) -> None:
    for user_id in user_ids:
        tx.write("conversations", _ACCEPT_ROW, (user_id, conversation_id))


def keep_roles(tx: Transaction, group: Group) -> None:
    for user_id, role in group.roles:
        tx.write("conversations", _KEEP_ROLE, (role, user_id, group.conversation_id))


def _rows(user_id: str, conversation_ids: Iterable[str], tx: Transaction) -> dict[str, Row]:
    found = tx.rows("conversations", _ROWS, (user_id, json_of(conversation_ids)))
    return {row.conversation_id: row for row in map(_row, found)}


def uncount_rows(tx: Transaction, statuses: Sequence[Status]) -> None:
    """Forget the unread counts of the rows: each is older than its status."""
    _STALE.write(tx, [(status.user_id, status.conversation_id, status.cursor_seq) for status in statuses])


def _touch(touches: Sequence[Touch], tx: Transaction) -> None:
    bindings = [
        (
            touch.user_id,
            touch.conversation_id,
            touch.last_seq,
            touch.last_ms,
            touch.preview,
            touch.unread_count,
            touch.version,
            touch.last_message,
        )
        for touch in touches
    ]
    if len({key[:2] for key in bindings}) == len(bindings):
        _TOUCH.write(tx, bindings)
    else:  # a statement would take any one of two touches of the same row
        for one in bindings:
            _TOUCH.write(tx, [one])


def _flag(user_id: str, conversation_id: str, changes: Mapping[str, object], tx: Transaction) -> Row:
    if changes:
        assert changes.keys() <= set(FLAGS)
        named = ", ".join(f"{name} = ?" for name in changes)
        sql = f"UPDATE conversations SET {named} WHERE user_id = ? AND conversation_id = ?"
        tx.write("conversations", sql, (*changes.values(), user_id, conversation_id))
    found = _rows(user_id, (conversation_id,), tx)
    if conversation_id not in found:
        raise Missing(conversation_id)
    return found[conversation_id]


def _label(labelled: Sequence[tuple[str, str]], name: str, avatar_url: str | None, tx: Transaction) -> None:
    for user_id, conversation_id in labelled:
        tx.write("conversations", _LABEL, (name, avatar_url, user_id, conversation_id))
