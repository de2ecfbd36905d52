"""The log on SQLite: append, and the reads of the Messages port.

Most groups are plain: new messages and nothing else. All plain groups of an append are stored by one statement for the
rows and one for the heads; the keys of the table say whether a slot or a message_id was taken. Only then, and where a
group changes more than the log, is each group looked at first and written after, so a refused group writes nothing.

Each function here is the work of an errand: it runs on a thread of sqlite_engine, in a transaction it does not end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from tidings.model import Entry, MemberChange
from tidings.stores import sqlite_rows
from tidings.stores.ports import Group, Known, Refused, Rewrite, Top, preview_of
from tidings.stores.sqlite_engine import Bulk, Hop


class Content(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the content column holds, as JSON."""

    text: str | None = None
    member: MemberChange | None = None


_encode_content = msgspec.json.Encoder().encode
_decode_content = msgspec.json.Decoder(Content).decode
_NO_CONTENT = Content()

_COLUMNS = (
    "conversation_id, seq_no, kind, sent_ms, sender_id, is_deleted, message_id, receiver_id, "
    "timestamp, digest, target_seq, edited_ms, edit_seq, rev, s3_ref, content"
)
# OR FAIL keeps the rows before the one that fails, and spares SQLite the copies of pages that undoing them would need.
_PUT = Bulk("messages", f"INSERT OR FAIL INTO messages ({_COLUMNS}) VALUES {{values}}", columns=16)
_RAISE = Bulk(
    "conversation_heads",
    """
    UPDATE OR FAIL conversation_heads SET
      head = max(head, v.column2),
      last_seq = max(last_seq, v.column3),
      last_ms = iif(v.column3 > last_seq, v.column4, last_ms),
      preview = iif(v.column3 > last_seq, v.column5, preview)
    FROM (VALUES {values}) AS v WHERE conversation_heads.conversation_id = v.column1
    """,
    columns=5,
)
_DROP = "DELETE FROM messages WHERE conversation_id = ? AND seq_no = ?"
_EXISTS = "SELECT 1 FROM conversation_heads WHERE conversation_id = ?"
_KNOWN = "SELECT seq_no, digest FROM messages WHERE conversation_id = ? AND sender_id = ? AND message_id = ?"
_SLOT = "SELECT 1 FROM messages WHERE conversation_id = ? AND seq_no = ?"
_REV = "SELECT rev, edit_seq FROM messages WHERE conversation_id = ? AND seq_no = ?"
_REWRITE = """
    UPDATE messages SET content = ?, is_deleted = ?, edited_ms = ?, edit_seq = ?, rev = rev + 1, s3_ref = NULL
    WHERE conversation_id = ? AND seq_no = ?
"""
_WIPE = "UPDATE messages SET content = NULL, rev = rev + 1, s3_ref = NULL WHERE conversation_id = ? AND seq_no = ?"
# What the segment still holds must go: whoever rewrites it is told in the same commit.
_RECHECK = """
    INSERT OR REPLACE INTO rechecks (conversation_id, s3_ref, why, mark, since_ms)
    SELECT conversation_id, s3_ref, 'rewritten', lower(hex(randomblob(8))), CAST(unixepoch('subsec') * 1000 AS INTEGER)
    FROM messages WHERE conversation_id = ? AND seq_no = ? AND s3_ref IS NOT NULL
"""
_SHOW = "UPDATE conversation_heads SET preview = ? WHERE conversation_id = ? AND last_seq = ?"
_MEMBERS_SEQ = "UPDATE conversation_heads SET members_seq = max(members_seq, ?) WHERE conversation_id = ?"
_NEWEST_FIRST = f"""
    SELECT {_COLUMNS} FROM messages WHERE conversation_id = ? AND seq_no > ? AND seq_no < ?
    ORDER BY seq_no DESC LIMIT ?
"""
_OLDEST_FIRST = _NEWEST_FIRST.replace("DESC", "ASC")
_AT_OR_BELOW = """
    SELECT seq_no, sent_ms FROM messages WHERE conversation_id = ? AND seq_no <= ? ORDER BY seq_no DESC LIMIT 1
"""
_UNREAD = """
    SELECT seq_no, sent_ms FROM messages
    WHERE conversation_id = ? AND seq_no > ? AND kind = 'message' AND is_deleted = 0 AND sender_id IS NOT ?
    ORDER BY seq_no DESC LIMIT ?
"""
_MEMBERS_SEQ_OF = "SELECT members_seq FROM conversation_heads WHERE conversation_id = ?"
_INTEGER_MAX = 2**63 - 1  # of SQLite; a cursor above it means "from the end"


