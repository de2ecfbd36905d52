"""The log on PostgreSQL: append, and the reads of the Messages port.

Most groups are plain: new messages and nothing else. All plain groups of an append are one statement, which is one
commit: it locks their heads in the order of their ids, raises them, and inserts the rows. A key that was taken fails
the statement as a whole, and each group is then stored the careful way: its head is locked, what stands in the way is
read, and only a group without anything in its way is written. The lock of the head makes appends to one conversation
take turns, and its order makes a deadlock between batches impossible.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import asyncpg

from tidings.bounds import GROUP_ENTRIES_MAX
from tidings.errors import StoreError, Throttled
from tidings.model import COUNTED_KINDS, Entry, preview_of
from tidings.stores.tables.log_rows import COLUMNS, values_of
from tidings.stores.tables.postgres.conversations import put_members, rename
from tidings.stores.tables.postgres.inboxes import accept_rows, keep_roles, put_rows, remove_rows
from tidings.stores.tables.postgres.pages import Asked, Pages
from tidings.stores.tables.postgres.records import are_stale, put_records
from tidings.stores.tables.postgres.server.database import Database, Port, Statements, columns, names, unnested
from tidings.stores.tables.postgres.server.rows import Rows, to_bytes
from tidings.stores.tables.stored_content import is_mentioned, last_of, last_of_entry, to_json
from tidings.stores.tables.values import Answer, Group, Known, Refused, Rewrite, Stored, Top, Verdict, places_of
from tidings.stores.tables.whole import MESSAGES

_COLUMNS = names(COLUMNS)
_TYPES = Rows(MESSAGES).types
_HEAD_TYPES = ("text", "bigint", "bigint", "bigint", "bytea", "text")
_HEAD_NAMES = "(conversation_id, head, last_seq, last_ms, preview, last_message)"
_RAISED = """
    head = greatest(h.head, v.head),
    last_seq = greatest(h.last_seq, v.last_seq),
    last_ms = CASE WHEN v.last_seq > h.last_seq THEN v.last_ms ELSE h.last_ms END,
    preview = CASE WHEN v.last_seq > h.last_seq THEN v.preview ELSE h.preview END,
    last_message = CASE WHEN v.last_seq > h.last_seq THEN v.last_message ELSE h.last_message END
"""
_STORE = f"""
    WITH locked AS MATERIALIZED (
      SELECT conversation_id FROM @conversation_heads WHERE conversation_id = ANY($1::text[])
      ORDER BY conversation_id FOR UPDATE
    ), raised AS (
      UPDATE @conversation_heads AS h SET {_RAISED}
      FROM {unnested(_HEAD_TYPES)} AS v {_HEAD_NAMES}, locked
      WHERE h.conversation_id = v.conversation_id AND locked.conversation_id = v.conversation_id
      RETURNING h.conversation_id
    ), written AS (
      INSERT INTO @messages ({_COLUMNS})
      SELECT {_COLUMNS} FROM {unnested(_TYPES, len(_HEAD_TYPES) + 1)} AS e ({_COLUMNS})
      WHERE conversation_id IN (SELECT conversation_id FROM raised)
    )
    SELECT conversation_id FROM raised
"""
_PUT = f"INSERT INTO @messages ({_COLUMNS}) SELECT * FROM {unnested(_TYPES)}"
_RAISE = f"""
    UPDATE @conversation_heads AS h SET {_RAISED}
    FROM {unnested(_HEAD_TYPES)} AS v {_HEAD_NAMES}
    WHERE h.conversation_id = v.conversation_id
"""
_LOCK = "SELECT 1 FROM @conversation_heads WHERE conversation_id = $1 FOR UPDATE"
_KNOWN = """
    SELECT k.at, m.seq_no FROM unnest($2::int[], $3::text[], $4::text[]) AS k (at, sender_id, message_id)
    JOIN @messages AS m ON m.conversation_id = $1 AND m.sender_id = k.sender_id AND m.message_id = k.message_id
"""
_FILLED = "SELECT seq_no FROM @messages WHERE conversation_id = $1 AND seq_no = ANY($2::bigint[])"
# The rows are locked: the archiver must not move their content between this read and the rewrite.
_REVS = """
    SELECT seq_no, rev, edit_seq FROM @messages WHERE conversation_id = $1 AND seq_no = ANY($2::bigint[])
    ORDER BY seq_no FOR UPDATE
"""
_REWRITE = """
    UPDATE @messages SET content = $1, is_deleted = $2, edited_ms = $3, edit_seq = $4, rev = rev + 1, s3_ref = NULL,
      digest = CASE WHEN $2 THEN NULL ELSE digest END
    WHERE conversation_id = $5 AND seq_no = $6
"""
_WIPE = """
    UPDATE @messages SET content = NULL, digest = NULL, rev = rev + 1, s3_ref = NULL
    WHERE conversation_id = $1 AND seq_no = $2
