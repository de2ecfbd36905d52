"""The head row of a conversation on DynamoDB: raised after the log, by one conditional update per conversation and
batch.

It is outside of the log's transaction, because all nodes that write to a conversation would have to wait for that row.
So it may be behind the log for a moment or, after a crash, until somebody asks again; an acknowledgement never goes out
before it is raised. A conversation exists when this row has a `head`: while it is being created or deleted the row has
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidings.model import Entry, preview_of
from tidings.stores.tables.dynamodb.client.client import ConditionFailed
from tidings.stores.tables.dynamodb.client.items import head_key, head_of
from tidings.stores.tables.dynamodb.client.operations import Op, Store, assign, update
from tidings.stores.tables.stored_content import last_of_entry

EXISTS = "attribute_exists(#head)"


class Raised(NamedTuple):
    """The values that entries give to the head: its number, and the last message if they hold one."""

    seq_no: int
    last_seq: int = 0
    last_ms: int = 0
    preview: str | None = None
    last_message: str | None = None


def raised_by(entries: Sequence[Entry]) -> Raised:
    """`entries` ascend."""
    for entry in reversed(entries):
        if entry.bumps:
            preview = None if entry.is_deleted else preview_of(entry.content)
            return Raised(entries[-1].seq_no, entry.seq_no, entry.sent_ms, preview, last_of_entry(entry))
    return Raised(entries[-1].seq_no)


async def raise_head(store: Store, conversation_id: str, raised: Raised) -> bool:
    """Raise the head to these values, where it is lower. False: the conversation does not exist (any more).

    Number and last message may be overtaken by different entries of others, so each goes on only while it is later.
    """
    is_head, is_last = True, raised.last_seq > 0
    while is_head or is_last:
        op = _raise(conversation_id, raised, is_head, is_last)
        try:
            await store.write(op)
            return True
        except ConditionFailed as failed:
            head = head_of(await store.standing(op, failed))
            if head is None:
                return False
            is_head, is_last = head.head < raised.seq_no, head.last_seq < raised.last_seq
    return True


def _raise(conversation_id: str, raised: Raised, is_head: bool, is_last: bool) -> Op:
    fields: dict[str, object] = {"head": raised.seq_no} if is_head else {}
    conditions = ["#head < :head"] if is_head else [EXISTS]
    if is_last:
        fields |= {"last_seq": raised.last_seq, "last_ms": raised.last_ms, "preview": raised.preview}
        fields["last_message"] = raised.last_message
        conditions.append("#last_seq < :last_seq")
    change, values = assign(fields)
    return update("conversation_heads", head_key(conversation_id), change, values, " AND ".join(conditions))
