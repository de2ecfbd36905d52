"""pending_deliveries on DynamoDB: what users have not received, one row per conversation.

A row's end never goes back: each write is conditional on what it saw. Rows whose time is over are taken away by
DynamoDB (its time to live is `expires`); `Walk` looks through the table a piece at a time for those that wait for
nobody. Called by dynamodb_devices.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidings import bounds
from tidings.errors import Throttled
from tidings.model_push import Waiting
from tidings.stores.dynamodb_calls import Store, delete, put, remove, update
from tidings.stores.dynamodb_items import (
    from_item,
    member_key,
    member_of,
    row_key,
    status_of,
    to_item,
    unique,
    values,
)
from tidings.stores.dynamodb_wire import ConditionFailed, Item

_TABLE = "pending_deliveries"
_TRIES_MAX = 20  # of a row that others change all the time
_EARLIER = (
    "attribute_not_exists(#user_id) OR (#first_seq = :first_seq AND #last_seq <= :last_seq AND #expires <= :expires)"
)
_SEEN = "#first_seq = :seen_first AND #last_seq = :seen_last"


async def put_waiting(store: Store, rows: Sequence[Waiting]) -> None:
    await store.each(rows, lambda row: _put(store, row))


async def _put(store: Store, row: Waiting) -> None:
    for _ in range(_TRIES_MAX):
        held = values(first_seq=row.first_seq, last_seq=row.last_seq, expires=row.expires)
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
    """The beginning of what is there, the later end."""
    return msgspec.structs.replace(
        there, last_seq=max(there.last_seq, row.last_seq), expires=max(there.expires, row.expires)
    )


async def waiting(store: Store, conversation_id: str, user_ids: Iterable[str]) -> dict[str, Waiting]:
    items = await store.batch_get(_TABLE, [row_key(user_id, conversation_id) for user_id in unique(user_ids)])
    return {row.user_id: row for row in (from_item(Waiting, item) for item in items)}


async def waiting_of(store: Store, user_id: str) -> list[Waiting]:
    pages = store.query(_TABLE, "#user_id = :user_id", values(user_id=user_id))
    return [from_item(Waiting, item) for item in await store.all(pages)]


async def clear_waiting(store: Store, marks: Sequence[tuple[str, str, int]]) -> None:
    """Nearly every receipt comes in time and has no row to clear: they are looked at first, many at a time."""
    highest: dict[tuple[str, str], int] = {}
    for conversation_id, user_id, delivered_seq in marks:
        key = (user_id, conversation_id)
        highest[key] = max(delivered_seq, highest.get(key, 0))
    items = await store.batch_get(_TABLE, [row_key(*key) for key in highest])
    rows = [from_item(Waiting, item) for item in items]
    await store.each(rows, lambda row: _clear(store, row, highest[row.user_id, row.conversation_id]))


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
    """Goes through the table, some rows per call, and begins again at its end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after: Item | None = None

    async def expire(self, now_ms: int) -> int:
        """How many of the rows looked at went."""
        items, self._after = await self._store.walk(_TABLE, bounds.DYNAMODB_WALK_ROWS, self._after)
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
        """False: something was added to it."""
        seen = values(seen_first=row.first_seq, seen_last=row.last_seq)
        return await remove(self._store, delete(_TABLE, row_key(row.user_id, row.conversation_id), _SEEN, seen))
