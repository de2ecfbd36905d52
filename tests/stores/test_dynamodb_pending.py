"""Pending rows: ends that race, and the walk through the table a piece at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contracts import conversation, fresh
from tests.contracts.pending import FAR
from tests.contracts.pending import waiting as over
from tests.dynamodb_local import DynamoLocal, fresh_prefix
from tests.stores.dynamo import Counts, Once, faults
from tidings import bounds
from tidings.model_push import Waiting
from tidings.stores.dynamodb_devices import DynamoDevices
from tidings.stores.tables_dynamodb import DynamoTables, create_tables


def waiting(user_id: str, conversation_id: str, first_seq: int, last_seq: int) -> Waiting:
    """A row that DynamoDB does not take away while the test looks at it."""
    return over(user_id, conversation_id, first_seq, last_seq, expires=FAR * 10)


@pytest.fixture
def pending(dynamo: DynamoTables) -> DynamoDevices:
    return DynamoDevices(dynamo.store)


@pytest.fixture
async def alone(dynamodb: DynamoLocal, counts: Counts) -> AsyncIterator[DynamoTables]:
    """Tables in which nothing else waits."""
    url = dynamodb.url(fresh_prefix())
    await create_tables(url)
    async with counts.opened(url) as tables:
        yield tables


async def test_ends_that_race_leave_the_latest(pending: DynamoDevices) -> None:
    bob, c = fresh("bob"), fresh("c")
    await pending.put_waiting([waiting(bob, c, 1, 1)])
    await asyncio.gather(*(pending.put_waiting([waiting(bob, c, seq, seq)]) for seq in range(2, 8)))
    assert await pending.waiting_of(bob) == [waiting(bob, c, 1, 7)]


async def test_a_receipt_and_a_new_end_that_race_lose_nothing(pending: DynamoDevices) -> None:
    for _ in range(5):
        bob, c = fresh("bob"), fresh("c")
        await pending.put_waiting([waiting(bob, c, 1, 4)])
        await asyncio.gather(pending.clear_waiting([(c, bob, 4)]), pending.put_waiting([waiting(bob, c, 5, 6)]))
        [row] = await pending.waiting_of(bob)
        assert row.first_seq <= 5 and row.last_seq == 6


@pytest.mark.parametrize("action", ["PutItem", "UpdateItem", "DeleteItem"])
async def test_a_lost_reply_changes_nothing(dynamodb: DynamoLocal, pending: DynamoDevices, action: str) -> None:
    bob, c = fresh("bob"), fresh("c")
    with faults(dynamodb, Once("lost", action)):
        await pending.put_waiting([waiting(bob, c, 1, 4)])
        await pending.clear_waiting([(c, bob, 2)])
        assert await pending.waiting_of(bob) == [waiting(bob, c, 3, 4)]
        await pending.clear_waiting([(c, bob, 4)])
    assert await pending.waiting_of(bob) == []


async def test_a_receipt_that_finds_no_row_is_one_read(
    dynamodb: DynamoLocal, pending: DynamoDevices, counts: Counts
) -> None:
    dynamodb.shim.asked.clear()
    await pending.clear_waiting([(fresh("c"), fresh("bob"), 5) for _ in range(50)])
    assert dynamodb.shim.asked == {"BatchGetItem": 1} and not counts.writes


async def test_the_table_is_walked_through_a_piece_at_a_time(
    alone: DynamoTables, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "DYNAMODB_WALK_ROWS", 4)
    users = [fresh("user") for _ in range(10)]
    c = await conversation(alone, *users)
    pending = DynamoDevices(alone.store)
    await pending.put_waiting([waiting(user_id, c, 1, 2) for user_id in users])
    await alone.deliver([(c, user_id, 2) for user_id in users[::2]])
    counts.clear()
    assert [await pending.expire_waiting(0) for _ in range(3)] != [5, 0, 0]
    assert counts.reads["pending_deliveries"] == 10
    assert set(await pending.waiting(c, users)) == set(users[1::2])
    assert sum([await pending.expire_waiting(0) for _ in range(3)]) == 0
