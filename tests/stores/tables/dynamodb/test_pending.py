"""Pending rows: ends that race, and the walk through the table a piece at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contracts import conversation, fresh
from tests.contracts.pending import FAR
from tests.contracts.pending import waiting as over
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.dynamodb_tables import Counts, Once, faults
from tidings.clock import Clock
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Waiting
from tidings_proof.world.dynamodb import DynamoLocal


def waiting(user_id: str, conversation_id: str, first_seq: int, last_seq: int) -> Waiting:
    """A row that DynamoDB does not take away while the test looks at it."""
    return over(user_id, conversation_id, first_seq, last_seq, expires=FAR * 10)


@pytest.fixture
def tables(dynamo: Tables) -> Tables:
    return dynamo


@pytest.fixture
async def alone(dynamodb: DynamoLocal, counts: Counts) -> AsyncIterator[Tables]:
    """Tables in which nothing else waits."""
    url = dynamodb.url(fresh_prefix())
    await dynamodb_adapter.create(url, Clock())
    async with counts.opened(url) as tables:
        yield tables


async def test_ends_that_race_leave_the_latest(tables: Tables) -> None:
    bob, c = fresh("bob"), fresh("c")
    await tables.pending.put([waiting(bob, c, 1, 1)])
    await asyncio.gather(*(tables.pending.put([waiting(bob, c, seq, seq)]) for seq in range(2, 8)))
    assert await tables.pending.of_user(bob) == [waiting(bob, c, 1, 7)]


async def test_a_receipt_and_a_new_end_that_race_lose_nothing(tables: Tables) -> None:
    for _ in range(5):
        bob, c = fresh("bob"), fresh("c")
        await tables.pending.put([waiting(bob, c, 1, 4)])
        await asyncio.gather(tables.pending.clear([(c, bob, 4)]), tables.pending.put([waiting(bob, c, 5, 6)]))
        [row] = await tables.pending.of_user(bob)
        assert row.first_seq <= 5 and row.last_seq == 6


@pytest.mark.parametrize("action", ["PutItem", "UpdateItem", "DeleteItem"])
async def test_a_lost_reply_changes_nothing(dynamodb: DynamoLocal, tables: Tables, action: str) -> None:
    bob, c = fresh("bob"), fresh("c")
    with faults(dynamodb, Once("lost", action)):
        await tables.pending.put([waiting(bob, c, 1, 4)])
        await tables.pending.clear([(c, bob, 2)])
        assert await tables.pending.of_user(bob) == [waiting(bob, c, 3, 4)]
        await tables.pending.clear([(c, bob, 4)])
    assert await tables.pending.of_user(bob) == []


async def test_a_receipt_that_finds_no_row_is_one_read(dynamodb: DynamoLocal, tables: Tables, counts: Counts) -> None:
    dynamodb.shim.asked.clear()
    await tables.pending.clear([(fresh("c"), fresh("bob"), 5) for _ in range(50)])
    assert dynamodb.shim.asked == {"BatchGetItem": 1} and not counts.writes


async def test_the_table_is_walked_through_a_piece_at_a_time(
    alone: Tables, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "WALK_ROWS", 4)
    users = [fresh("user") for _ in range(10)]
    c = await conversation(alone, *users)
    await alone.pending.put([waiting(user_id, c, 1, 2) for user_id in users])
    await alone.statuses.deliver([(c, user_id, 2) for user_id in users[::2]])
    counts.clear()
    assert [await alone.pending.expire(0) for _ in range(3)] != [5, 0, 0]
    assert counts.reads["pending_deliveries"] == 10
    assert set(await alone.pending.of_conversation(c, users)) == set(users[1::2])
    assert sum([await alone.pending.expire(0) for _ in range(3)]) == 0
