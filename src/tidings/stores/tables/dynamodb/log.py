"""The log on DynamoDB: pages, numbering, unread and time, all of them consistent; append/ holds its writes.

A query is bounded by the sort key, so a page costs the rows it shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import aclosing

from tidings.bounds import GROUP_ENTRIES_MAX
from tidings.model import COUNTED_KINDS, Entry
from tidings.stores.tables.dynamodb.append.append import append
from tidings.stores.tables.dynamodb.append.duplicates import catch_up
from tidings.stores.tables.dynamodb.client.client import Item
from tidings.stores.tables.dynamodb.client.items import entry_of, head_key, head_of, plain, values
from tidings.stores.tables.dynamodb.client.operations import Port, Store
from tidings.stores.tables.stored_content import is_mentioned
from tidings.stores.tables.values import Answer, Group, Top

_NUMBER_MAX = 2**63 - 1  # a cursor above it means "from the end"
_BETWEEN = "#conversation_id = :conversation_id AND #seq_no BETWEEN :low AND :high"
_COUNTED = values(**{f"kind{at}": kind for at, kind in enumerate(COUNTED_KINDS)})
_UNREAD = (
    f"#kind IN ({', '.join(_COUNTED)}) AND attribute_not_exists(#is_deleted) AND attribute_not_exists(#is_uncounted) "
    "AND (attribute_not_exists(#sender_id) OR #sender_id <> :user_id)"
)


def _is_of(item: Item, sender_ids: Collection[str]) -> bool:
    return "sender_id" in item and plain(item["sender_id"]) in sender_ids


def _range(conversation_id: str, low: int, high: int) -> Item:
    return values(conversation_id=conversation_id, low=max(low, 0), high=min(high, _NUMBER_MAX))


class DynamoLog(Port):
    async def append(self, groups: Sequence[Group]) -> Sequence[Answer]:
        return await append(self._store, groups)

    async def catch_up(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        await catch_up(self._store, conversation_id, entries)

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        low, high = max(after, -1) + 1, min(before, _NUMBER_MAX) - 1
        if limit <= 0 or low > high:
            return []
        pages = self._store.query(
            "messages", _BETWEEN, _range(conversation_id, low, high), newest_first=newest_first, limit=limit
        )
        return [entry_of(item) for item in await self._store.first(pages, limit)]

    async def top(self, conversation_id: str) -> Top:
        head, latest = await asyncio.gather(
            self._store.get("conversation_heads", head_key(conversation_id)),
            _at_or_below(self._store, conversation_id, _NUMBER_MAX, GROUP_ENTRIES_MAX),
        )
        found = head_of(head)
        seq_no, sent_ms = (max(numbers) for numbers in zip(*latest, strict=True))
        return Top(seq_no, sent_ms, found.members_seq if found is not None else 0)

    async def unread(
        self, conversation_id: str, user_id: str, *, after: int, limit: int, but: Collection[str] = ()
    ) -> list[tuple[int, bool]]:
        if limit <= 0 or after >= _NUMBER_MAX:
            return []
        pages = self._store.query(
            "messages",
            _BETWEEN,
            _range(conversation_id, after + 1, _NUMBER_MAX) | _COUNTED | values(user_id=user_id),
            newest_first=True,
            limit=limit,
            only="#seq_no, #mentions, #sender_id",
            matching=_UNREAD,
        )
        found: list[tuple[int, bool]] = []
        async with aclosing(pages):
            async for page in pages:
                found += [
                    (plain(item["seq_no"]), "mentions" in item and is_mentioned(user_id, plain(item["mentions"])))
                    for item in page
                    if not _is_of(item, but)
                ]
                if len(found) >= limit:
                    break
        return found[:limit]

    async def seq_at(self, conversation_id: str, sent_ms: int) -> int:
        """Halve the range until it is empty. A gap is answered by the entry below it, at worst by `best` again."""
        best, low = 0, 1
        ((high, _),) = await _at_or_below(self._store, conversation_id, _NUMBER_MAX)
        while low <= high:
            middle = (low + high) // 2
            ((seq_no, at_ms),) = await _at_or_below(self._store, conversation_id, middle)
            if at_ms <= sent_ms:
                best, low = seq_no, middle + 1
            else:
                high = seq_no - 1
        return best


async def _at_or_below(store: Store, conversation_id: str, seq_no: int, limit: int = 1) -> list[tuple[int, int]]:
    """(seq_no, sent_ms) of the highest entries that are not above; one (0, 0): none."""
    pages = store.query(
        "messages",
        _BETWEEN,
        _range(conversation_id, 0, seq_no),
        newest_first=True,
        limit=limit,
        only="#seq_no, #sent_ms",
    )
    found = await store.first(pages, limit)
    return [(plain(item["seq_no"]), plain(item["sent_ms"])) for item in found] or [(0, 0)]
