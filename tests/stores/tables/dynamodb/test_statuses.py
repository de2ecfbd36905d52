"""Statuses when replies are lost and receipts come in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contracts import conversation, group, message
from tests.contracts.statuses import status
from tests.support.servers.dynamodb_tables import Counts, Once, faults
from tidings.errors import Conflict
from tidings.model import Member
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal


async def test_a_put_whose_reply_was_lost_is_no_conflict(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    for version in (1, 2):
        with faults(dynamodb, Once("lost", "PutItem")):
            stored = await dynamo.statuses.put(status(c, version=version, cursor_seq=version))
        assert stored == status(c, version=version, cursor_seq=version)
    with faults(dynamodb, Once("lost", "PutItem")), pytest.raises(Conflict):
        await dynamo.statuses.put(status(c, version=2, cursor_seq=9))


async def test_a_mark_that_moved_before_the_reply_was_lost_is_told_as_moved(
    dynamodb: DynamoLocal, dynamo: Tables
) -> None:
    c = await conversation(dynamo, "alice")
    for seq_no, action in ((2, "TransactWriteItems"), (3, "UpdateItem")):
        with faults(dynamodb, Once("lost", action)):
            assert await dynamo.statuses.deliver([(c, "alice", seq_no)]) == {(c, "alice")}
    assert await dynamo.statuses.deliver([(c, "alice", 3)]) == set()


async def test_a_receipt_between_read_and_put_is_taken_over(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    await dynamo.statuses.put(status(c, version=1, delivered_seq=2))
    await dynamo.statuses.deliver([(c, "alice", 7)])
    dynamodb.shim.asked.clear()
    assert (await dynamo.statuses.put(status(c, version=2, delivered_seq=3, read_seq=3))).delivered_seq == 7
    assert dynamodb.shim.asked["PutItem"] == 2


async def test_a_put_that_knows_the_row_is_one_write_beside_that_of_the_inbox_row(
    dynamodb: DynamoLocal, dynamo: Tables
) -> None:
    c = await conversation(dynamo, "alice")
    dynamodb.shim.asked.clear()
    await dynamo.statuses.put(status(c, version=1, read_seq=1))
    await dynamo.statuses.put(status(c, version=2, read_seq=2))
    assert dynamodb.shim.asked == {"PutItem": 2, "UpdateItem": 2}


async def test_a_receipt_is_one_write_once_there_is_a_status(
    dynamodb: DynamoLocal, dynamo: Tables, counts: Counts
) -> None:
    c = await conversation(dynamo, "alice")
    await dynamo.statuses.deliver([(c, "alice", 1)])
    counts.clear()
    dynamodb.shim.asked.clear()
    await dynamo.statuses.deliver([(c, "alice", 2)])
    assert dynamodb.shim.asked == {"UpdateItem": 1} and counts.units == {"read": 0, "write": 1}


async def test_receipts_of_a_new_member_that_race_leave_the_highest(dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    await asyncio.gather(*(dynamo.statuses.deliver([(c, "alice", seq)]) for seq in (3, 9, 1, 7)))
    assert (await dynamo.statuses.of_conversation(c))[0].delivered_seq == 9


async def test_who_leaves_while_a_receipt_is_under_way_gets_no_status(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice", "bob")
    left = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def leave() -> None:
        bob = Member(conversation_id=c, user_id="bob", left_seq=1)
        await dynamo.log.append([group(message(c, 1), members=(bob,))])
        left.set()

    def leave_first(action: str, payload: dict[str, Any]) -> str | None:
        if action == "TransactWriteItems" and "message_status" in str(payload) and not left.is_set():
            asyncio.run_coroutine_threadsafe(leave(), loop)
            return "throttled"
        return None

    with faults(dynamodb, leave_first):
        await dynamo.statuses.deliver([(c, "bob", 1)])
        await left.wait()
    assert await dynamo.statuses.of_conversation(c) == []
