"""Ids that were stored before: each dedupe row is compared with the log, and the head is raised to it.

Tables that an earlier version wrote with `dedupe=cheap` may hold a dedupe row without its message: a node died between
two puts. A void closes its number first, so that a slow writer cannot use the number any more, and only then the
dedupe row goes: the id can be stored again, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Final, Literal

from tidings.errors import StoreError, Unavailable
from tidings.model import Entry, Head, void_at
from tidings.stores.tables.dynamodb.append.heads import Raised, raise_head, raised_by
from tidings.stores.tables.dynamodb.client.client import ConditionFailed, Item
from tidings.stores.tables.dynamodb.client.items import (
    entry_item,
    entry_of,
    head_key,
    head_of,
    message_key,
    plain,
    sent_item,
    sent_key,
    values,
)
from tidings.stores.tables.dynamodb.client.operations import Op, Store, delete, put, remove
from tidings.stores.tables.values import Group, Known, Refused, Stored, Verdict

FREE = "attribute_not_exists(#conversation_id)"  # of a slot
UNSENT = "attribute_not_exists(#sender)"  # of a dedupe row


_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.0)  # a put takes 10 ms
GONE: Final = Refused({}, frozenset(), is_gone=True)


class Undecided(Enum):
    AGAIN = "something moved, or was put right: look again"


AGAIN: Final = Undecided.AGAIN
Decision = Verdict | Literal[Undecided.AGAIN]
Attempt = Callable[[Store, Group, set[int]], Awaitable[Decision]]  # the set: voids found to be unneeded


def known_of(sent: Item) -> Known:
    return Known(plain(sent["seq_no"]))


def is_same(row: Entry, entry: Entry) -> bool:
    """Whether a row is this very entry, stored by an earlier try."""
    return entry.message_id is not None and (row.sender_id, row.message_id) == (entry.sender_id, entry.message_id)


def put_entry(entry: Entry) -> list[Op]:
    """Put the entry, and its dedupe row if it has an id. Both keys must be free."""
    ops = [put("messages", message_key(entry.conversation_id, entry.seq_no), entry_item(entry), FREE)]
    if entry.sender_id is not None and entry.message_id is not None:
        key = sent_key(entry.conversation_id, entry.sender_id, entry.message_id)
        ops.append(put("sent", key, sent_item(entry), UNSENT))
    return ops


async def refuse(store: Store, group: Group, refused: Refused) -> Decision:
    """Refuse a group. Before `known` is answered, every known id gets its row, and the head is raised to it."""
    if not refused.known:
        return refused
    head = head_of(await store.get("conversation_heads", head_key(group.conversation_id)))
    if head is None:
        return GONE
    rows = await _rows(store, group.conversation_id, {known.seq_no for known in refused.known.values()})
    for at, known in refused.known.items():
        row = rows.get(known.seq_no)
        is_there = row is not None and is_same(row, group.entries[at])
        if not is_there and known.seq_no > head.floor_seq:
            await _heal(store, group.entries[at], known.seq_no, is_free=row is None)
            return AGAIN
    await _catch_up(store, head, sorted(rows.values(), key=lambda row: row.seq_no))
    return refused


async def _rows(store: Store, conversation_id: str, seq_nos: set[int]) -> dict[int, Entry]:
    """The rows at these numbers. A number without a row is read again: its writer may be between its two puts."""
    keys = [message_key(conversation_id, seq_no) for seq_no in seq_nos]
    for pause_s in _PAUSES_S:
        rows = {row.seq_no: row for row in map(entry_of, await store.batch_get("messages", keys))}
        if len(rows) == len(seq_nos) or not pause_s:
            break
        await asyncio.sleep(pause_s)
    return rows


async def catch_up(store: Store, conversation_id: str, entries: Sequence[Entry]) -> None:
    head = head_of(await store.get("conversation_heads", head_key(conversation_id)))
    if head is not None:
        await _catch_up(store, head, sorted(entries, key=lambda entry: entry.seq_no))


async def _catch_up(store: Store, head: Head, rows: list[Entry]) -> None:
    raised = raised_by(rows) if rows else Raised(0)
    if head.head < raised.seq_no or head.last_seq < raised.last_seq:
        await raise_head(store, head.conversation_id, raised)


async def _heal(store: Store, entry: Entry, seq_no: int, *, is_free: bool) -> None:
    """Mend a dedupe row without its message. The number is closed first, or the row's writer may still use it."""
    assert entry.sender_id is not None and entry.message_id is not None
    try:
        if is_free:
            await _close_slot(store, entry.conversation_id, seq_no)
    except ConditionFailed:
        return  # another node used the number meanwhile: the next try finds its entry
    key = sent_key(entry.conversation_id, entry.sender_id, entry.message_id)
    await remove(store, delete("sent", key, "#seq_no = :seq_no", values(seq_no=seq_no)))


async def _close_slot(store: Store, conversation_id: str, seq_no: int) -> None:
    below = store.query(
        "messages",
        "#conversation_id = :conversation_id AND #seq_no < :seq_no",
        values(conversation_id=conversation_id, seq_no=seq_no),
        newest_first=True,
        limit=1,
        only="#sent_ms",
    )
    found = await store.first(below, 1)
    sent_ms = plain(found[0]["sent_ms"]) + 1 if found else 1
    void = entry_item(void_at(conversation_id, seq_no, sent_ms))
    await store.write(put("messages", message_key(conversation_id, seq_no), void, FREE))
    await raise_head(store, conversation_id, Raised(seq_no))


def verdict_of(group: Group, written: Sequence[int]) -> Verdict:
    """The verdict on a group of which the entries at these positions were written."""
    left_out = frozenset(range(len(group.entries))).difference(written)
    return Stored(left_out) if left_out else None


async def finish(store: Store, group: Group, written: Sequence[int]) -> Decision:
    """Finish a commit: raise the head. If the conversation was deleted meanwhile, remove the entries again."""
    entries = [group.entries[at] for at in written]
    try:
        if await raise_head(store, group.conversation_id, raised_by(entries)):
            return verdict_of(group, written)
        for entry in entries:
            await _undo(store, entry)
    except StoreError as error:
        raise Unavailable(str(error), is_ambiguous=True) from error
    return GONE


async def _undo(store: Store, entry: Entry) -> None:
    """Remove an entry from a conversation that is gone, and only what this very entry wrote."""
    mark = {name: getattr(entry, name) for name in ("kind", "message_id", "sender_id", "sent_ms")}
    there = {name: value for name, value in mark.items() if value is not None}
    condition = " AND ".join(f"#{name} = :{name}" for name in there)
    key = message_key(entry.conversation_id, entry.seq_no)
    ops = [delete("messages", key, condition, values(**there))]
    if entry.message_id is not None and entry.sender_id is not None:
        sent = sent_key(entry.conversation_id, entry.sender_id, entry.message_id)
        ops.append(delete("sent", sent, "#seq_no = :seq_no", values(seq_no=entry.seq_no)))
    for op in ops:
        await remove(store, op)  # unless it is another's, or gone already
