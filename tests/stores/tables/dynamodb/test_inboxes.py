"""Inbox rows: updates that never create, and users listed in order out of a table that has none."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.contracts import conversation, fresh
from tests.contracts.inboxes import row_of, touch
from tests.support.servers.dynamodb_tables import Counts, Once, faults, store_of
from tidings.errors import Missing, Unavailable
from tidings.stores.tables.dynamodb.client.client import Item
from tidings.stores.tables.dynamodb.client.items import USER_SHARDS, row_key, user_shard, values
from tidings.stores.tables.dynamodb.client.operations import update
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal


async def test_users_come_in_order_from_all_partitions_of_the_index(dynamo: Tables) -> None:
    prefix = fresh("zu")
    users = [f"{prefix}.{number:03}" for number in range(120)]
    assert len({user_shard(user_id) for user_id in users}) == USER_SHARDS
    for at in range(0, len(users), 40):
        await conversation(dynamo, *users[at : at + 40])
    seen: list[str] = []
    after_id = prefix
    while page := await dynamo.inboxes.users(after_id=after_id, limit=50):
        seen += [user_id for user_id in page if user_id.startswith(f"{prefix}.")]
        after_id = page[-1]
    assert seen == users


async def test_a_user_of_many_rows_is_listed_once_and_passed_by(
    dynamo: Tables, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.stores.tables.dynamodb.inboxes._USERS_PAGE", 3)
    prefix = fresh("zv")
    busy = f"{prefix}.a"
    later = next(f"{prefix}.b{n}" for n in range(1000) if user_shard(f"{prefix}.b{n}") == user_shard(busy))
    for _ in range(10):
        await conversation(dynamo, busy)
    await conversation(dynamo, later)
    assert await dynamo.inboxes.users(after_id=prefix, limit=2) == [busy, later]


async def test_users_of_which_one_partition_fails_are_a_store_error(
    dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, asked = store_of(dynamo).query, itertools.count()

    async def failing(*args: Any, **fields: Any) -> AsyncGenerator[list[Item], None]:
        """The first one, while the others are under way."""
        if next(asked) == 0:
            raise Unavailable("DynamoDB: InternalServerError")
        async for page in query(*args, **fields):
            yield page

    monkeypatch.setattr(store_of(dynamo), "query", failing)
    with pytest.raises(Unavailable, match="InternalServerError"):
        await dynamo.inboxes.users(after_id="", limit=10)


async def test_a_touch_whose_reply_was_lost_is_done(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    alice = fresh("alice")
    c = await conversation(dynamo, alice)
    with faults(dynamodb, Once("lost", "UpdateItem", table="conversations")):
        await dynamo.inboxes.touch([touch(alice, c, 3, unread_count=2)])
    assert (await row_of(dynamo, alice, c)).last_seq == 3


async def test_touches_that_race_leave_the_latest(dynamo: Tables) -> None:
    alice = fresh("alice")
    c = await conversation(dynamo, alice)
    await asyncio.gather(*(dynamo.inboxes.touch([touch(alice, c, seq, unread_count=seq)]) for seq in (3, 9, 1, 7)))
    row = await row_of(dynamo, alice, c)
    assert (row.last_seq, row.unread_count) == (9, 9)


async def test_a_flag_that_changes_nothing_answers_the_row(dynamo: Tables) -> None:
    alice = fresh("alice")
    c = await conversation(dynamo, alice)
    assert await dynamo.inboxes.flag(alice, c, {}) == await row_of(dynamo, alice, c)
    with pytest.raises(Missing):
        await dynamo.inboxes.flag(alice, fresh("c"), {})


async def test_a_row_that_an_earlier_version_archived_stays_until_its_next_message(dynamo: Tables) -> None:
    user_id = fresh("zw")
    c = await conversation(dynamo, user_id)
    await dynamo.inboxes.touch([touch(user_id, c, 7)])
    key, store = row_key(user_id, c), store_of(dynamo)
    await store.write(update("conversations", key, "SET #archived = :yes REMOVE #archived_seq", values(yes=True)))
    row = (await dynamo.inboxes.rows(user_id, [c]))[c]
    assert row.is_archived(0) and row.archived_seq == 7
    await dynamo.inboxes.touch([touch(user_id, c, 8)])
    row = (await dynamo.inboxes.rows(user_id, [c]))[c]
    assert not row.is_archived(0) and (row.archived, row.archived_seq, row.last_seq) == (True, 7, 8)
