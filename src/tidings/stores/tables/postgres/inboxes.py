"""conversations on PostgreSQL: one inbox row per user and conversation. A touch never creates a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidings.errors import Missing
from tidings.model import Row
from tidings.stores.tables.postgres.server.database import Port, Statements, columns, names, unnested
from tidings.stores.tables.postgres.server.rows import Rows, to_bytes
from tidings.stores.tables.stored_content import DELETED
from tidings.stores.tables.values import FLAGS, Group, Touch
from tidings.stores.tables.whole import ROWS

_ROWS_OF = Rows(ROWS)
_ROW, _row = _ROWS_OF.columns, _ROWS_OF.value_of
_KEPT = ("user_id", "conversation_id", *FLAGS)  # the user's own: never overwritten by a put
_PUT_ROWS = f"""
    INSERT INTO @conversations ({names(_ROW)}) SELECT * FROM {unnested(_ROWS_OF.types)}
    ON CONFLICT (user_id, conversation_id)
    DO UPDATE SET {", ".join(f"{field} = excluded.{field}" for field in _ROW if field not in _KEPT)}
"""
_REMOVE_ROWS = "DELETE FROM @conversations WHERE user_id = ANY($1::text[]) AND conversation_id = $2"
_ACCEPT = "UPDATE @conversations SET is_requested = false WHERE user_id = ANY($1::text[]) AND conversation_id = $2"
_KEEP_ROLE = "UPDATE @conversations SET role = $1 WHERE user_id = $2 AND conversation_id = $3"
_HIDE = "UPDATE @conversations SET is_hidden = true, hidden_seq = $1 WHERE user_id = $2 AND conversation_id = $3"
_ROWS = f"SELECT {names(_ROW)} FROM @conversations WHERE user_id = $1 AND conversation_id = ANY($2::text[])"
_SCAN = f"""
    SELECT {names(_ROW)} FROM @conversations WHERE user_id = $1 AND conversation_id > $2
    ORDER BY conversation_id LIMIT $3
"""
# The place of a row is written as the index inbox_order has it.
_LATEST = f"""
    SELECT {names(_ROW)} FROM @conversations
    WHERE user_id = $1 AND (NOT is_hidden OR last_seq > hidden_seq)
    AND (greatest(last_message_ts, joined_ms, 1), conversation_id) < ($2::bigint, $3::text COLLATE "C")
    ORDER BY greatest(last_message_ts, joined_ms, 1) DESC, conversation_id DESC LIMIT $4
"""
_UNREAD = """
    SELECT coalesce(sum(unread_count), 0)::bigint, count(nullif(unread_count, 0)) FROM @conversations
    WHERE user_id = $1 AND (NOT is_hidden OR last_seq > hidden_seq)
"""
_PLACE_MAX = 1 << 62  # no row is newer
_TOUCH_TYPES = ("text", "text", "bigint", "bigint", "bytea", "bigint", "bigint", "text")
# A message above hidden_seq makes a hidden row visible. Rows are locked in the order of their keys: no deadlock.
_TOUCH = f"""
    WITH v AS MATERIALIZED (
      SELECT * FROM {unnested(_TOUCH_TYPES)}
      AS t (user_id, conversation_id, last_seq, last_ms, preview, unread_count, version, last_message)
    ), locked AS MATERIALIZED (
      SELECT c.user_id, c.conversation_id FROM @conversations AS c JOIN v USING (user_id, conversation_id)
      ORDER BY c.user_id, c.conversation_id FOR UPDATE OF c
    )
    UPDATE @conversations AS c SET
      last_seq = v.last_seq,
      last_message_ts = v.last_ms,
      last_message_preview = v.preview,
      last_message = v.last_message,
      unread_count = CASE WHEN c.status_version <= v.version THEN v.unread_count END,
      is_hidden = c.is_hidden AND v.last_seq <= c.hidden_seq
    FROM v JOIN locked USING (user_id, conversation_id)
    WHERE c.user_id = v.user_id AND c.conversation_id = v.conversation_id AND (
      c.last_seq < v.last_seq
      OR c.last_seq = v.last_seq AND (
        v.preview IS NULL OR c.last_message_preview IS NOT NULL OR c.last_message NOT LIKE '%{DELETED}%'))
"""
_LABEL = """
    UPDATE @conversations AS c SET name = $3, avatar_url = $4
    FROM unnest($1::text[], $2::text[]) AS v (user_id, conversation_id)
    WHERE c.user_id = v.user_id AND c.conversation_id = v.conversation_id
