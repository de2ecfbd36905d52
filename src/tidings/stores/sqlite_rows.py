"""Everything on SQLite that is not the log: heads and members, inbox rows, statuses, accounts.

Guards what the ports promise of single rows: a touch never creates a row and never goes back, ticks go forward only, a
status is stored over the version it was made from. A store error is raised before the first write.

Each function here is the work of an errand: it runs on a thread of sqlite_engine, in a transaction it does not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tidings import bounds
from tidings.errors import Conflict, Missing
from tidings.model import ApiKey, Head, Member, Ranges, Row, Status, User
from tidings.stores.ports import Touch
from tidings.stores.sqlite_engine import Bulk, Hop

_HEAD = Head.__struct_fields__
_MEMBER = Member.__struct_fields__
_ROW = Row.__struct_fields__
_STATUS = Status.__struct_fields__
_USER = User.__struct_fields__
_API_KEY = ApiKey.__struct_fields__

_encode_ranges = msgspec.json.Encoder().encode
_decode_ranges = msgspec.json.Decoder(Ranges).decode


def _names(fields: Sequence[str], table: str = "") -> str:
    return ", ".join(f"{table}.{field}" if table else field for field in fields)


def _values(value: msgspec.Struct) -> tuple[Any, ...]:
    return msgspec.structs.astuple(value)


def _json(ids: Iterable[str]) -> str:
    """Ids as one binding; each once, so that each row is read once."""
    return msgspec.json.encode(list(dict.fromkeys(ids))).decode()


# --- heads and members ----------------------------------------------------------------------------
# CROSS JOIN makes SQLite take the names one by one and look each up by its key, never scan.
_PUT_HEAD = f"INSERT OR IGNORE INTO conversation_heads ({_names(_HEAD)}) VALUES ({','.join('?' * len(_HEAD))})"
_HEADS = f"""
    SELECT {_names(_HEAD, "h")} FROM json_each(?) AS named
    CROSS JOIN conversation_heads AS h ON h.conversation_id = named.value
"""
_PUT_MEMBERS = Bulk("members", f"INSERT OR REPLACE INTO members ({_names(_MEMBER)}) VALUES {{values}}", len(_MEMBER))
_MEMBERS = f"""
    SELECT {_names(_MEMBER)} FROM members WHERE conversation_id = ? AND left_seq IS NULL ORDER BY user_id
"""
_RENAME_HEAD = "UPDATE conversation_heads SET name = ?, avatar_url = ? WHERE conversation_id = ?"
_RENAME_ROWS = """
    UPDATE conversations SET name = ?1, avatar_url = ?2 WHERE conversation_id = ?3
    AND user_id IN (SELECT user_id FROM members WHERE conversation_id = ?3 AND left_seq IS NULL)
