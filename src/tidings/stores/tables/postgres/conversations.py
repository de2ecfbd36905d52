"""conversation_heads and members on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidings.model import Head, Member, Row
from tidings.stores.tables.postgres.inboxes import put_rows
from tidings.stores.tables.postgres.server.database import Port, Statements, columns, names, unnested
from tidings.stores.tables.postgres.server.rows import Rows
from tidings.stores.tables.values import Group
from tidings.stores.tables.whole import HEADS, MEMBERS

DELETE_CHUNK = 5_000  # rows of a log that one commit of a deletion removes
_HEADS_OF, _MEMBERS_OF = Rows(HEADS), Rows(MEMBERS)
_HEAD, _head = _HEADS_OF.columns, _HEADS_OF.value_of
_MEMBER, _member = _MEMBERS_OF.columns, _MEMBERS_OF.value_of
_PUT_HEAD = f"""
    INSERT INTO @conversation_heads ({names(_HEAD)}) VALUES ({", ".join(f"${at + 1}" for at in range(len(_HEAD)))})
    ON CONFLICT DO NOTHING
"""
_HEADS = f"SELECT {names(_HEAD)} FROM @conversation_heads WHERE conversation_id = ANY($1::text[])"
_PUT_MEMBERS = f"""
    INSERT INTO @members ({names(_MEMBER)}) SELECT * FROM {unnested(_MEMBERS_OF.types)}
    ON CONFLICT (conversation_id, user_id) DO UPDATE SET
      role = excluded.role, joined_seq = excluded.joined_seq, joined_ms = excluded.joined_ms,
      left_seq = excluded.left_seq, is_requested = excluded.is_requested
"""
_MEMBERS = f"""
    SELECT {names(_MEMBER)} FROM @members WHERE conversation_id = $1 AND left_seq IS NULL ORDER BY user_id
"""
_MEMBERS_AFTER = f"""
    SELECT {names(_MEMBER)} FROM @members
    WHERE conversation_id = $1 AND user_id > $2 AND left_seq IS NULL ORDER BY user_id LIMIT $3
"""
_NAMED = f"""
    SELECT {names(_MEMBER)} FROM @members WHERE conversation_id = $1 AND user_id = ANY($2::text[])
"""
_PRESENT = """
    SELECT user_id FROM @members WHERE conversation_id = $1 AND user_id = ANY($2::text[]) AND left_seq IS NULL
"""
_WITHDRAW = "DELETE FROM @conversations WHERE user_id = $1 AND conversation_id = $2 AND is_invited"
_NAMES = "name = CASE WHEN $2 THEN $3 ELSE c.name END, avatar_url = CASE WHEN $4 THEN $5 ELSE c.avatar_url END"
_RENAME_HEAD = f"UPDATE @conversation_heads AS c SET {_NAMES} WHERE conversation_id = $1"
_RENAME_ROWS = f"""
    UPDATE @conversations AS c SET {_NAMES} FROM @members AS m
    WHERE m.conversation_id = $1 AND m.left_seq IS NULL AND c.user_id = m.user_id AND c.conversation_id = $1
