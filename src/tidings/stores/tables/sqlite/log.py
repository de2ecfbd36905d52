"""The log on SQLite: append, and the reads of the Messages port.

Most groups are plain: new messages and nothing else. All plain groups of an append are stored by one statement for the
rows and one for the heads; the keys of the table say whether a slot or a message_id was taken. If one was taken, and
for a group that changes more than the log, the rows of a group are read before it is written. So a refused group writes
nothing.

Each function here is the work of a task: it runs on a thread of engine.py, in a transaction that it does not end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import apsw

from tidings.bounds import GROUP_ENTRIES_MAX
from tidings.model import COUNTED_KINDS, Entry, preview_of
from tidings.stores.tables.log_rows import COLUMNS, entry_of, values_of
from tidings.stores.tables.sqlite.conversations import put_members, rename
from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import Bulk, json_of
from tidings.stores.tables.sqlite.inboxes import accept_rows, keep_roles, put_rows, remove_rows
from tidings.stores.tables.sqlite.records import are_stale, put_records
from tidings.stores.tables.stored_content import is_mentioned, last_of, last_of_entry, to_json
from tidings.stores.tables.values import Group, Known, Refused, Rewrite, Stored, Top, Verdict, places_of

_COLUMNS = ", ".join(COLUMNS)
# OR FAIL keeps the rows before the one that fails, and spares SQLite the copies of pages that undoing them would need.
_PUT = Bulk("messages", f"INSERT OR FAIL INTO messages ({_COLUMNS}) VALUES {{values}}", columns=len(COLUMNS))
_RAISE = Bulk(
    "conversation_heads",
    """
    UPDATE OR FAIL conversation_heads SET
      head = max(head, v.column2),
      last_seq = max(last_seq, v.column3),
      last_ms = iif(v.column3 > last_seq, v.column4, last_ms),
      preview = iif(v.column3 > last_seq, v.column5, preview),
      last_message = iif(v.column3 > last_seq, v.column6, last_message)
    FROM (VALUES {values}) AS v WHERE conversation_heads.conversation_id = v.column1
    """,
    columns=6,
)
_DROP = "DELETE FROM messages WHERE conversation_id = ? AND seq_no = ?"
_EXISTS = "SELECT 1 FROM conversation_heads WHERE conversation_id = ?"
_KNOWN = """
    SELECT named.value ->> 0, m.seq_no FROM json_each(?2) AS named CROSS JOIN messages AS m
    ON m.conversation_id = ?1 AND m.sender_id = named.value ->> 1 AND m.message_id = named.value ->> 2
"""
_FILLED = "SELECT seq_no FROM messages WHERE conversation_id = ? AND seq_no BETWEEN ? AND ?"
_REV = "SELECT rev, edit_seq FROM messages WHERE conversation_id = ? AND seq_no = ?"
_REWRITE = """
    UPDATE messages SET content = ?, is_deleted = ?, edited_ms = ?, edit_seq = ?, digest = iif(?, NULL, digest),
      rev = rev + 1, s3_ref = NULL
    WHERE conversation_id = ? AND seq_no = ?
"""
_WIPE = """
    UPDATE messages SET content = NULL, digest = NULL, rev = rev + 1, s3_ref = NULL
    WHERE conversation_id = ? AND seq_no = ?
"""
# The segment still holds the old text. The same commit asks the archiver to rewrite it.
_RECHECK = """
    INSERT OR REPLACE INTO rechecks (conversation_id, s3_ref, why, mark, since_ms)
    SELECT conversation_id, s3_ref, 'rewritten', lower(hex(randomblob(8))), CAST(unixepoch('subsec') * 1000 AS INTEGER)
    FROM messages WHERE conversation_id = ? AND seq_no = ? AND s3_ref IS NOT NULL
"""
_SHOW = "UPDATE conversation_heads SET preview = ?, last_message = ? WHERE conversation_id = ? AND last_seq = ?"
_MEMBERS_SEQ = """
    UPDATE conversation_heads SET members_seq = max(members_seq, ?), large_ms = coalesce(?, large_ms)
    WHERE conversation_id = ?
"""
_NEWEST_FIRST = f"""
    SELECT {_COLUMNS} FROM messages WHERE conversation_id = ? AND seq_no > ? AND seq_no < ?
    ORDER BY seq_no DESC LIMIT ?
"""
_OLDEST_FIRST = _NEWEST_FIRST.replace("DESC", "ASC")
_AT_OR_BELOW = """
    SELECT seq_no, sent_ms FROM messages WHERE conversation_id = ? AND seq_no <= ? ORDER BY seq_no DESC LIMIT 1
"""
_LATEST = """
    SELECT max(seq_no), max(sent_ms) FROM
    (SELECT seq_no, sent_ms FROM messages WHERE conversation_id = ? ORDER BY seq_no DESC LIMIT ?) AS found