def append(groups: Sequence[Group], hop: Hop) -> list[Refused | None]:
    plain = [group for group in groups if _is_plain(group)]
    if plain and _store_plain(hop, plain):
        if len(plain) == len(groups):
            return [None] * len(groups)
        return [None if _is_plain(group) else _store_careful(hop, group) for group in groups]
    return [_store_careful(hop, group) for group in groups]


def _is_plain(group: Group) -> bool:
    if group.rewrites or group.members or group.rows_added or group.rows_removed:
        return False
    return all(entry.kind != "void" for entry in group.entries)


def _store_plain(hop: Hop, groups: Sequence[Group]) -> bool:
    """All of them, or False and none: a key was taken, or a conversation is gone or named twice."""
    rows = [_values(entry) for group in groups for entry in group.entries]
    before = dict(hop.writes)
    changes_before = hop.connection.total_changes()
    try:
        _PUT.write(hop, rows)
    except apsw.ConstraintError:
        _take_back(hop, rows[: hop.connection.total_changes() - changes_before])
    else:
        if _RAISE.write(hop, [_raised(group.conversation_id, group.entries) for group in groups]) == len(groups):
            return True
        # A head raised by this is raised again, to the same, by the careful way.
        _take_back(hop, rows)
    hop.writes = before
    return False


def _take_back(hop: Hop, rows: Sequence[tuple[Any, ...]]) -> None:
    for row in rows:
        hop.execute(_DROP, row[:2])


def _store_careful(hop: Hop, group: Group) -> Refused | None:
    """Looks before it writes."""
    if not hop.rows("conversation_heads", _EXISTS, (group.conversation_id,)):
        return Refused({}, frozenset(), is_gone=True)
    known = _known_in(hop, group)
    seq_nos = [entry.seq_no for entry in group.entries]
    taken = {seq_no for seq_no in seq_nos if hop.rows("messages", _SLOT, (group.conversation_id, seq_no))}
    voids = {entry.seq_no for entry in group.entries if entry.kind == "void"}
    own = {found.seq_no for at, found in known.items() if group.entries[at].seq_no == found.seq_no}
    in_the_way = frozenset(taken - voids - own)
    is_stale = any(_is_stale(hop, group.conversation_id, rewrite) for rewrite in group.rewrites)
    if known or in_the_way or is_stale:
        return Refused(known, in_the_way, is_stale=is_stale)
    _store(hop, group, [entry for entry in group.entries if entry.seq_no not in taken])
    return None


def _known_in(hop: Hop, group: Group) -> dict[int, Known]:
    known = {}
    for at, entry in enumerate(group.entries):
        if entry.message_id is not None:
            for seq_no, digest in hop.rows("sent", _KNOWN, (entry.conversation_id, entry.sender_id, entry.message_id)):
                known[at] = Known(seq_no, digest or b"")
    return known


def _is_stale(hop: Hop, conversation_id: str, rewrite: Rewrite) -> bool:
    found = hop.rows("messages", _REV, (conversation_id, rewrite.target_seq))
    return not found or found[0][0] != rewrite.expected_rev


def _store(hop: Hop, group: Group, entries: Sequence[Entry]) -> None:
    if not entries:  # every slot was closed already
        return
    _PUT.write(hop, [_values(entry) for entry in entries])
    _RAISE.write(hop, [_raised(group.conversation_id, entries)])
    for rewrite in group.rewrites:
        _rewrite(hop, group.conversation_id, rewrite)
    if group.members:
        changed = [entry.seq_no for entry in entries if entry.kind == "member"] or [entries[-1].seq_no]
        hop.write("conversation_heads", _MEMBERS_SEQ, (changed[-1], group.conversation_id))
        sqlite_rows.put_members(hop, group.members)
    sqlite_rows.put_rows(hop, group.rows_added)
    sqlite_rows.remove_rows(hop, group.conversation_id, group.rows_removed)


