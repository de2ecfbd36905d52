"""pending_deliveries on DynamoDB: what users have not received, one row per conversation.

A row's end never goes back: each write is conditional on what it saw. Rows whose time is over are taken away by
DynamoDB (its time to live is `expires`). `Walk` reads the table a piece at a time for rows that wait for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidings.errors import Throttled
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.client import ConditionFailed, Item
from tidings.stores.tables.dynamodb.client.items import (
    from_item,
    member_key,
    member_of,
    row_key,
    status_of,
    to_item,
    unique,
    values,
)
from tidings.stores.tables.dynamodb.client.operations import Store, delete, put, remove, update
from tidings.stores.tables.values import Waiting

_TABLE = "pending_deliveries"
_TRIES_MAX = 20  # of a row that others change all the time
_EARLIER = (
    "attribute_not_exists(#user_id) OR (#first_seq = :first_seq AND #since_ms = :since_ms "
    "AND #last_seq <= :last_seq AND #expires <= :expires)"
)
_SEEN = "#first_seq = :seen_first AND #last_seq = :seen_last"


class DynamoPending:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._walk = Walk(store)

    async def expire(self, now_ms: int) -> int:
        """Remove useless rows, some in each call, through the whole table. DynamoDB removes expired rows too."""
        return await self._walk.expire(now_ms)

    async def put(self, rows: Sequence[Waiting]) -> None:
        await self._store.each(rows, lambda row: _put(self._store, row))

    async def of_conversation(self, conversation_id: str, user_ids: Iterable[str]) -> dict[str, Waiting]:
        items = await self._store.batch_get(_TABLE, [row_key(user_id, conversation_id) for user_id in unique(user_ids)])
        return {row.user_id: row for row in (from_item(Waiting, item) for item in items)}

    async def of_user(self, user_id: str) -> list[Waiting]:
        pages = self._store.query(_TABLE, "#user_id = :user_id", values(user_id=user_id))
        return [from_item(Waiting, item) for item in await self._store.all(pages)]

    async def clear(self, marks: Sequence[tuple[str, str, int]]) -> None:
        """Clear rows of receipts. Nearly every receipt has no row, so the rows are read first, many at a time."""
        highest: dict[tuple[str, str], int] = {}
        for conversation_id, user_id, delivered_seq in marks:
            key = (user_id, conversation_id)
            highest[key] = max(delivered_seq, highest.get(key, 0))
        items = await self._store.batch_get(_TABLE, [row_key(*key) for key in highest])
        rows = [from_item(Waiting, item) for item in items]
        await self._store.each(rows, lambda row: _clear(self._store, row, highest[row.user_id, row.conversation_id]))


async def _put(store: Store, row: Waiting) -> None:
    for _ in range(_TRIES_MAX):
        held = values(first_seq=row.first_seq, since_ms=row.since_ms, last_seq=row.last_seq, expires=row.expires)
        op = put(_TABLE, row_key(row.user_id, row.conversation_id), to_item(row), _EARLIER, held)
        try:
            await store.write(op)
            return
        except ConditionFailed as failed:
            item = await store.standing(op, failed)
            if item is not None:
                row = _joined(from_item(Waiting, item), row)
    raise Throttled("a pending row changes all the time")


def _joined(there: Waiting, row: Waiting) -> Waiting:
    """Join two rows: the beginning of the stored row, and the later end."""
    return msgspec.structs.replace(
        there, last_seq=max(there.last_seq, row.last_seq), expires=max(there.expires, row.expires)
    )


async def _clear(store: Store, row: Waiting, delivered_seq: int) -> None:
    key = row_key(row.user_id, row.conversation_id)
    for _ in range(_TRIES_MAX):
        if row.first_seq > delivered_seq:
            return
        seen = values(seen_first=row.first_seq, seen_last=row.last_seq)
        if row.last_seq <= delivered_seq:
            op = delete(_TABLE, key, _SEEN, seen)
        else:
            op = update(_TABLE, key, "SET #first_seq = :first_seq", seen | values(first_seq=delivered_seq + 1), _SEEN)
        try:
            await store.write(op)
            return
        except ConditionFailed as failed:
            item = await store.standing(op, failed)
            if item is None:
                return
            row = from_item(Waiting, item)
    raise Throttled("a pending row changes all the time")


class Walk:
    """Walks through the table, some rows per call, and begins again at its end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after: Item | None = None

    async def expire(self, now_ms: int) -> int:
        """Check some rows and delete those that are not pending any more. Returns how many were deleted."""
        items, self._after = await self._store.walk(_TABLE, bounds.WALK_ROWS, self._after)
        rows = [from_item(Waiting, item) for item in items]
        keys = [member_key(row.conversation_id, row.user_id) for row in rows]
        present = {
            (member.conversation_id, member.user_id)
            for member in map(member_of, await self._store.batch_get("members", keys))
            if member.left_seq is None
        }
        delivered = {
            (status.conversation_id, status.user_id): status.delivered_seq
            for status in map(status_of, await self._store.batch_get("message_status", keys))
        }
        useless = [
            row
            for row in rows
            if row.expires <= now_ms // 1000
            or (row.conversation_id, row.user_id) not in present
            or delivered.get((row.conversation_id, row.user_id), 0) >= row.last_seq
        ]
        return sum(await self._store.each(useless, self._remove))

    async def _remove(self, row: Waiting) -> bool:
        """Remove a row. False: its end moved meanwhile."""
        seen = values(seen_first=row.first_seq, seen_last=row.last_seq)
        return await remove(self._store, delete(_TABLE, row_key(row.user_id, row.conversation_id), _SEEN, seen))
