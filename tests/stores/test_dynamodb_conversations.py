"""Creating and deleting what does not fit one transaction: nobody sees it half done, and anybody can finish it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contracts import conversation, fresh, group, log, message
from tests.dynamodb_local import DynamoLocal
from tests.stores.dynamo import Once, faults
from tidings import bounds
from tidings.errors import Unavailable
from tidings.model import Head, Member, Row, Status
from tidings.stores import dynamodb_conversations
from tidings.stores.dynamodb_calls import Store, put
from tidings.stores.dynamodb_items import attributes, head_key
from tidings.stores.tables_dynamodb import DynamoTables

LARGE = 60  # members: 121 rows, more than a transaction takes


def large(conversation_id: str, created_ms: int = 1) -> tuple[Head, list[Member], list[Row]]:
    users = [f"user{number:02}" for number in range(LARGE)]
    return (
        Head(conversation_id=conversation_id, kind="group", created_ms=created_ms),
        [Member(conversation_id=conversation_id, user_id=user_id) for user_id in users],
        [Row(user_id=user_id, conversation_id=conversation_id, kind="group") for user_id in users],
    )


async def test_a_large_conversation_appears_when_all_of_it_is_there(
    dynamodb: DynamoLocal, dynamo: DynamoTables
) -> None:
    c = fresh("c")
    seen: list[int] = []
    loop = asyncio.get_running_loop()

    def look(action: str, payload: dict[str, Any]) -> str | None:
        if action == "BatchWriteItem":
            asyncio.run_coroutine_threadsafe(_look(), loop)
        return None

    async def _look() -> None:
        if await dynamo.heads([c]):
            seen.append(len(await dynamo.members(c)))

    with faults(dynamodb, look):
        assert await dynamo.create(*large(c)) is True
    assert len(await dynamo.members(c)) == LARGE and all(count == LARGE for count in seen)
    assert len(await dynamo.rows("user59", [c])) == 1
    assert await dynamo.create(*large(c, created_ms=2)) is False
    assert (await dynamo.heads([c]))[c].created_ms == 1


@pytest.mark.parametrize("action", ["PutItem", "BatchWriteItem"])
async def test_a_large_creation_survives_lost_replies(dynamodb: DynamoLocal, dynamo: DynamoTables, action: str) -> None:
    c = fresh("c")
    with faults(dynamodb, Once("lost", action, times=2)):
        assert await dynamo.create(*large(c)) is True
    assert len(await dynamo.members(c)) == LARGE


async def test_of_many_large_creations_at_once_one_wins(dynamo: DynamoTables) -> None:
    c = fresh("c")
    created = await asyncio.gather(*(dynamo.create(*large(c, created_ms=number)) for number in range(4)))
    assert sorted(created) == [False, False, False, True]
    assert (await dynamo.heads([c]))[c].created_ms == created.index(True)


async def test_a_creation_that_was_given_up_is_invisible_and_in_nobodys_way_for_long(
    dynamodb: DynamoLocal, dynamo: DynamoTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = fresh("c")
    monkeypatch.setattr(bounds, "DYNAMODB_DEADLINE_S", 0.2)
    with faults(dynamodb, Once("throttled", "BatchWriteItem", times=1000)), pytest.raises(Unavailable) as said:
        await dynamo.create(*large(c))
    assert said.value.is_ambiguous
    monkeypatch.undo()
    assert await dynamo.heads([c]) == {}
    assert await dynamo.create(*large(c)) is False  # it may still be under way
    over = head_key(c) | attributes(reserved="somebody", expires=5)
    await dynamo.store.write(put("conversation_heads", head_key(c), over))
    assert await dynamo.create(*large(c)) is True


async def test_a_creation_whose_reply_was_lost_was_still_ours(dynamodb: DynamoLocal, dynamo: DynamoTables) -> None:
    c = fresh("c")
    with faults(dynamodb, Once("lost", "TransactWriteItems")):
        assert await dynamo.create(Head(conversation_id=c, kind="group", created_ms=1), [], []) is True


async def test_a_deletion_that_was_interrupted_is_finished_by_whoever_creates_it_anew(
    dynamodb: DynamoLocal, dynamo: DynamoTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = await conversation(dynamo, "alice", "bob")
    await dynamo.append([group(message(c, 1), message(c, 2))])
    monkeypatch.setattr(bounds, "DYNAMODB_DEADLINE_S", 0.2)
    with faults(dynamodb, Once("throttled", "BatchWriteItem", times=1000)), pytest.raises(Exception):  # noqa: B017
        await dynamo.delete(c)
    monkeypatch.undo()
    assert await dynamo.heads([c]) == {}
    [refused] = await dynamo.append([group(message(c, 3))])
    assert refused is not None and refused.is_gone
    anew = Head(conversation_id=c, kind="group", created_ms=9)
    assert await dynamo.create(anew, [], []) is False  # somebody may still be at it
    monkeypatch.setattr(bounds, "DYNAMODB_DELETING_S", -1)
    assert await dynamo.create(anew, [], []) is True
    assert await log(dynamo, c) == [] and await dynamo.members(c) == []
    assert await dynamo.append([group(message(c, 1))]) == [None]  # its dedupe rows are gone too


async def test_a_deletion_that_was_taken_for_dead_leaves_the_new_conversation_alone(
    dynamo: DynamoTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow one wakes up after another has finished its work and created the conversation anew."""
    c = await conversation(dynamo, "alice")
    await dynamo.append([group(message(c, 1))])
    delete_some = dynamodb_conversations._delete_some

    async def slow(store: Store, conversation_id: str) -> bool:
        monkeypatch.undo()
        monkeypatch.setattr(bounds, "DYNAMODB_DELETING_S", -1)
        found = await delete_some(store, conversation_id)
        assert await dynamo.create(Head(conversation_id=c, kind="group", created_ms=9), [], [])
        return found

    monkeypatch.setattr(dynamodb_conversations, "_delete_some", slow)
    await dynamo.delete(c)
    assert [head.created_ms for head in (await dynamo.heads([c])).values()] == [9]
    assert await dynamo.append([group(message(c, 1))]) == [None]


async def test_a_long_log_is_deleted_in_pieces(
    dynamo: DynamoTables, dynamodb: DynamoLocal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.stores.dynamodb_conversations._LOG_CHUNK", 20)
    c = await conversation(dynamo, "alice")
    for first in (1, 41):
        await dynamo.append([group(*(message(c, seq_no) for seq_no in range(first, first + 40)))])
    await dynamo.put(Status(conversation_id=c, user_id="alice", version=1))
    dynamodb.shim.asked.clear()
    await dynamo.delete(c)
    assert dynamodb.shim.asked["Query"] >= 5
    assert await log(dynamo, c) == [] and await dynamo.of_conversation(c) == []