def _rewrite(hop: Hop, conversation_id: str, rewrite: Rewrite) -> None:
    """The target gets its new text, or none; whatever still holds an earlier text of it loses it."""
    (_, earlier_seq) = hop.rows("messages", _REV, (conversation_id, rewrite.target_seq))[0]
    for seq_no in {rewrite.wipe_seq, earlier_seq} - {None, rewrite.target_seq, rewrite.edit_seq}:
        hop.write("rechecks", _RECHECK, (conversation_id, seq_no))
        hop.write("messages", _WIPE, (conversation_id, seq_no))
    hop.write("rechecks", _RECHECK, (conversation_id, rewrite.target_seq))
    text = None if rewrite.is_deleted else rewrite.text
    values = (content_of(text, None), rewrite.is_deleted, rewrite.edited_ms, rewrite.edit_seq)
    hop.write("messages", _REWRITE, (*values, conversation_id, rewrite.target_seq))
    hop.write("conversation_heads", _SHOW, (preview_of(text), conversation_id, rewrite.target_seq))


def page(conversation_id: str, after: int, before: int, limit: int, newest_first: bool, hop: Hop) -> list[Entry]:
    sql = _NEWEST_FIRST if newest_first else _OLDEST_FIRST
    return [_entry(row) for row in hop.rows("messages", sql, (conversation_id, _int(after), _int(before), _int(limit)))]


def top(conversation_id: str, hop: Hop) -> Top:
    members = hop.rows("conversation_heads", _MEMBERS_SEQ_OF, (conversation_id,))
    last = hop.rows("messages", _AT_OR_BELOW, (conversation_id, _INTEGER_MAX))
    seq_no, sent_ms = last[0] if last else (0, 0)
    return Top(seq_no, sent_ms, members[0][0] if members else 0)


def unread(conversation_id: str, user_id: str, after: int, limit: int, hop: Hop) -> list[tuple[int, int]]:
    return hop.rows("messages", _UNREAD, (conversation_id, _int(after), user_id, _int(limit)))


def seq_at(conversation_id: str, sent_ms: int, hop: Hop) -> int:
    """Halves the range until it is empty. An open slot is answered by the entry below it, at worst by `best` again."""

    def at_or_below(seq_no: int) -> tuple[int, int]:
        found = hop.rows("messages", _AT_OR_BELOW, (conversation_id, seq_no))
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


def _values(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.conversation_id,
        entry.seq_no,
        entry.kind,
        entry.sent_ms,
        entry.sender_id,
        entry.is_deleted,
        entry.message_id,
        entry.receiver_id,
        entry.timestamp,
        entry.digest,
        entry.target_seq,
        entry.edited_ms,
        entry.edit_seq,
        entry.rev,
        entry.s3_ref,
        content_of(entry.text, entry.member),
    )


def content_of(text: str | None, member: MemberChange | None) -> bytes | None:
    return None if text is None and member is None else _encode_content(Content(text, member))


def _raised(conversation_id: str, entries: Sequence[Entry]) -> tuple[str, int, int, int, str | None]:
    """What the entries make of the head: its number, and the last message if there is one among them."""
    for entry in reversed(entries):
        if entry.kind == "message":
            preview = None if entry.is_deleted else preview_of(entry.text)
            return conversation_id, entries[-1].seq_no, entry.seq_no, entry.sent_ms, preview
    return conversation_id, entries[-1].seq_no, 0, 0, None


def _entry(row: tuple[Any, ...]) -> Entry:
    """By position: names would cost three times as much, and a page has many rows."""
    id_, seq_no, kind, sent_ms, sender_id, is_deleted, message_id, receiver_id = row[:8]
    timestamp, digest, target_seq, edited_ms, edit_seq, rev, s3_ref, content = row[8:]
    held = _NO_CONTENT if content is None else _decode_content(content)
    return Entry(
        id_,
        seq_no,
        kind,
        sent_ms,
        message_id,
        sender_id,
        receiver_id,
        held.text,
        timestamp,
        digest,
        held.member,
        target_seq,
        is_deleted == 1,
        edited_ms,
        edit_seq,
        rev,
        s3_ref,
    )


def _int(number: int) -> int:
    """A number that SQLite can hold; below zero is zero, which as a limit would otherwise mean none."""
    return min(max(number, 0), _INTEGER_MAX)
