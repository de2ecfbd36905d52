"""conversation_heads and members on SQLite. A store error is raised before the first write.

Each function at module level is the work of one request: it runs on a thread of engine.py, in a transaction that it
does not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tidings.model import Head, Member, Row
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import Bulk, json_of, names, values_of
from tidings.stores.tables.sqlite.inboxes import put_rows
from tidings.stores.tables.values import Group
from tidings.stores.tables.whole import HEADS, MEMBERS

_HEAD = HEADS.columns
_MEMBER, _member = MEMBERS.columns, MEMBERS.value_of

# CROSS JOIN makes SQLite take the names one by one and look each up by its key, never scan.
_PUT_HEAD = f"INSERT OR IGNORE INTO conversation_heads ({names(_HEAD)}) VALUES ({','.join('?' * len(_HEAD))})"
_HEADS = f"""
    SELECT {names(_HEAD, "h")} FROM json_each(?) AS named
    CROSS JOIN conversation_heads AS h ON h.conversation_id = named.value
"""
_PUT_MEMBERS = Bulk("members", f"INSERT OR REPLACE INTO members ({names(_MEMBER)}) VALUES {{values}}", len(_MEMBER))
# By the index of those who are present: more people may have left a conversation than are in it.
_MEMBERS = f"""
    SELECT {names(_MEMBER)} FROM members INDEXED BY present
    WHERE conversation_id = ? AND left_seq IS NULL ORDER BY user_id
"""
_MEMBERS_AFTER = f"""
    SELECT {names(_MEMBER)} FROM members INDEXED BY present
    WHERE conversation_id = ? AND user_id > ? AND left_seq IS NULL ORDER BY user_id LIMIT ?
"""
_NAMED = f"""
    SELECT {names(_MEMBER, "m")} FROM json_each(?2) AS named
    CROSS JOIN members AS m ON m.conversation_id = ?1 AND m.user_id = named.value
"""
_PRESENT = "SELECT 1 FROM members WHERE conversation_id = ? AND user_id = ? AND left_seq IS NULL"
_WITHDRAW = "DELETE FROM conversations WHERE user_id = ? AND conversation_id = ? AND is_invited = 1"
_RENAME_HEAD = """
    UPDATE conversation_heads SET name = iif(?, ?, name), avatar_url = iif(?, ?, avatar_url) WHERE conversation_id = ?
"""
_RENAME_ROWS = """
    UPDATE conversations SET name = iif(?, ?, name), avatar_url = iif(?, ?, avatar_url) WHERE conversation_id = ?
    AND user_id IN (SELECT user_id FROM members WHERE conversation_id = ? AND left_seq IS NULL)