"""
_CHUNK_END = "SELECT seq_no FROM messages WHERE conversation_id = ? ORDER BY seq_no LIMIT 1 OFFSET ?"
_CUT_LOG = "DELETE FROM messages WHERE conversation_id = ? AND seq_no <= ?"
_CUT_HEAD = "UPDATE conversation_heads SET floor_seq = max(floor_seq, ?) WHERE conversation_id = ?"
_DELETES = {
    # What the conversation has in the cold tier goes too: the archiver is told in the same commit.
    "rechecks": """
        INSERT OR REPLACE INTO rechecks (conversation_id, s3_ref, why, mark, since_ms)
        SELECT ?1, '*', 'deleted', lower(hex(randomblob(8))), CAST(unixepoch('subsec') * 1000 AS INTEGER)
        FROM archives WHERE conversation_id = ?1
    """,
    "archives": "DELETE FROM archives WHERE conversation_id = ?",
    "messages": "DELETE FROM messages WHERE conversation_id = ?",
    "conversations": """
        DELETE FROM conversations WHERE conversation_id = ?1
        AND user_id IN (SELECT user_id FROM members WHERE conversation_id = ?1)
    """,
    "message_status": "DELETE FROM message_status WHERE conversation_id = ?",
    "members": "DELETE FROM members WHERE conversation_id = ?",
    "conversation_heads": "DELETE FROM conversation_heads WHERE conversation_id = ?",
}


def create(head: Head, members_: Sequence[Member], rows_: Sequence[Row], hop: Hop) -> bool:
    if not hop.write("conversation_heads", _PUT_HEAD, _values(head)):
        return False
    put_members(hop, members_)
    put_rows(hop, rows_)
    return True


def heads(conversation_ids: Iterable[str], hop: Hop) -> dict[str, Head]:
    found = hop.rows("conversation_heads", _HEADS, (_json(conversation_ids),))
    return {row[0]: Head(**dict(zip(_HEAD, row, strict=True))) for row in found}


def members(conversation_id: str, hop: Hop) -> list[Member]:
    found = hop.rows("members", _MEMBERS, (conversation_id,))
    return [Member(**dict(zip(_MEMBER, row, strict=True))) for row in found]


def put_members(hop: Hop, members_: Sequence[Member]) -> None:
    _PUT_MEMBERS.write(hop, [_values(member) for member in members_])


def rename(conversation_id: str, name: str | None, avatar_url: str | None, hop: Hop) -> None:
    bindings = (name, avatar_url, conversation_id)
    if not hop.write("conversation_heads", _RENAME_HEAD, bindings):
        raise Missing(conversation_id)
    hop.write("conversations", _RENAME_ROWS, bindings)


def delete_some(conversation_id: str, hop: Hop) -> bool:
    """One commit's worth of a deletion; True when the conversation is gone.

    A long log goes from its beginning and the floor rises with it: who reads meanwhile sees a shorter log, no hole.
    """
    end = hop.rows("messages", _CHUNK_END, (conversation_id, bounds.SQLITE_DELETE_CHUNK))
    if end:
        hop.write("messages", _CUT_LOG, (conversation_id, end[0][0]))
        hop.write("conversation_heads", _CUT_HEAD, (end[0][0], conversation_id))
        return False
    for table, sql in _DELETES.items():
        hop.write(table, sql, (conversation_id,))
    return True


# --- inbox rows -----------------------------------------------------------------------------------
_KEPT = ("user_id", "conversation_id", "muted", "pinned", "archived")  # the user's own: never overwritten by a put
_PUT_ROWS = Bulk(
    "conversations",
    f"""
    INSERT INTO conversations ({_names(_ROW)}) VALUES {{values}}
    ON CONFLICT DO UPDATE SET {", ".join(f"{field} = excluded.{field}" for field in _ROW if field not in _KEPT)}
    """,
    len(_ROW),
)
_REMOVE_ROW = "DELETE FROM conversations WHERE user_id = ? AND conversation_id = ?"
_ROWS = f"""
    SELECT {_names(_ROW, "c")} FROM json_each(?2) AS named
    CROSS JOIN conversations AS c ON c.user_id = ?1 AND c.conversation_id = named.value
"""
_SCAN = f"""
    SELECT {_names(_ROW)} FROM conversations WHERE user_id = ? AND conversation_id > ?
    ORDER BY conversation_id LIMIT ?
"""
# A message makes a hidden row visible.
_TOUCH = Bulk(
    "conversations",
    """
    UPDATE conversations SET
      last_seq = v.column3,
      last_message_ts = v.column4,
      last_message_preview = v.column5,
      unread_count = coalesce(v.column6, unread_count),
      is_hidden = is_hidden AND v.column3 = 0
    FROM (VALUES {values}) AS v
    WHERE conversations.user_id = v.column1 AND conversations.conversation_id = v.column2 AND (
      last_seq < v.column3
      OR last_seq = v.column3 AND (v.column5 IS NULL OR last_message_preview IS NOT NULL))
    """,
    columns=6,
)
_FLAG = """
    UPDATE conversations SET
      muted = coalesce(?, muted), pinned = coalesce(?, pinned), archived = coalesce(?, archived)
    WHERE user_id = ? AND conversation_id = ?
