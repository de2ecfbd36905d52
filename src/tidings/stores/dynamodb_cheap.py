"""The cheaper way to store a single message (`?dedupe=cheap`): two conditional puts instead of a transaction.

First the dedupe row, which points at the number; then the message. Two write units instead of four. A node that dies
in between leaves a dedupe row without its message: whoever sends the id again closes the number by a void before the
dedupe row is taken back (dynamodb_known.py), so a slow writer finds its slot taken and the id is stored once. Groups
of more than one entry commit together or not at all, so they stay transactions. dynamodb_append.py decides which way
to go.
"""

from __future__ import annotations

from tidings.errors import StoreError, Unavailable
from tidings.model import Entry
from tidings.stores.dynamodb_calls import Op, Store, delete, remove
from tidings.stores.dynamodb_items import attributes, entry_of, has_dedupe, values
from tidings.stores.dynamodb_known import AGAIN, Verdict, finish, is_same, known_of, put_entry, refuse
from tidings.stores.dynamodb_wire import ConditionFailed
from tidings.stores.ports import Group, Known, Refused


def is_single(group: Group) -> bool:
    if len(group.entries) != 1 or group.rewrites or group.members or group.rows_added or group.rows_removed:
        return False
    return has_dedupe(group.entries[0])


async def store_single(store: Store, group: Group, skipped: set[int]) -> Verdict:
    (entry,) = group.entries
    mine = store.clock.random_id(8)
    sent = _put_sent(store, entry, mine)
    try:
        await store.write(sent)
    except ConditionFailed as failed:
        standing = await store.standing(sent, failed)
        if standing is None:
            return AGAIN
        known = known_of(standing)
        if (known.seq_no, known.digest) != (entry.seq_no, entry.digest or b""):
            return await refuse(store, group, Refused({0: known}, frozenset()))
        # It points at our number: an earlier try of ours, or of another node with the same one. The slot decides.
        is_first = standing.get("made_by") == {"S": mine}
    else:
        is_first = True
    try:
        return await _store_message(store, group, is_first)
    except StoreError as error:
        raise Unavailable(str(error), is_ambiguous=True) from error


def _put_sent(store: Store, entry: Entry, mine: str) -> Op:
    """With a mark, by which a try that was not answered is recognised."""
    _, sent = put_entry(entry, store.clock.now_ms())
    return sent._replace(body={**sent.body, "Item": sent.body["Item"] | attributes(made_by=mine)})


async def _store_message(store: Store, group: Group, is_first: bool) -> Verdict:
    """`is_first`: this call made the dedupe row, so the message, if it is there, is of a try that was not answered."""
    (entry,) = group.entries
    message, _ = put_entry(entry, store.clock.now_ms())
    try:
        await store.write(message)
    except ConditionFailed as failed:
        item = await store.standing(message, failed)
        if item is None:
            return AGAIN
        row = entry_of(item)
        if not is_same(row, entry):
            await _take_back(store, group)
            return Refused({}, frozenset((entry.seq_no,)))
        if not is_first:
            return await refuse(store, group, Refused({0: Known(row.seq_no, row.digest or b"")}, frozenset()))
    return await finish(store, group, group.entries)


async def _take_back(store: Store, group: Group) -> None:
    """The slot is another's: the dedupe row must not point there. If it does not any more, so much the better."""
    (entry,) = group.entries
    _, sent = put_entry(entry, store.clock.now_ms())
    await remove(store, delete("sent", sent.key, "#seq_no = :seq_no", values(seq_no=entry.seq_no)))
