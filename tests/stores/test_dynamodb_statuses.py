"""Statuses and accounts when replies are lost and receipts come in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contracts import conversation, fresh, group, message
from tests.contracts.statuses import status
from tests.dynamodb_local import DynamoLocal, fresh_prefix
from tests.stores.dynamo import Counts, Once, faults
from tidings.errors import Conflict
from tidings.model import Member, User
from tidings.stores.tables_dynamodb import DynamoTables, create_tables


async def test_a_put_whose_reply_was_lost_is_no_conflict(dynamodb: DynamoLocal, dynamo: DynamoTables) -> None:
    c = await conversation(dynamo, "alice")
    for version in (1, 2):
        with faults(dynamodb, Once("lost", "PutItem")):
            stored = await dynamo.put(status(c, version=version, cursor_seq=version))
        assert stored == status(c, version=version, cursor_seq=version)
    with faults(dynamodb, Once("lost", "PutItem")), pytest.raises(Conflict):
        await dynamo.put(status(c, version=2, cursor_seq=9))


async def test_a_receipt_between_read_and_put_is_taken_over(dynamodb: DynamoLocal, dynamo: DynamoTables) -> None:
    c = await conversation(dynamo, "alice")
    await dynamo.put(status(c, version=1, delivered_seq=2))
    await dynamo.deliver([(c, "alice", 7)])
    dynamodb.shim.asked.clear()
    assert (await dynamo.put(status(c, version=2, delivered_seq=3, read_seq=3))).delivered_seq == 7
    assert dynamodb.shim.asked["PutItem"] == 2


async def test_a_put_that_knows_the_row_is_one_write(dynamodb: DynamoLocal, dynamo: DynamoTables) -> None:
    c = await conversation(dynamo, "alice")
    dynamodb.shim.asked.clear()
    await dynamo.put(status(c, version=1, read_seq=1))
    await dynamo.put(status(c, version=2, read_seq=2))
    assert dynamodb.shim.asked == {"PutItem": 2}


async def test_a_receipt_is_one_write_once_there_is_a_status(
    dynamodb: DynamoLocal, dynamo: DynamoTables, counts: Counts
) -> None:
    c = await conversation(dynamo, "alice")
    await dynamo.deliver([(c, "alice", 1)])
    counts.clear()
    dynamodb.shim.asked.clear()
    await dynamo.deliver([(c, "alice", 2)])
    assert dynamodb.shim.asked == {"UpdateItem": 1} and counts.units == {"read": 0, "write": 1}


async def test_receipts_of_a_new_member_that_race_leave_the_highest(dynamo: DynamoTables) -> None:
    c = await conversation(dynamo, "alice")
    await asyncio.gather(*(dynamo.deliver([(c, "alice", seq)]) for seq in (3, 9, 1, 7)))
    assert (await dynamo.of_conversation(c))[0].delivered_seq == 9


async def test_who_leaves_while_a_receipt_is_under_way_gets_no_status(
    dynamodb: DynamoLocal, dynamo: DynamoTables
) -> None:
    c = await conversation(dynamo, "alice", "bob")
    left = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def leave() -> None:
        bob = Member(conversation_id=c, user_id="bob", left_seq=1)
        await dynamo.append([group(message(c, 1), members=(bob,))])
        left.set()

    def leave_first(action: str, payload: dict[str, Any]) -> str | None:
        if action == "TransactWriteItems" and "message_status" in str(payload) and not left.is_set():
            asyncio.run_coroutine_threadsafe(leave(), loop)
            return "throttled"
        return None

    with faults(dynamodb, leave_first):
        await dynamo.deliver([(c, "bob", 1)])
        await left.wait()
    assert await dynamo.of_conversation(c) == []


async def test_a_revocation_that_races_a_new_name_stays(dynamo: DynamoTables) -> None:
    user_id = fresh("user")
    users = [User(user_id=user_id, name="Ann", tokens_valid_after=after) for after in (0, 50, 20, 0)]
    await asyncio.gather(*map(dynamo.put_user, users))
    assert await dynamo.user(user_id) == User(user_id=user_id, name="Ann", tokens_valid_after=50)


async def test_many_who_open_new_tables_at_once_agree_on_the_epoch(dynamodb: DynamoLocal, counts: Counts) -> None:
    url = dynamodb.url(fresh_prefix())
    await create_tables(url)
    with faults(dynamodb, Once("lost", "PutItem", times=2)):
        stores = await asyncio.gather(*(counts.open(url) for _ in range(5)))
    assert len({await store.store_epoch() for store in stores}) == 1
    for store in stores:
        await store.close()