"""
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


def put_rows(hop: Hop, rows_: Sequence[Row]) -> None:
    _PUT_ROWS.write(hop, [_values(row) for row in rows_])


def remove_rows(hop: Hop, conversation_id: str, user_ids: Iterable[str]) -> None:
    for user_id in user_ids:
        hop.write("conversations", _REMOVE_ROW, (user_id, conversation_id))


def rows(user_id: str, conversation_ids: Iterable[str], hop: Hop) -> dict[str, Row]:
    found = hop.rows("conversations", _ROWS, (user_id, _json(conversation_ids)))
    return {row.conversation_id: row for row in map(_row, found)}


def scan(user_id: str, after_id: str, limit: int, hop: Hop) -> list[Row]:
    return [_row(row) for row in hop.rows("conversations", _SCAN, (user_id, after_id, max(limit, 0)))]


def touch(touches: Sequence[Touch], hop: Hop) -> None:
    bindings = [
        (touch.user_id, touch.conversation_id, touch.last_seq, touch.last_ms, touch.preview, touch.unread_count)
        for touch in touches
    ]
    if len({key[:2] for key in bindings}) == len(bindings):
        _TOUCH.write(hop, bindings)
    else:  # a statement would take any one of two touches of the same row
        for one in bindings:
            _TOUCH.write(hop, [one])


def flag(
    user_id: str, conversation_id: str, muted: bool | None, pinned: bool | None, archived: bool | None, hop: Hop
) -> Row:
    if not hop.write("conversations", _FLAG, (muted, pinned, archived, user_id, conversation_id)):
        raise Missing(conversation_id)
    return rows(user_id, (conversation_id,), hop)[conversation_id]


def label(labelled: Sequence[tuple[str, str]], name: str, avatar_url: str | None, hop: Hop) -> None:
    for user_id, conversation_id in labelled:
        hop.write("conversations", _LABEL, (name, avatar_url, user_id, conversation_id))


def users(after_id: str, limit: int, hop: Hop) -> list[str]:
    return [user_id for (user_id,) in hop.rows("conversations", _USERS, (after_id, max(limit, 0)))]


def _row(values: tuple[Any, ...]) -> Row:
    user_id, conversation_id, kind, name, avatar_url, preview, last_ms, last_seq, *rest = values
    unread_count, muted, pinned, archived, joined_seq, joined_ms, is_hidden = rest
    return Row(
        user_id=user_id,
        conversation_id=conversation_id,
        kind=kind,
        name=name,
        avatar_url=avatar_url,
        last_message_preview=preview,
        last_message_ts=last_ms,
        last_seq=last_seq,
        unread_count=unread_count,
        muted=muted == 1,
        pinned=pinned == 1,
        archived=archived == 1,
        joined_seq=joined_seq,
        joined_ms=joined_ms,
        is_hidden=is_hidden == 1,
    )


# --- statuses -------------------------------------------------------------------------------------
_STATUSES_NAMED = f"""
    SELECT {_names(_STATUS, "s")} FROM json_each(?2) AS named
    CROSS JOIN message_status AS s ON s.conversation_id = named.value AND s.user_id = ?1