"""
_LOCK = (
    "SELECT 1 FROM @conversation_heads WHERE conversation_id = $1 FOR UPDATE"  # an append waits for it, or finds none
)
_CHUNK_END = "SELECT seq_no FROM @messages WHERE conversation_id = $1 ORDER BY seq_no LIMIT 1 OFFSET $2"
_CUT_LOG = "DELETE FROM @messages WHERE conversation_id = $1 AND seq_no <= $2"
_CUT_HEAD = "UPDATE @conversation_heads SET floor_seq = greatest(floor_seq, $1) WHERE conversation_id = $2"
_DELETES = {
    # The same commit asks the archiver to delete what the conversation has in the cold tier and in the search index.
    "rechecks": """
        INSERT INTO @rechecks (conversation_id, s3_ref, why, mark, since_ms)
        SELECT $1, '*', 'deleted', substr(md5(random()::text), 1, 16),
               (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        FROM @conversation_heads WHERE conversation_id = $1
        ON CONFLICT (conversation_id, s3_ref)
        DO UPDATE SET why = excluded.why, mark = excluded.mark, since_ms = excluded.since_ms
    """,
    "archives": "DELETE FROM @archives WHERE conversation_id = $1",
    "messages": "DELETE FROM @messages WHERE conversation_id = $1",
    "conversations": """
        DELETE FROM @conversations AS c USING @members AS m
        WHERE m.conversation_id = $1 AND c.user_id = m.user_id AND c.conversation_id = $1
    """,
    "message_status": "DELETE FROM @message_status WHERE conversation_id = $1",
    "members": "DELETE FROM @members WHERE conversation_id = $1",
    "records": "DELETE FROM @records WHERE owner = 'c:' || $1::text",
    "conversation_heads": "DELETE FROM @conversation_heads WHERE conversation_id = $1",
}


class PostgresConversations(Port):
    async def create(self, head: Head, members: Sequence[Member], rows: Sequence[Row]) -> bool:
        async with self._database.transaction() as tx:
            if not await tx.write("conversation_heads", _PUT_HEAD, *_HEADS_OF.row_of(head)):
                return False
            await put_members(tx, members)
            await put_rows(tx, rows)
        return True

    async def heads(self, conversation_ids: Iterable[str]) -> dict[str, Head]:
        found = await self._database.rows("conversation_heads", _HEADS, list(dict.fromkeys(conversation_ids)))
        return {row[0]: _head(row) for row in found}

    async def members(self, conversation_id: str) -> list[Member]:
        found = await self._database.rows("members", _MEMBERS, conversation_id)
        return [_member(row) for row in found]

    async def members_after(self, conversation_id: str, *, after_id: str, limit: int) -> list[Member]:
        found = await self._database.rows("members", _MEMBERS_AFTER, conversation_id, after_id, limit)
        return [_member(row) for row in found]

    async def named(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        found = await self._named(conversation_id, user_ids)
        return [member for member in found if member.left_seq is None]

    async def former(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        found = await self._named(conversation_id, user_ids)
        return [member for member in found if member.left_seq is not None]

    async def _named(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        found = await self._database.rows("members", _NAMED, conversation_id, list(user_ids))
        return [_member(row) for row in found]

    async def invite(self, members: Sequence[Member], rows: Sequence[Row]) -> None:
        """The head is locked: nobody becomes a member between the check and the rows."""
        if not members:
            return
        async with self._database.transaction() as tx:
            conversation_id = members[0].conversation_id
            await tx.rows("conversation_heads", _LOCK, conversation_id)
            found = await tx.rows("members", _PRESENT, conversation_id, [member.user_id for member in members])
            present = {row[0] for row in found}
            await put_members(tx, [member for member in members if member.user_id not in present])
            await put_rows(tx, [row for row in rows if row.user_id not in present])

    async def withdraw(self, conversation_id: str, user_id: str) -> bool:
        return await self._database.write("conversations", _WITHDRAW, user_id, conversation_id) > 0

    async def rename_rows(self, conversation_id: str) -> None:
        """Do nothing: they are renamed in the commit of the entry."""

    async def delete(self, conversation_id: str) -> None:
        """A long log goes in several commits from its beginning, and the floor rises with it: no reader sees a gap."""
        while True:
            async with self._database.transaction() as tx:
                await tx.rows("conversation_heads", _LOCK, conversation_id)
                end = await tx.rows("messages", _CHUNK_END, conversation_id, DELETE_CHUNK)
                if not end:
                    for table, sql in _DELETES.items():
                        await tx.write(table, sql, conversation_id)
                    return
                await tx.write("conversation_heads", _CUT_HEAD, end[0][0], conversation_id)
                await tx.write("messages", _CUT_LOG, conversation_id, end[0][0])


async def put_members(tx: Statements, members: Sequence[Member]) -> None:
    if members:
        values = sorted(map(_MEMBERS_OF.row_of, members))
        await tx.write("members", _PUT_MEMBERS, *columns(values, len(_MEMBER)))


async def rename(tx: Statements, group: Group) -> None:
    if names := group.names:
        values = ("name" in names, names.get("name"), "avatar_url" in names, names.get("avatar_url"))
        await tx.write("conversation_heads", _RENAME_HEAD, group.conversation_id, *values)
        await tx.write("conversations", _RENAME_ROWS, group.conversation_id, *values)