"""
# The archiver removes the old content from the segment: the same commit asks for it.
_RECHECK = """
    INSERT INTO @rechecks (conversation_id, s3_ref, why, mark, since_ms)
    SELECT conversation_id, s3_ref, 'rewritten', substr(md5(random()::text), 1, 16),
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM @messages WHERE conversation_id = $1 AND seq_no = $2 AND s3_ref IS NOT NULL
    ON CONFLICT (conversation_id, s3_ref)
    DO UPDATE SET why = excluded.why, mark = excluded.mark, since_ms = excluded.since_ms
"""
_SHOW = "UPDATE @conversation_heads SET preview = $1, last_message = $2 WHERE conversation_id = $3 AND last_seq = $4"
_MEMBERS_SEQ = """
    UPDATE @conversation_heads SET members_seq = greatest(members_seq, $1), large_ms = coalesce($2::bigint, large_ms)
    WHERE conversation_id = $3
"""
_AT_OR_BELOW = """
    SELECT seq_no, sent_ms FROM @messages WHERE conversation_id = $1 AND seq_no <= $2 ORDER BY seq_no DESC LIMIT 1
"""
_LATEST = """
    SELECT max(seq_no), max(sent_ms) FROM
    (SELECT seq_no, sent_ms FROM @messages WHERE conversation_id = $1 ORDER BY seq_no DESC LIMIT $2) AS found
"""
_UNREAD = f"""
    SELECT seq_no, mentions FROM @messages
    WHERE conversation_id = $1 AND seq_no > $2 AND kind IN ({", ".join(f"'{kind}'" for kind in COUNTED_KINDS)})
      AND NOT is_deleted AND NOT is_uncounted AND sender_id IS DISTINCT FROM $3
      AND coalesce(sender_id, '') <> ALL($5::text[])
    ORDER BY seq_no DESC LIMIT $4
