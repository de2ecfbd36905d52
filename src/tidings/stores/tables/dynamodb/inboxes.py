"""conversations on DynamoDB: one row per user and conversation.

Updates are conditional on the row being there, never a put, so a late touch cannot bring back the row of someone who
left; they go side by side, a bounded number at once. Users are listed in order through the index `by_user`, which is
spread over a few partitions and, unlike everything else here, may be a moment behind.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress

import msgspec

from tidings.errors import Missing
from tidings.model import Row, Status
from tidings.stores.tables.dynamodb.client.client import ConditionFailed
from tidings.stores.tables.dynamodb.client.items import USER_SHARDS, plain, row_key, row_of, unique, values
from tidings.stores.tables.dynamodb.client.operations import Port, Store, assign, update
from tidings.stores.tables.stored_content import DELETED
from tidings.stores.tables.values import FLAGS, Touch

_THERE = "attribute_exists(#user_id)"
_NOT_HIDDEN = "(#is_hidden = :no OR attribute_not_exists(#hidden_seq) OR #hidden_seq < :last_seq)"
_HIDDEN = "#is_hidden = :yes AND #hidden_seq >= :last_seq"
_IS_THERE = (  # the last message was not deleted
    "(attribute_exists(#last_message_preview) "
    "OR attribute_exists(#last_message) AND NOT contains(#last_message, :deleted))"
)
# A row that was archived by an earlier version does not say when: the last message before this one.
_ARCHIVED_BEFORE = "SET #archived_seq = if_not_exists(#archived_seq, #last_seq), "
_USERS_PAGE = 50  # rows of the index read in one query


_SAME_STATUS = "(attribute_not_exists(#status_version) OR #status_version <= :version)"


class DynamoInboxes(Port):
    async def rows(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Row]:
        keys = [row_key(user_id, conversation_id) for conversation_id in unique(conversation_ids)]
        return {row.conversation_id: row for row in map(row_of, await self._store.batch_get("conversations", keys))}

    async def scan(self, user_id: str, *, after_id: str, limit: int) -> list[Row]:
        if limit <= 0:
            return []
        where, held = "#user_id = :user_id", values(user_id=user_id)
        if after_id:
            where, held = f"{where} AND #conversation_id > :after_id", held | values(after_id=after_id)
        pages = self._store.query("conversations", where, held, limit=limit)
        return [row_of(item) for item in await self._store.first(pages, limit)]

    async def latest(self, user_id: str, *, before: tuple[int, str] | None, limit: int) -> list[Row]:
        """Read all rows of the user: the table has no index by time, because each message would move its items."""
        shown = [row for row in await self._shown(user_id) if before is None or _place(row) < before]
        return heapq.nlargest(max(limit, 0), shown, key=_place)

    async def unread(self, user_id: str) -> tuple[int, int]:
        counts = [row.unread_count for row in await self._shown(user_id) if row.unread_count]
        return sum(counts), len(counts)

    async def _shown(self, user_id: str) -> list[Row]:
        pages = self._store.query("conversations", "#user_id = :user_id", values(user_id=user_id))
        rows = map(row_of, await self._store.all(pages))
        return [row for row in rows if not row.is_hidden or row.last_seq > row.hidden_seq]

    async def touch(self, touches: Sequence[Touch]) -> None:
        """Write the touches. Touches of the same row are written one after the other."""
        by_row: dict[tuple[str, str], list[Touch]] = {}
        for one in touches:
            by_row.setdefault((one.user_id, one.conversation_id), []).append(one)

        async def touch_row(of_one: list[Touch]) -> None:
            for one in of_one:
                await _touch(self._store, one)

        await self._store.each(list(by_row.values()), touch_row)

    async def flag(self, user_id: str, conversation_id: str, changes: Mapping[str, object]) -> Row:
        assert changes.keys() <= set(FLAGS)
        if not changes:
            found = await self.rows(user_id, [conversation_id])
            if conversation_id not in found:
                raise Missing(conversation_id)
            return found[conversation_id]
        change, held = assign(dict(changes))
        key = row_key(user_id, conversation_id)
        try:
            return row_of(
                await self._store.write(update("conversations", key, change, held, _THERE), returns="ALL_NEW")
            )
        except ConditionFailed:
            raise Missing(conversation_id) from None

    async def hide(self, user_id: str, conversation_id: str, *, up_to_seq: int) -> None:
        change, held = assign({"is_hidden": True, "hidden_seq": up_to_seq})
        try:
            await self._store.write(update("conversations", row_key(user_id, conversation_id), change, held, _THERE))
        except ConditionFailed:
            return  # it is gone

    async def label(self, rows: Sequence[tuple[str, str]], *, name: str, avatar_url: str | None) -> None:
        change, held = assign({"name": name, "avatar_url": avatar_url})

        async def label_row(row: tuple[str, str]) -> None:
            try:
                await self._store.write(update("conversations", row_key(*row), change, held, _THERE))
            except ConditionFailed:
                return  # it is gone

        await self._store.each(rows, label_row)

    async def users(self, *, after_id: str, limit: int) -> list[str]:
        """List users in order: each partition of the index is in order, and so is their merge."""
        found: list[str] = []
        async with AsyncExitStack() as stack:
            shards = [_users_of(self._store, shard, after_id) for shard in range(USER_SHARDS)]
            for shard in shards:
                await stack.enter_async_context(aclosing(shard))
            firsts = await _each_first(shards)
            heap = [(user_id, number) for number, user_id in enumerate(firsts) if user_id is not None]
            heapq.heapify(heap)
            while heap and len(found) < limit:
                user_id, number = heap[0]
                found.append(user_id)
                following = await anext(shards[number], None)
                if following is None:
                    heapq.heappop(heap)
                else:
                    heapq.heapreplace(heap, (following, number))
        return found


def _place(row: Row) -> tuple[int, str]:
    return max(row.last_message_ts, row.joined_ms, 1), row.conversation_id


async def _touch(store: Store, one: Touch, *, is_hidden: bool = False) -> None:
    """Write a touch. `is_hidden`: the row is hidden, and stays so."""
    fields: dict[str, object] = {
        "last_seq": one.last_seq,
        "last_message_ts": one.last_ms,
        "last_message_preview": one.preview,
        "last_message": one.last_message,
        "unread_count": one.unread_count,
    }
    if one.last_seq > 0 and not is_hidden:
        fields["is_hidden"] = False  # a message above hidden_seq makes a hidden row visible
    change, held = assign(fields)
    change = change.replace("SET ", _ARCHIVED_BEFORE, 1)
    key, condition = row_key(one.user_id, one.conversation_id), f"{_THERE} AND #last_seq <= :last_seq"
    if one.preview is not None:
        condition = f"{_THERE} AND (#last_seq < :last_seq OR #last_seq = :last_seq AND {_IS_THERE})"
        held |= values(deleted=DELETED)
    if one.last_seq > 0:
        condition = f"({condition}) AND {_HIDDEN if is_hidden else _NOT_HIDDEN}"
        held |= values(yes=True) if is_hidden else values(no=False)
    if one.unread_count is not None:
        condition = f"({condition}) AND {_SAME_STATUS}"
        held |= values(version=one.version)
    op = update("conversations", key, change, held, condition)
    try:
        await store.write(op)
    except ConditionFailed as failed:
        row = await store.standing(op, failed)
        if not is_hidden and one.last_seq > 0 and row is not None and _hides(row_of(row), one):
            await _touch(store, one, is_hidden=True)
        elif one.unread_count is not None:  # a later status was put, or the row is later, or gone
            await _touch(store, msgspec.structs.replace(one, unread_count=None), is_hidden=is_hidden)


def _hides(row: Row, one: Touch) -> bool:
    return row.is_hidden and row.hidden_seq >= one.last_seq


async def uncount_row(store: Store, status: Status) -> None:
    """Forget the unread count of the row before a status is stored, so that no older count can return."""
    change, held = "SET #status_version = :version REMOVE #unread_count", values(version=status.version)
    with suppress(ConditionFailed):  # there is no row, or it is later
        key = row_key(status.user_id, status.conversation_id)
        await store.write(update("conversations", key, change, held, f"{_THERE} AND {_SAME_STATUS}"))


# --- who has rows ---------------------------------------------------------------------------------


async def _each_first(shards: Iterable[AsyncGenerator[str, None]]) -> list[str | None]:
    """Take the first item of each. When this raises, none is under way: a running generator cannot be closed."""
    firsts = await asyncio.gather(*(anext(shard, None) for shard in shards), return_exceptions=True)
    for first in firsts:
        if isinstance(first, BaseException):
            raise first
    return firsts  # type: ignore[return-value]  # no exception is among them


async def _users_of(store: Store, shard: int, after_id: str) -> AsyncGenerator[str, None]:
    """List each user of a partition once: each query begins behind the last user, whatever rows that user has left."""
    while True:
        where, held = "#shard = :shard", values(shard=shard)
        if after_id:
            where, held = f"{where} AND #user_id > :after_id", held | values(after_id=after_id)
        pages = store.query("conversations", where, held, limit=_USERS_PAGE, only="#user_id", index="by_user")
        page = await store.first(pages, _USERS_PAGE)
        for user_id in unique(plain(item["user_id"]) for item in page):
            yield user_id
            after_id = user_id
        if len(page) < _USERS_PAGE:
            return