"""
_STATUSES_OF = f"SELECT {_names(_STATUS)} FROM message_status WHERE conversation_id = ? ORDER BY user_id"
_VERSION = "SELECT version, delivered_seq, read_seq FROM message_status WHERE conversation_id = ? AND user_id = ?"
_PUT_STATUS = f"INSERT OR REPLACE INTO message_status ({_names(_STATUS)}) VALUES ({','.join('?' * len(_STATUS))})"
# A late mark must not bring back the row of someone who left, so it needs a present member. Its cursor counts for
# nothing (since_seq 0): who never read anything stands where the membership began.
_DELIVER = Bulk(
    "message_status",
    f"""
    INSERT INTO message_status ({_names(_STATUS)})
    SELECT v.column1, v.column2, v.column3, 0, 0, NULL, 0, 0 FROM (VALUES {{values}}) AS v
    CROSS JOIN members AS m ON m.conversation_id = v.column1 AND m.user_id = v.column2 AND m.left_seq IS NULL
    WHERE true
    ON CONFLICT DO UPDATE SET delivered_seq = excluded.delivered_seq WHERE excluded.delivered_seq > delivered_seq
    RETURNING conversation_id, user_id
    """,
    columns=3,
)


def statuses(user_id: str, conversation_ids: Iterable[str], hop: Hop) -> dict[str, Status]:
    found = hop.rows("message_status", _STATUSES_NAMED, (user_id, _json(conversation_ids)))
    return {row[0]: _status(row) for row in found}


def statuses_of(conversation_id: str, hop: Hop) -> list[Status]:
    return [_status(row) for row in hop.rows("message_status", _STATUSES_OF, (conversation_id,))]


def put_status(status: Status, hop: Hop) -> Status:
    found = hop.rows("message_status", _VERSION, (status.conversation_id, status.user_id))
    version, delivered_seq, read_seq = found[0] if found else (0, 0, 0)
    if version != status.version - 1:
        raise Conflict(f"the status has version {version}, not {status.version - 1}")
    stored = msgspec.structs.replace(
        status,
        delivered_seq=max(delivered_seq, status.delivered_seq),
        read_seq=max(read_seq, status.read_seq),
    )
    hop.write("message_status", _PUT_STATUS, _status_values(stored))
    return stored


def deliver(marks: Sequence[tuple[str, str, int]], hop: Hop) -> set[tuple[str, str]]:
    return set(_DELIVER.changed(hop, marks))


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


# --- accounts -------------------------------------------------------------------------------------
_USER_OF = f"SELECT {_names(_USER)} FROM users WHERE user_id = ?"
_PUT_USER = f"""
    INSERT INTO users ({_names(_USER)}) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET
      name = excluded.name,
      avatar_url = excluded.avatar_url,
      tokens_valid_after = max(tokens_valid_after, excluded.tokens_valid_after)
"""
_API_KEY_OF = f"SELECT {_names(_API_KEY)} FROM api_keys WHERE key_hash = ?"
_PUT_API_KEY = f"INSERT OR REPLACE INTO api_keys ({_names(_API_KEY)}) VALUES (?, ?, ?, ?)"
_API_KEYS = f"SELECT {_names(_API_KEY)} FROM api_keys ORDER BY name, created_ms, key_hash"
_REMOVE_API_KEY = "DELETE FROM api_keys WHERE key_hash = ?"


def user(user_id: str, hop: Hop) -> User | None:
    found = hop.rows("users", _USER_OF, (user_id,))
    return User(**dict(zip(_USER, found[0], strict=True))) if found else None


def put_user(user_: User, hop: Hop) -> None:
    hop.write("users", _PUT_USER, _values(user_))


def api_key(key_hash: str, hop: Hop) -> ApiKey | None:
    found = hop.rows("api_keys", _API_KEY_OF, (key_hash,))
    return ApiKey(**dict(zip(_API_KEY, found[0], strict=True))) if found else None


def put_api_key(key: ApiKey, hop: Hop) -> None:
    hop.write("api_keys", _PUT_API_KEY, _values(key))


def api_keys(hop: Hop) -> list[ApiKey]:
    return [ApiKey(**dict(zip(_API_KEY, row, strict=True))) for row in hop.rows("api_keys", _API_KEYS, ())]


def remove_api_key(key_hash: str, hop: Hop) -> bool:
    return hop.write("api_keys", _REMOVE_API_KEY, (key_hash,)) > 0
