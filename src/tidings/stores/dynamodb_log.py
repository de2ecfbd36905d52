"""The reads of the Messages port on DynamoDB: pages, numbering, unread and time, all of them consistent.

A query is bounded by the sort key, so a page costs the rows it shows. Called by tables_dynamodb.py.
"""

from __future__ import annotations

import asyncio

from tidings.model import Entry
from tidings.stores.dynamodb_calls import Store
from tidings.stores.dynamodb_items import entry_of, head_key, head_of, plain, values
from tidings.stores.dynamodb_wire import Item
from tidings.stores.ports import Top

_NUMBER_MAX = 2**63 - 1  # a cursor above it means "from the end"
_BETWEEN = "#conversation_id = :conversation_id AND #seq_no BETWEEN :low AND :high"
_UNREAD = (
    "#kind = :message AND attribute_not_exists(#is_deleted) "
    "AND (attribute_not_exists(#sender_id) OR #sender_id <> :user_id)"
)


def _range(conversation_id: str, low: int, high: int) -> Item:
    return values(conversation_id=conversation_id, low=max(low, 0), high=min(high, _NUMBER_MAX))


async def page(
    store: Store, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
) -> list[Entry]:
    low, high = max(after, -1) + 1, min(before, _NUMBER_MAX) - 1
    if limit <= 0 or low > high:
        return []
    pages = store.query(
        "messages", _BETWEEN, _range(conversation_id, low, high), newest_first=newest_first, limit=limit
    )
    return [entry_of(item) for item in await store.first(pages, limit)]


async def top(store: Store, conversation_id: str) -> Top:
    head, (seq_no, sent_ms) = await asyncio.gather(
        store.get("conversation_heads", head_key(conversation_id)), _at_or_below(store, conversation_id, _NUMBER_MAX)
    )
    found = head_of(head)
    return Top(seq_no, sent_ms, found.members_seq if found is not None else 0)


async def unread(store: Store, conversation_id: str, user_id: str, *, after: int, limit: int) -> list[tuple[int, int]]:
    if limit <= 0 or after >= _NUMBER_MAX:
        return []
    pages = store.query(
        "messages",
        _BETWEEN,
        _range(conversation_id, after + 1, _NUMBER_MAX) | values(message="message", user_id=user_id),
        newest_first=True,
        limit=limit,
        only="#seq_no, #sent_ms",
        matching=_UNREAD,
    )
    return [(plain(item["seq_no"]), plain(item["sent_ms"])) for item in await store.first(pages, limit)]


async def seq_at(store: Store, conversation_id: str, sent_ms: int) -> int:
    """Halves the range until it is empty. An open slot is answered by the entry below it, at worst by `best` again."""
    best, low = 0, 1
    high, _ = await _at_or_below(store, conversation_id, _NUMBER_MAX)
    while low <= high:
        middle = (low + high) // 2
        seq_no, at_ms = await _at_or_below(store, conversation_id, middle)
        if at_ms <= sent_ms:
            best, low = seq_no, middle + 1
        else:
            high = seq_no - 1
    return best


async def _at_or_below(store: Store, conversation_id: str, seq_no: int) -> tuple[int, int]:
    """(seq_no, sent_ms) of the highest entry that is not above; (0, 0): none."""
    pages = store.query(
        "messages",
        _BETWEEN,
        _range(conversation_id, 0, seq_no),
        newest_first=True,
        limit=1,
        only="#seq_no, #sent_ms",
    )
    found = await store.first(pages, 1)
    return (plain(found[0]["seq_no"]), plain(found[0]["sent_ms"])) if found else (0, 0)