"""
_CHUNK_END = "SELECT seq_no FROM messages WHERE conversation_id = ? ORDER BY seq_no LIMIT 1 OFFSET ?"
_CUT_LOG = "DELETE FROM messages WHERE conversation_id = ? AND seq_no <= ?"
_CUT_HEAD = "UPDATE conversation_heads SET floor_seq = max(floor_seq, ?) WHERE conversation_id = ?"
_DELETES = {
    # The same commit asks the archiver to delete what the conversation has in the cold tier and in the search index.
    "rechecks": """
        INSERT OR REPLACE INTO rechecks (conversation_id, s3_ref, why, mark, since_ms)
        SELECT ?1, '*', 'deleted', lower(hex(randomblob(8))), CAST(unixepoch('subsec') * 1000 AS INTEGER)
        FROM conversation_heads WHERE conversation_id = ?1
    """,
    "archives": "DELETE FROM archives WHERE conversation_id = ?",
    "messages": "DELETE FROM messages WHERE conversation_id = ?",
    "conversations": """
        DELETE FROM conversations WHERE conversation_id = ?1
        AND user_id IN (SELECT user_id FROM members WHERE conversation_id = ?1)
    """,
    "message_status": "DELETE FROM message_status WHERE conversation_id = ?",
    "members": "DELETE FROM members WHERE conversation_id = ?",
    "records": "DELETE FROM records WHERE owner = 'c:' || ?",
    "conversation_heads": "DELETE FROM conversation_heads WHERE conversation_id = ?",
}


class SqliteConversations(Port):
    async def create(self, head: Head, members: Sequence[Member], rows: Sequence[Row]) -> bool:
        return await self._write(partial(_create, head, members, rows))

    async def heads(self, conversation_ids: Iterable[str]) -> dict[str, Head]:
        return await self._read(partial(_heads, tuple(conversation_ids)))

    async def members(self, conversation_id: str) -> list[Member]:
        return await self._read(lambda tx: [_member(row) for row in tx.rows("members", _MEMBERS, (conversation_id,))])

    async def members_after(self, conversation_id: str, *, after_id: str, limit: int) -> list[Member]:
        bindings = (conversation_id, after_id, limit)
        return await self._read(lambda tx: [_member(row) for row in tx.rows("members", _MEMBERS_AFTER, bindings)])

    async def named(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        found = await self._read(partial(_named, conversation_id, tuple(user_ids)))
        return [member for member in found if member.left_seq is None]

    async def former(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        found = await self._read(partial(_named, conversation_id, tuple(user_ids)))
        return [member for member in found if member.left_seq is not None]

    async def invite(self, members: Sequence[Member], rows: Sequence[Row]) -> None:
        await self._write(partial(_invite, members, rows))

    async def withdraw(self, conversation_id: str, user_id: str) -> bool:
        return await self._write(lambda tx: tx.write("conversations", _WITHDRAW, (user_id, conversation_id))) > 0

    async def rename_rows(self, conversation_id: str) -> None:
        """Do nothing: they are renamed in the commit of the entry."""

    async def delete(self, conversation_id: str) -> None:
        while not await self._write(partial(_delete_some, conversation_id)):
            pass  # a long log goes in several commits, so that other writers get their turn between them


def _create(head: Head, members: Sequence[Member], rows: Sequence[Row], tx: Transaction) -> bool:
    if not tx.write("conversation_heads", _PUT_HEAD, values_of(head)):
        return False
    put_members(tx, members)
    put_rows(tx, rows)
    return True


def _heads(conversation_ids: Iterable[str], tx: Transaction) -> dict[str, Head]:
    found = tx.rows("conversation_heads", _HEADS, (json_of(conversation_ids),))
    return {row[0]: HEADS.value_of(row) for row in found}


def _named(conversation_id: str, user_ids: tuple[str, ...], tx: Transaction) -> list[Member]:
    return [_member(row) for row in tx.rows("members", _NAMED, (conversation_id, json_of(user_ids)))]


def _invite(members: Sequence[Member], rows: Sequence[Row], tx: Transaction) -> None:
    present = {
        member.user_id for member in members if tx.rows("members", _PRESENT, (member.conversation_id, member.user_id))
    }
    put_members(tx, [member for member in members if member.user_id not in present])
    put_rows(tx, [row for row in rows if row.user_id not in present])


def put_members(tx: Transaction, members: Sequence[Member]) -> None:
    _PUT_MEMBERS.write(tx, [values_of(member) for member in members])


def rename(tx: Transaction, group: Group) -> None:
    if names := group.names:
        values = ("name" in names, names.get("name"), "avatar_url" in names, names.get("avatar_url"))
        tx.write("conversation_heads", _RENAME_HEAD, (*values, group.conversation_id))
        tx.write("conversations", _RENAME_ROWS, (*values, group.conversation_id, group.conversation_id))


def _delete_some(conversation_id: str, tx: Transaction) -> bool:
    """Delete as much as fits one commit. True: the conversation is gone.

    A long log goes from its beginning, and the floor rises with it. Meanwhile a reader sees a shorter log, no gap.
    """
    tx.has_erased = True
    end = tx.rows("messages", _CHUNK_END, (conversation_id, bounds.DELETE_CHUNK))
    if end:
        tx.write("messages", _CUT_LOG, (conversation_id, end[0][0]))
        tx.write("conversation_heads", _CUT_HEAD, (end[0][0], conversation_id))
        return False
    for table, sql in _DELETES.items():
        tx.write(table, sql, (conversation_id,))
    return True
