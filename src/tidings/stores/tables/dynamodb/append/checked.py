"""Groups that change more than the log: edits and deletes with their targets, member changes with members and rows.

Their rows are read first (dedupe rows, numbers, targets, head). One transaction then writes, on the condition that
those rows did not change; else the rows are read again. The head is part of that transaction only where it must
change with it: members_seq with the members, and the preview with the text of the last message, so that a deleted text
is nowhere from the very commit on, not even when a slow raise of the head comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidings.model import Entry, Head, Row, preview_of
from tidings.stores.tables.dynamodb.append.duplicates import (
    AGAIN,
    GONE,
    Decision,
    finish,
    is_same,
    known_of,
    put_entry,
    refuse,
    verdict_of,
)
from tidings.stores.tables.dynamodb.append.heads import EXISTS
from tidings.stores.tables.dynamodb.append.puts import are_stale, put_op
from tidings.stores.tables.dynamodb.client.client import Canceled, Item
from tidings.stores.tables.dynamodb.client.items import (
    attributes,
    content_of,
    entry_of,
    head_key,
    head_of,
    member_key,
    message_key,
    plain,
    row_key,
    sent_key,
    to_item,
    user_shard,
    values,
)
from tidings.stores.tables.dynamodb.client.operations import Op, Store, assign, check, delete, put, update
from tidings.stores.tables.stored_content import last_of
from tidings.stores.tables.values import FLAGS, Group, Known, Recheck, Refused, Rewrite, places_of

Rows = Mapping[int, Entry]  # seq_no -> what is there


async def store_careful(store: Store, group: Group, skipped: set[int]) -> Decision:
    """Read the rows that matter, then write on the condition that they did not change."""
    head = head_of(await store.get("conversation_heads", head_key(group.conversation_id)))
    if head is None:
        return GONE
    rows = await _rows(store, group)
    known = await _known_in(store, group, rows)
    places = places_of(group.entries, rows, known)
    is_stale = any(_is_stale(rewrite, rows) for rewrite in group.rewrites)
    is_stale = is_stale or await are_stale(store, group.puts)
    if known or is_stale or places.taken:
        return await refuse(store, group, Refused(known, places.taken, is_stale=is_stale))
    entries = [group.entries[at] for at in places.free]
    if not entries:  # every slot was closed already
        return verdict_of(group, places.free)
    try:
        await store.transact(list(_ops(group, entries, rows, head, store.clock.now_ms())))
    except Canceled:
        return AGAIN
    return await finish(store, group, places.free)


async def _rows(store: Store, group: Group) -> Rows:
    """The rows at the numbers, the targets, and the edit entries that hold an earlier text of a target."""
    seq_nos = {entry.seq_no for entry in group.entries} | {rewrite.target_seq for rewrite in group.rewrites}
    seq_nos |= {rewrite.wipe_seq for rewrite in group.rewrites if rewrite.wipe_seq is not None}
    rows = await _read(store, group.conversation_id, seq_nos)
    earlier = {rows[rewrite.target_seq].edit_seq for rewrite in group.rewrites if rewrite.target_seq in rows}
    return rows | await _read(store, group.conversation_id, {seq for seq in earlier if seq is not None} - seq_nos)


async def _read(store: Store, conversation_id: str, seq_nos: set[int]) -> dict[int, Entry]:
    keys = [message_key(conversation_id, seq_no) for seq_no in sorted(seq_nos)]
    return {entry.seq_no: entry for entry in map(entry_of, await store.batch_get("messages", keys))}


async def _known_in(store: Store, group: Group, rows: Rows) -> dict[int, Known]:
    known: dict[int, Known] = {}
    keys: dict[tuple[str, str], int] = {}
    for at, entry in enumerate(group.entries):
        if entry.seq_no in rows and is_same(rows[entry.seq_no], entry):
            known[at] = Known(entry.seq_no)
        if entry.sender_id is not None and entry.message_id is not None:
            keys[entry.sender_id, entry.message_id] = at
    wanted = [sent_key(group.conversation_id, *key) for key in keys]
    for item in await store.batch_get("sent", wanted):
        sender_id = plain(item["sender"]).rpartition("#")[2]
        known[keys[sender_id, plain(item["message_id"])]] = known_of(item)
    return known


def _is_stale(rewrite: Rewrite, rows: Rows) -> bool:
    target = rows.get(rewrite.target_seq)
    return target is None or target.rev != rewrite.expected_rev


def _ops(group: Group, entries: Sequence[Entry], rows: Rows, head: Head, now_ms: int) -> Iterator[Op]:
    for entry in entries:
        yield from put_entry(entry)
    for rewrite in group.rewrites:
        yield from _rewrite(group.conversation_id, rewrite, rows)
    yield from _rechecks(group, rows, now_ms)
    for member in group.members:
        yield put("members", member_key(member.conversation_id, member.user_id), to_item(member))
    for row in group.rows_added:
        yield put_row(row)
    for user_id, role in group.roles:
        change, held = assign({"role": role})
        yield update("conversations", row_key(user_id, group.conversation_id), change, held)
    for user_id in group.rows_removed:
        yield delete("conversations", row_key(user_id, group.conversation_id))
    for user_id in group.rows_accepted:
        change, held = assign({"is_requested": False})
        yield update("conversations", row_key(user_id, group.conversation_id), change, held)
    yield from map(put_op, group.puts)
    yield from _head(group, entries, rows, head)


def _rewrite(conversation_id: str, rewrite: Rewrite, rows: Rows) -> Iterator[Op]:
    """Give the target its new content, or none. Each row that holds an earlier content of it is wiped."""
    target = rows[rewrite.target_seq]
    for seq_no in _wiped(rewrite, rows):
        change, held = assign({"rev": rows[seq_no].rev + 1, "content": None, "digest": None, "s3_ref": None})
        yield _update_seen(conversation_id, rows[seq_no], change, held)
    change, held = assign(
        {
            "content": content_of(None if rewrite.is_deleted else rewrite.content),
            "is_deleted": rewrite.is_deleted or None,
            "edited_ms": rewrite.edited_ms,
            "edit_seq": rewrite.edit_seq,
            "rev": rewrite.expected_rev + 1,
            "s3_ref": None,
            "digest": None if rewrite.is_deleted else target.digest,
        }
    )
    yield _update_seen(conversation_id, target, change, held)


def _wiped(rewrite: Rewrite, rows: Rows) -> list[int]:
    """Edit entries that hold an earlier text."""
    earlier = {rewrite.wipe_seq, rows[rewrite.target_seq].edit_seq} - {rewrite.target_seq, rewrite.edit_seq}
    return [seq_no for seq_no in earlier if seq_no is not None and seq_no in rows]


def _update_seen(conversation_id: str, row: Entry, change: str, held: Item) -> Op:
    """Update a row only if it is as it was read. A move to a segment is a change too: the segment must be rewritten."""
    condition, seen = "#rev = :seen", values(seen=row.rev)
    if row.s3_ref is None:
        condition += " AND attribute_not_exists(#s3_ref)"
    else:
        condition += " AND #s3_ref = :seen_ref"
        seen |= values(seen_ref=row.s3_ref)
    return update("messages", message_key(conversation_id, row.seq_no), change, held | seen, condition)


def _rechecks(group: Group, rows: Rows, now_ms: int) -> Iterator[Op]:
    """Segments still hold the old content. The same commit asks the archiver to rewrite each of them once."""
    changed = [seq_no for rewrite in group.rewrites for seq_no in (rewrite.target_seq, *_wiped(rewrite, rows))]
    for s3_ref in sorted({rows[seq_no].s3_ref or "" for seq_no in changed} - {""}):
        mark = f"{group.entries[0].seq_no}.{now_ms}"  # every commit has another one
        yield put_recheck(
            Recheck(conversation_id=group.conversation_id, s3_ref=s3_ref, why="rewritten", mark=mark, since_ms=now_ms)
        )


def _head(group: Group, entries: Sequence[Entry], rows: Rows, head: Head) -> Iterator[Op]:
    key, conditions = head_key(group.conversation_id), [EXISTS]
    fields: dict[str, object] = {}
    seen: Item = {}
    if group.members:
        changed = [entry.seq_no for entry in entries if entry.changes_members] or [entries[-1].seq_no]
        if changed[-1] > head.members_seq:
            fields["members_seq"] = changed[-1]
            conditions.append("#members_seq < :members_seq")
        if group.large_ms is not None:
            fields["large_ms"] = group.large_ms
        fields |= group.names
    later = [rewrite for rewrite in group.rewrites if rewrite.target_seq >= head.last_seq]
    shown = [rewrite for rewrite in later if rows[rewrite.target_seq].bumps]
    if shown:
        last = max(shown, key=lambda rewrite: rewrite.target_seq)
        preview = None if last.is_deleted else preview_of(last.content)
        fields |= {"last_seq": last.target_seq, "last_ms": rows[last.target_seq].sent_ms, "preview": preview}
        fields["last_message"] = last_of(last.sender_id, last.content, is_deleted=last.is_deleted)
        conditions.append("#last_seq = :seen")
        seen = values(seen=head.last_seq)
    if fields:
        change, held = assign(fields)
        yield update("conversation_heads", key, change, held | seen, " AND ".join(conditions))
    elif group.members or group.rows_added or group.rows_removed or group.puts:
        yield check("conversation_heads", key, EXISTS)


def put_row(row: Row) -> Op:
    """A new row, or an old one brought up to date with its user's own flags kept."""
    fields = {name: getattr(row, name) for name in Row.__struct_fields__ if name not in ("user_id", "conversation_id")}
    fields["shard"] = user_shard(row.user_id)
    fields = {name: value for name, value in fields.items() if name not in FLAGS or value is not None}
    change, held = assign(fields)
    for flag in FLAGS:
        change = change.replace(f"#{flag} = :{flag}", f"#{flag} = if_not_exists(#{flag}, :{flag})")
    return update("conversations", row_key(row.user_id, row.conversation_id), change, held)


def put_recheck(recheck: Recheck) -> Op:
    key = attributes(conversation_id=recheck.conversation_id, s3_ref=recheck.s3_ref)
    return put("rechecks", key, to_item(recheck))