"""
_USERS = """
    WITH RECURSIVE found (user_id, n) AS (
      (SELECT user_id, 1 FROM @conversations WHERE user_id > $1 ORDER BY user_id LIMIT 1)
      UNION ALL
      SELECT next.user_id, found.n + 1 FROM found CROSS JOIN LATERAL (
        SELECT user_id FROM @conversations WHERE user_id > found.user_id ORDER BY user_id LIMIT 1
      ) AS next WHERE found.n < $2
    )
    SELECT user_id FROM found LIMIT $2
"""


class PostgresInboxes(Port):
    async def rows(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Row]:
        found = await self._database.rows("conversations", _ROWS, user_id, list(dict.fromkeys(conversation_ids)))
        return {row.conversation_id: row for row in map(_row, found)}

    async def scan(self, user_id: str, *, after_id: str, limit: int) -> list[Row]:
        return [
            _row(row) for row in await self._database.rows("conversations", _SCAN, user_id, after_id, max(limit, 0))
        ]

    async def latest(self, user_id: str, *, before: tuple[int, str] | None, limit: int) -> list[Row]:
        place = before or (_PLACE_MAX, "")
        found = await self._database.rows("conversations", _LATEST, user_id, *place, max(limit, 0))
        return [_row(row) for row in found]

    async def unread(self, user_id: str) -> tuple[int, int]:
        (found,) = await self._database.rows("conversations", _UNREAD, user_id)
        return found[0], found[1]

    async def touch(self, touches: Sequence[Touch]) -> None:
        """A statement would take any one of two touches of the same row, so each row comes once in a statement."""
        waiting = list(touches)
        while waiting:
            first = {(touch.user_id, touch.conversation_id): touch for touch in reversed(waiting)}
            values = [
                (*key, *_last(one), one.unread_count, one.version, one.last_message) for key, one in first.items()
            ]
            await self._database.write("conversations", _TOUCH, *columns(values, len(_TOUCH_TYPES)))
            done = {id(touch) for touch in first.values()}
            waiting = [touch for touch in waiting if id(touch) not in done]

    async def flag(self, user_id: str, conversation_id: str, changes: Mapping[str, object]) -> Row:
        assert changes.keys() <= set(FLAGS)
        named = ", ".join(f"{name} = ${at}" for at, name in enumerate(changes, 3)) or "muted = muted"
        where = f"WHERE user_id = $1 AND conversation_id = $2 RETURNING {names(_ROW)}"
        sql = f"UPDATE @conversations SET {named} {where}"
        found = await self._database.changed("conversations", sql, user_id, conversation_id, *changes.values())
        if not found:
            raise Missing(conversation_id)
        return _row(found[0])

    async def hide(self, user_id: str, conversation_id: str, *, up_to_seq: int) -> None:
        await self._database.write("conversations", _HIDE, up_to_seq, user_id, conversation_id)

    async def label(self, rows: Sequence[tuple[str, str]], *, name: str, avatar_url: str | None) -> None:
        if rows:
            await self._database.write("conversations", _LABEL, *columns(sorted(set(rows)), 2), name, avatar_url)

    async def users(self, *, after_id: str, limit: int) -> list[str]:
        return [row[0] for row in await self._database.rows("conversations", _USERS, after_id, max(limit, 0))]


async def put_rows(tx: Statements, rows: Sequence[Row]) -> None:
    if rows:
        await tx.write("conversations", _PUT_ROWS, *columns([_ROWS_OF.row_of(row) for row in rows], len(_ROW)))


async def remove_rows(tx: Statements, conversation_id: str, user_ids: Iterable[str]) -> None:
    if removed := list(user_ids):
        await tx.write("conversations", _REMOVE_ROWS, removed, conversation_id)


async def accept_rows(tx: Statements, conversation_id: str, user_ids: Iterable[str]) -> None:
    if accepted := list(user_ids):
        await tx.write("conversations", _ACCEPT, accepted, conversation_id)


async def keep_roles(tx: Statements, group: Group) -> None:
    for user_id, role in sorted(group.roles):
        await tx.write("conversations", _KEEP_ROLE, role, user_id, group.conversation_id)


def _last(one: Touch) -> tuple[int, int, bytes | None]:
    return one.last_seq, one.last_ms, to_bytes(one.preview)