"""
_COUNTED = ", ".join(f"'{kind}'" for kind in COUNTED_KINDS)
_UNREAD = f"""
    SELECT seq_no, mentions FROM messages
    WHERE conversation_id = ? AND seq_no > ? AND kind IN ({_COUNTED}) AND is_deleted = 0 AND is_uncounted = 0
      AND sender_id IS NOT ?
    ORDER BY seq_no DESC LIMIT ?
"""
_UNREAD_BUT = _UNREAD.replace(
    "IS NOT ?", "IS NOT ? AND coalesce(sender_id, '') NOT IN (SELECT named.value FROM json_each(?) AS named)"
)
_MEMBERS_SEQ_OF = "SELECT members_seq FROM conversation_heads WHERE conversation_id = ?"
_INTEGER_MAX = 2**63 - 1  # of SQLite; a cursor above it means "from the end"


class SqliteLog(Port):
    async def append(self, groups: Sequence[Group]) -> list[Verdict]:
        return await self._write(partial(append, groups))

    async def catch_up(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        """Do nothing: the head is raised in the commit of its entries."""

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        return await self._read(partial(_page, conversation_id, after, before, limit, newest_first))

    async def top(self, conversation_id: str) -> Top:
        return await self._read(partial(_top, conversation_id))

    async def unread(
        self, conversation_id: str, user_id: str, *, after: int, limit: int, but: Collection[str] = ()
    ) -> list[tuple[int, bool]]:
        return await self._read(partial(_unread, conversation_id, user_id, after, limit, tuple(but)))

    async def seq_at(self, conversation_id: str, sent_ms: int) -> int:
        return await self._read(partial(_seq_at, conversation_id, sent_ms))


def append(groups: Sequence[Group], tx: Transaction) -> list[Verdict]:
    plain = [group for group in groups if _is_plain(group)]
    if plain and _store_plain(tx, plain):
        if len(plain) == len(groups):
            return [None] * len(groups)
        return [None if _is_plain(group) else _store_careful(tx, group) for group in groups]
    return [_store_careful(tx, group) for group in groups]


def _is_plain(group: Group) -> bool:
    return group.is_plain and not any(entry.is_void for entry in group.entries)


def _store_plain(tx: Transaction, groups: Sequence[Group]) -> bool:
    """Store all groups and return True, or store none: a key was taken, or a conversation is gone or named twice."""
    rows = [values_of(entry) for group in groups for entry in group.entries]
    before = dict(tx.writes)
    changes_before = tx.connection.total_changes()
    try:
        _PUT.write(tx, rows)
    except apsw.ConstraintError:
        _take_back(tx, rows[: tx.connection.total_changes() - changes_before])
    else:
        if _RAISE.write(tx, [_raised(group.conversation_id, group.entries) for group in groups]) == len(groups):
            return True
        # A head raised by this is raised again, to the same, by the careful way.
        _take_back(tx, rows)
    tx.writes = before
    return False


def _take_back(tx: Transaction, rows: Sequence[tuple[Any, ...]]) -> None:
    for row in rows:
        tx.execute(_DROP, row[:2])


def _store_careful(tx: Transaction, group: Group) -> Verdict:
    """Read the rows that matter, then write."""
    if not tx.rows("conversation_heads", _EXISTS, (group.conversation_id,)):
        return Refused({}, frozenset(), is_gone=True)
    known = _known_in(tx, group)
    ends = (group.conversation_id, group.entries[0].seq_no, group.entries[-1].seq_no)
    filled = [seq_no for (seq_no,) in tx.rows("messages", _FILLED, ends)]
    places = places_of(group.entries, filled, known)
    is_stale = any(_is_stale(tx, group.conversation_id, rewrite) for rewrite in group.rewrites)
    is_stale = is_stale or are_stale(tx, group.puts)
    if known or places.taken or is_stale:
        return Refused(known, places.taken, is_stale=is_stale)
    _store(tx, group, [group.entries[at] for at in places.free])
    return Stored(places.left_out) if places.left_out else None


def _known_in(tx: Transaction, group: Group) -> dict[int, Known]:
    ids = [(at, one.sender_id, one.message_id) for at, one in enumerate(group.entries) if one.message_id is not None]
    found = tx.rows("sent", _KNOWN, (group.conversation_id, json_of(ids))) if ids else ()
    return {at: Known(seq_no) for at, seq_no in found}


def _is_stale(tx: Transaction, conversation_id: str, rewrite: Rewrite) -> bool:
    found = tx.rows("messages", _REV, (conversation_id, rewrite.target_seq))
    return not found or found[0][0] != rewrite.expected_rev


def _store(tx: Transaction, group: Group, entries: Sequence[Entry]) -> None:
    if not entries:  # every slot was closed already
        return
    _PUT.write(tx, [values_of(entry) for entry in entries])
    _RAISE.write(tx, [_raised(group.conversation_id, entries)])
    for rewrite in group.rewrites:
        _rewrite(tx, group.conversation_id, rewrite)
    if group.members:
        changed = [entry.seq_no for entry in entries if entry.changes_members] or [entries[-1].seq_no]
        tx.write("conversation_heads", _MEMBERS_SEQ, (changed[-1], group.large_ms, group.conversation_id))
        put_members(tx, group.members)
        keep_roles(tx, group)
        rename(tx, group)
    put_rows(tx, group.rows_added)
    remove_rows(tx, group.conversation_id, group.rows_removed)
    accept_rows(tx, group.conversation_id, group.rows_accepted)
    put_records(tx, group.puts)


def _rewrite(tx: Transaction, conversation_id: str, rewrite: Rewrite) -> None:
    """Give the target its new content, or none. Each row that holds an earlier content of it is wiped."""
    tx.has_erased = True
    (_, earlier_seq) = tx.rows("messages", _REV, (conversation_id, rewrite.target_seq))[0]
    for seq_no in {rewrite.wipe_seq, earlier_seq} - {None, rewrite.target_seq, rewrite.edit_seq}:
        tx.write("rechecks", _RECHECK, (conversation_id, seq_no))
        tx.write("messages", _WIPE, (conversation_id, seq_no))
    tx.write("rechecks", _RECHECK, (conversation_id, rewrite.target_seq))
    content = None if rewrite.is_deleted else rewrite.content
    values = (to_json(content), rewrite.is_deleted, rewrite.edited_ms, rewrite.edit_seq, rewrite.is_deleted)
    tx.write("messages", _REWRITE, (*values, conversation_id, rewrite.target_seq))
    shown = (preview_of(content), last_of(rewrite.sender_id, content, is_deleted=rewrite.is_deleted))
    tx.write("conversation_heads", _SHOW, (*shown, conversation_id, rewrite.target_seq))


def _page(
    conversation_id: str, after: int, before: int, limit: int, newest_first: bool, tx: Transaction
) -> list[Entry]:
    sql = _NEWEST_FIRST if newest_first else _OLDEST_FIRST
    return [
        entry_of(row) for row in tx.rows("messages", sql, (conversation_id, _int(after), _int(before), _int(limit)))
    ]


def _top(conversation_id: str, tx: Transaction) -> Top:
    members = tx.rows("conversation_heads", _MEMBERS_SEQ_OF, (conversation_id,))
    ((seq_no, sent_ms),) = tx.rows("messages", _LATEST, (conversation_id, GROUP_ENTRIES_MAX))
    return Top(seq_no or 0, sent_ms or 0, members[0][0] if members else 0)


def _unread(
    conversation_id: str, user_id: str, after: int, limit: int, but: tuple[str, ...], tx: Transaction
) -> list[tuple[int, bool]]:
    sql, named = (_UNREAD_BUT, (json_of(but),)) if but else (_UNREAD, ())
    found = tx.rows("messages", sql, (conversation_id, _int(after), user_id, *named, _int(limit)))
    return [(seq_no, is_mentioned(user_id, mentions)) for seq_no, mentions in found]


def _seq_at(conversation_id: str, sent_ms: int, tx: Transaction) -> int:
    """Halve the range until it is empty. A gap is answered by the entry below it, at worst by `best` again."""

    def at_or_below(seq_no: int) -> tuple[int, int]:
        found = tx.rows("messages", _AT_OR_BELOW, (conversation_id, seq_no))
        return found[0] if found else (0, 0)

    best, low, high = 0, 1, at_or_below(_INTEGER_MAX)[0]
    while low <= high:
        middle = (low + high) // 2
        seq_no, at_ms = at_or_below(middle)
        if at_ms <= sent_ms:
            best, low = seq_no, middle + 1
        else:
            high = seq_no - 1
    return best


def _raised(conversation_id: str, entries: Sequence[Entry]) -> tuple[str, int, int, int, str | None, str | None]:
    """The values that the entries give to the head: its number, and the last message if they hold one."""
    for entry in reversed(entries):
        if entry.bumps:
            preview = None if entry.is_deleted else preview_of(entry.content)
            return conversation_id, entries[-1].seq_no, entry.seq_no, entry.sent_ms, preview, last_of_entry(entry)
    return conversation_id, entries[-1].seq_no, 0, 0, None, None


def _int(number: int) -> int:
    """A number that SQLite can hold; below zero is zero, which as a limit would otherwise mean none."""
    return min(max(number, 0), _INTEGER_MAX)