"""
_MEMBERS_SEQ_OF = "SELECT members_seq FROM @conversation_heads WHERE conversation_id = $1"
_INTEGER_MAX = 2**63 - 1  # of bigint; a cursor above it means "from the end"


class PostgresLog(Port):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._pages = {newest_first: Pages(database, newest_first=newest_first) for newest_first in (True, False)}

    async def append(self, groups: Sequence[Group]) -> Sequence[Answer]:
        answers: list[Answer] = [None] * len(groups)
        plain = [at for at, group in enumerate(groups) if _is_plain(group)]
        careful = [at for at, group in enumerate(groups) if not _is_plain(group)]
        if plain:
            stored = await self._store_plain([groups[at] for at in plain])
            if stored is None:
                careful = list(range(len(groups)))
            else:
                for at in plain:
                    if groups[at].conversation_id not in stored:
                        answers[at] = Refused({}, frozenset(), is_gone=True)
        errors = 0
        for at in careful:
            try:
                answers[at] = await self._store_careful(groups[at])
            except StoreError as error:
                answers[at] = error
                errors += 1
        if errors and errors == len(groups):
            raise next(answer for answer in answers if isinstance(answer, StoreError))
        return answers

    async def catch_up(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        """Do nothing: the head is raised in the commit of its entries."""

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        return await self._pages[newest_first].page(Asked(conversation_id, _int(after), _int(before), _int(limit)))

    async def top(self, conversation_id: str) -> Top:
        members = await self._database.rows("conversation_heads", _MEMBERS_SEQ_OF, conversation_id)
        ((seq_no, sent_ms),) = await self._database.rows("messages", _LATEST, conversation_id, GROUP_ENTRIES_MAX)
        return Top(seq_no or 0, sent_ms or 0, members[0][0] if members else 0)

    async def unread(
        self, conversation_id: str, user_id: str, *, after: int, limit: int, but: Collection[str] = ()
    ) -> list[tuple[int, bool]]:
        bindings = (conversation_id, _int(after), user_id, _int(limit), list(but))
        found = await self._database.rows("messages", _UNREAD, *bindings)
        return [(row[0], is_mentioned(user_id, row[1])) for row in found]

    async def seq_at(self, conversation_id: str, sent_ms: int) -> int:
        """Halve the range until it is empty. A gap is answered by the entry below it, at worst by `best` again."""
        best, low = 0, 1
        high, _ = await self._at_or_below(conversation_id, _INTEGER_MAX)
        while low <= high:
            middle = (low + high) // 2
            seq_no, at_ms = await self._at_or_below(conversation_id, middle)
            if at_ms <= sent_ms:
                best, low = seq_no, middle + 1
            else:
                high = seq_no - 1
        return best

    async def _at_or_below(self, conversation_id: str, seq_no: int) -> tuple[int, int]:
        found = await self._database.rows("messages", _AT_OR_BELOW, conversation_id, seq_no)
        return (found[0][0], found[0][1]) if found else (0, 0)

    async def _store_plain(self, groups: Sequence[Group]) -> set[str] | None:
        """Store all of them, and answer the conversations that exist. None: a key was taken, and nothing is stored."""
        heads = [_raised(group.conversation_id, group.entries) for group in groups]
        if len({head[0] for head in heads}) < len(heads):
            return None  # a conversation that is named twice is stored in two steps
        entries = [values_of(entry) for group in groups for entry in group.entries]
        arrays = [*columns(heads, len(_HEAD_TYPES)), *columns(entries, len(_TYPES))]
        try:
            found = await self._database.changed("messages", _STORE, *arrays)
        except asyncpg.UniqueViolationError:
            return None
        return {row[0] for row in found}

    async def _store_careful(self, group: Group) -> Verdict:
        """Read what stands in the way, and write only if nothing does."""
        async with self._database.transaction() as tx:
            if not await tx.rows("conversation_heads", _LOCK, group.conversation_id):
                return Refused({}, frozenset(), is_gone=True)
            known = await _known_in(tx, group)
            numbers = [entry.seq_no for entry in group.entries]
            filled = await tx.rows("messages", _FILLED, group.conversation_id, numbers)
            places = places_of(group.entries, [row[0] for row in filled], known)
            targets = [rewrite.target_seq for rewrite in group.rewrites]
            found = await tx.rows("messages", _REVS, group.conversation_id, targets) if targets else []
            revs = {row[0]: (row[1], row[2]) for row in found}
            is_stale = any(revs.get(one.target_seq, (None,))[0] != one.expected_rev for one in group.rewrites)
            is_stale = is_stale or await are_stale(tx, group.puts)
            if known or places.taken or is_stale:
                return Refused(known, places.taken, is_stale=is_stale)
            await _store(tx, group, [group.entries[at] for at in places.free])
        return Stored(places.left_out) if places.left_out else None


def _is_plain(group: Group) -> bool:
    return group.is_plain and not any(entry.is_void for entry in group.entries)


async def _known_in(tx: Statements, group: Group) -> dict[int, Known]:
    named = [
        (at, entry.sender_id, entry.message_id)
        for at, entry in enumerate(group.entries)
        if entry.message_id is not None and entry.sender_id is not None
    ]
    if not named:
        return {}
    found = await tx.rows("messages", _KNOWN, group.conversation_id, *columns(named, 3))
    return {row[0]: Known(row[1]) for row in found}


async def _store(tx: Statements, group: Group, entries: Sequence[Entry]) -> None:
    if not entries:  # every slot was closed already
        return
    await tx.write("messages", _PUT, *columns([values_of(entry) for entry in entries], len(_TYPES)))
    raised = [_raised(group.conversation_id, entries)]
    await tx.write("conversation_heads", _RAISE, *columns(raised, len(_HEAD_TYPES)))
    for rewrite in group.rewrites:
        await _rewrite(tx, group.conversation_id, rewrite)
    if group.members:
        changed = [entry.seq_no for entry in entries if entry.changes_members] or [entries[-1].seq_no]
        await tx.write("conversation_heads", _MEMBERS_SEQ, changed[-1], group.large_ms, group.conversation_id)
        await put_members(tx, group.members)
        await keep_roles(tx, group)
        await rename(tx, group)
    await put_rows(tx, group.rows_added)
    await remove_rows(tx, group.conversation_id, group.rows_removed)
    await accept_rows(tx, group.conversation_id, group.rows_accepted)
    if not await put_records(tx, group.puts):
        raise Throttled("another transaction has just made the same record")


async def _rewrite(tx: Statements, conversation_id: str, rewrite: Rewrite) -> None:
    """The target gets its new content, or none; each row that still holds an earlier content of it loses that."""
    ((_, _, earlier_seq),) = await tx.rows("messages", _REVS, conversation_id, [rewrite.target_seq])
    earlier = {rewrite.wipe_seq, earlier_seq} - {None, rewrite.target_seq, rewrite.edit_seq}
    await tx.rows("messages", _REVS, conversation_id, sorted(filter(None, earlier)))
    for seq_no in earlier:
        await tx.write("rechecks", _RECHECK, conversation_id, seq_no)
        await tx.write("messages", _WIPE, conversation_id, seq_no)
    await tx.write("rechecks", _RECHECK, conversation_id, rewrite.target_seq)
    content = None if rewrite.is_deleted else rewrite.content
    values = (to_json(content), rewrite.is_deleted, rewrite.edited_ms, rewrite.edit_seq)
    await tx.write("messages", _REWRITE, *values, conversation_id, rewrite.target_seq)
    shown = (to_bytes(preview_of(content)), last_of(rewrite.sender_id, content, is_deleted=rewrite.is_deleted))
    await tx.write("conversation_heads", _SHOW, *shown, conversation_id, rewrite.target_seq)


def _raised(conversation_id: str, entries: Sequence[Entry]) -> tuple[str, int, int, int, bytes | None, str | None]:
    """The changes that the entries make to the head: its number, and the last message if there is one among them."""
    for entry in reversed(entries):
        if entry.bumps:
            preview = None if entry.is_deleted else preview_of(entry.content)
            last = (entry.seq_no, entry.sent_ms, to_bytes(preview), last_of_entry(entry))
            return conversation_id, entries[-1].seq_no, *last
    return conversation_id, entries[-1].seq_no, 0, 0, None, None


def _int(number: int) -> int:
    """A number that a bigint can hold; a limit below zero is zero."""
    return min(max(number, 0), _INTEGER_MAX)
