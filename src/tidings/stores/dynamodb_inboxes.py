"""conversations on DynamoDB: one row per user and conversation.

Updates are conditional on the row being there, never a put, so a late touch cannot bring back the row of someone who
left; they go side by side, a bounded number at once. Users are listed in order through the index `by_user`, which is
spread over a few partitions and, unlike everything else here, may be a moment behind. Called by tables_dynamodb.py.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing

from tidings.errors import Missing
from tidings.model import Row
from tidings.stores.dynamodb_calls import Store, assign, update
from tidings.stores.dynamodb_items import USER_SHARDS, plain, row_key, row_of, unique, values
from tidings.stores.dynamodb_wire import ConditionFailed
from tidings.stores.ports import Touch

_THERE = "attribute_exists(#user_id)"
_HAS_TEXT = "attribute_type(#last_message_preview, :text)"
_USERS_PAGE = 50  # rows of the index looked at in one query


async def rows(store: Store, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Row]:
    keys = [row_key(user_id, conversation_id) for conversation_id in unique(conversation_ids)]
    return {row.conversation_id: row for row in map(row_of, await store.batch_get("conversations", keys))}


async def scan(store: Store, user_id: str, *, after_id: str, limit: int) -> list[Row]:
    if limit <= 0:
        return []
    where, held = "#user_id = :user_id", values(user_id=user_id)
    if after_id:
        where, held = f"{where} AND #conversation_id > :after_id", held | values(after_id=after_id)
    pages = store.query("conversations", where, held, limit=limit)
    return [row_of(item) for item in await store.first(pages, limit)]


async def touch(store: Store, touches: Sequence[Touch]) -> None:
    """Those of one row one after the other."""
    by_row: dict[tuple[str, str], list[Touch]] = {}
    for one in touches:
        by_row.setdefault((one.user_id, one.conversation_id), []).append(one)

    async def touch_row(of_one: list[Touch]) -> None:
        for one in of_one:
            await _touch(store, one)

    await store.each(list(by_row.values()), touch_row)


async def _touch(store: Store, one: Touch) -> None:
    fields: dict[str, object] = {
        "last_seq": one.last_seq,
        "last_message_ts": one.last_ms,
        "last_message_preview": one.preview,
    }
    if one.unread_count is not None:
        fields["unread_count"] = one.unread_count
    if one.last_seq > 0:
        fields["is_hidden"] = False  # a message makes a hidden row visible
    change, held = assign(fields)
    key, condition = row_key(one.user_id, one.conversation_id), f"{_THERE} AND #last_seq <= :last_seq"
    if one.preview is not None:
        condition = f"{_THERE} AND (#last_seq < :last_seq OR #last_seq = :last_seq AND {_HAS_TEXT})"
        held |= values(text="S")
    try:
        await store.write(update("conversations", key, change, held, condition))
    except ConditionFailed:
        return  # it is later, or gone


async def flag(
    store: Store,
    user_id: str,
    conversation_id: str,
    *,
    muted: bool | None,
    pinned: bool | None,
    archived: bool | None,
) -> Row:
    flags = {"muted": muted, "pinned": pinned, "archived": archived}
    named: dict[str, object] = {name: value for name, value in flags.items() if value is not None}
    if not named:
        found = await rows(store, user_id, [conversation_id])
        if conversation_id not in found:
            raise Missing(conversation_id)
        return found[conversation_id]
    change, held = assign(named)
    key = row_key(user_id, conversation_id)
    try:
        return row_of(await store.write(update("conversations", key, change, held, _THERE), returns="ALL_NEW"))
    except ConditionFailed:
        raise Missing(conversation_id) from None


async def label(store: Store, labelled: Sequence[tuple[str, str]], *, name: str, avatar_url: str | None) -> None:
    change, held = assign({"name": name, "avatar_url": avatar_url})

    async def label_row(row: tuple[str, str]) -> None:
        try:
            await store.write(update("conversations", row_key(*row), change, held, _THERE))
        except ConditionFailed:
            return  # it is gone

    await store.each(labelled, label_row)


# --- who has rows ---------------------------------------------------------------------------------


async def users(store: Store, *, after_id: str, limit: int) -> list[str]:
    """The partitions of the index are each in order; merged, they are in order together."""
    found: list[str] = []
    async with AsyncExitStack() as stack:
        shards = [_users_of(store, shard, after_id) for shard in range(USER_SHARDS)]
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


async def _each_first(shards: Iterable[AsyncGenerator[str, None]]) -> list[str | None]:
    """None of them is under way any more when it raises: a generator that is cannot be closed."""
    firsts = await asyncio.gather(*(anext(shard, None) for shard in shards), return_exceptions=True)
    for first in firsts:
        if isinstance(first, BaseException):
            raise first
    return firsts  # type: ignore[return-value]  # no exception is among them


async def _users_of(store: Store, shard: int, after_id: str) -> AsyncGenerator[str, None]:
    """Each user of a partition once: after each look it goes on behind the last one, whatever rows are left of them."""
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
