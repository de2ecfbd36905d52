"""Creating and deleting what does not fit one transaction: nobody sees it half done, and anybody can finish it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contracts import conversation, fresh, group, log, message
from tests.contracts.conversations import rename
from tests.support.servers.dynamodb_tables import Once, faults, never_try_again, store_of
from tidings.errors import Unavailable
from tidings.model import Head, Member, Row, Status
from tidings.stores.tables.dynamodb import conversations as dynamodb_conversations
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.items import attributes, head_key
from tidings.stores.tables.dynamodb.client.operations import Store, put
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Refused
from tidings_proof.world.dynamodb import DynamoLocal

LARGE = 60  # members: 121 rows, more than a transaction takes


def large(conversation_id: str, created_ms: int = 1) -> tuple[Head, list[Member], list[Row]]:
    users = [f"user{number:02}" for number in range(LARGE)]
    return (
        Head(conversation_id=conversation_id, kind="group", created_ms=created_ms),
        [Member(conversation_id=conversation_id, user_id=user_id) for user_id in users],
        [Row(user_id=user_id, conversation_id=conversation_id, kind="group") for user_id in users],
    )


async def test_a_large_conversation_appears_when_all_of_it_is_there(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = fresh("c")
    seen: list[int] = []
    loop = asyncio.get_running_loop()

    def look(action: str, payload: dict[str, Any]) -> str | None:
        if action == "BatchWriteItem":
            asyncio.run_coroutine_threadsafe(_look(), loop)
        return None

    async def _look() -> None:
        if await dynamo.conversations.heads([c]):
            seen.append(len(await dynamo.conversations.members(c)))

    with faults(dynamodb, look):
        assert await dynamo.conversations.create(*large(c)) is True
    assert len(await dynamo.conversations.members(c)) == LARGE and all(count == LARGE for count in seen)
    assert len(await dynamo.inboxes.rows("user59", [c])) == 1
    assert await dynamo.conversations.create(*large(c, created_ms=2)) is False
    assert (await dynamo.conversations.heads([c]))[c].created_ms == 1


@pytest.mark.parametrize("action", ["PutItem", "BatchWriteItem"])
async def test_a_large_creation_survives_lost_replies(dynamodb: DynamoLocal, dynamo: Tables, action: str) -> None:
    c = fresh("c")
    with faults(dynamodb, Once("lost", action, times=2)):
        assert await dynamo.conversations.create(*large(c)) is True
    assert len(await dynamo.conversations.members(c)) == LARGE


async def test_of_many_large_creations_at_once_one_wins(dynamo: Tables) -> None:
    c = fresh("c")
    created = await asyncio.gather(*(dynamo.conversations.create(*large(c, created_ms=number)) for number in range(4)))
    assert sorted(created) == [False, False, False, True]
    assert (await dynamo.conversations.heads([c]))[c].created_ms == created.index(True)


async def test_a_creation_that_was_given_up_is_invisible_and_in_nobodys_way_for_long(
    dynamodb: DynamoLocal, dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = fresh("c")
    never_try_again(monkeypatch)
    with faults(dynamodb, Once("throttled", "BatchWriteItem", times=1000)), pytest.raises(Unavailable) as said:
        await dynamo.conversations.create(*large(c))
    assert said.value.is_ambiguous
    monkeypatch.undo()
    assert await dynamo.conversations.heads([c]) == {}
    assert await dynamo.conversations.create(*large(c)) is False  # it may still be under way
    over = head_key(c) | attributes(reserved="somebody", expires=5)
    await store_of(dynamo).write(put("conversation_heads", head_key(c), over))
    assert await dynamo.conversations.create(*large(c)) is True


async def test_a_creation_whose_reply_was_lost_was_still_ours(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = fresh("c")
    with faults(dynamodb, Once("lost", "TransactWriteItems")):
        assert await dynamo.conversations.create(Head(conversation_id=c, kind="group", created_ms=1), [], []) is True


async def test_a_deletion_that_was_interrupted_is_finished_by_whoever_creates_it_anew(
    dynamodb: DynamoLocal, dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = await conversation(dynamo, "alice", "bob")
    await dynamo.log.append([group(message(c, 1), message(c, 2))])
    never_try_again(monkeypatch)
    with faults(dynamodb, Once("throttled", "BatchWriteItem", times=1000)), pytest.raises(Exception):  # noqa: B017
        await dynamo.conversations.delete(c)
    monkeypatch.undo()
    assert await dynamo.conversations.heads([c]) == {}
    [refused] = await dynamo.log.append([group(message(c, 3))])
    assert isinstance(refused, Refused) and refused.is_gone
    anew = Head(conversation_id=c, kind="group", created_ms=9)
    assert await dynamo.conversations.create(anew, [], []) is False  # somebody may still be at it
    monkeypatch.setattr(bounds, "DELETING_S", -1)
    assert await dynamo.conversations.create(anew, [], []) is True
    assert await log(dynamo, c) == [] and await dynamo.conversations.members(c) == []
    assert await dynamo.log.append([group(message(c, 1))]) == [None]  # its dedupe rows are gone too


@pytest.mark.parametrize("rest", [{"deleting_ms": 5}, {"reserved": "somebody", "expires": 5}])
async def test_of_two_who_find_what_is_left_over_the_slow_one_leaves_the_new_conversation_alone(
    dynamodb: DynamoLocal, dynamo: Tables, monkeypatch: pytest.MonkeyPatch, rest: dict[str, Any]
) -> None:
    c = fresh("c")
    await store_of(dynamo).write(put("conversation_heads", head_key(c), head_key(c) | attributes(**rest)))
    monkeypatch.setattr(bounds, "DEADLINE_S", 60.0)
    loop, created, slow = asyncio.get_running_loop(), asyncio.Event(), list[str]()

    async def create_first() -> None:
        assert await dynamo.conversations.create(Head(conversation_id=c, kind="group", created_ms=1), [], [])
        assert await dynamo.log.append([group(message(c, 1))]) == [None]
        created.set()

    def hold_up_the_first(action: str, payload: dict[str, Any]) -> str | None:
        if action != "TransactWriteItems" or "deleting_ms" not in str(payload):
            return None
        if not slow:
            slow.append(payload["ClientRequestToken"])
            asyncio.run_coroutine_threadsafe(create_first(), loop)
        return "throttled" if payload["ClientRequestToken"] in slow and not created.is_set() else None

    with faults(dynamodb, hold_up_the_first):
        assert not await dynamo.conversations.create(Head(conversation_id=c, kind="group", created_ms=2), [], [])
    assert created.is_set()
    assert (await dynamo.conversations.heads([c]))[c].created_ms == 1
    assert await log(dynamo, c) == [message(c, 1)]


async def test_rows_that_are_renamed_late_get_the_later_name(
    dynamodb: DynamoLocal, dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = await conversation(dynamo, "alice")
    monkeypatch.setattr(bounds, "DEADLINE_S", 60.0)
    loop, renamed, begun = asyncio.get_running_loop(), asyncio.Event(), list[str]()

    async def rename_again() -> None:
        await rename(dynamo, c, 2, name="second")
        renamed.set()

    def hold_up_the_first(action: str, payload: dict[str, Any]) -> str | None:
        if action != "UpdateItem" or "first" not in str(payload) or renamed.is_set():
            return None
        if not begun:
            begun.append(action)
            asyncio.run_coroutine_threadsafe(rename_again(), loop)
        return "throttled"

    with faults(dynamodb, hold_up_the_first):
        await rename(dynamo, c, 1, name="first")
    assert renamed.is_set()
    assert (await dynamo.inboxes.rows("alice", [c]))[c].name == "second"


async def test_a_deletion_that_was_taken_for_dead_leaves_the_new_conversation_alone(
    dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow one wakes up after another has finished its work and created the conversation anew."""
    c = await conversation(dynamo, "alice")
    await dynamo.log.append([group(message(c, 1))])
    delete_some = dynamodb_conversations.delete_some

    async def slow(store: Store, conversation_id: str) -> bool:
        monkeypatch.undo()
        monkeypatch.setattr(bounds, "DELETING_S", -1)
        found = await delete_some(store, conversation_id)
        assert await dynamo.conversations.create(Head(conversation_id=c, kind="group", created_ms=9), [], [])
        return found

    monkeypatch.setattr(dynamodb_conversations, "delete_some", slow)
    await dynamo.conversations.delete(c)
    assert [head.created_ms for head in (await dynamo.conversations.heads([c])).values()] == [9]
    assert await dynamo.log.append([group(message(c, 1))]) == [None]


async def test_a_long_log_is_deleted_in_pieces(
    dynamo: Tables, dynamodb: DynamoLocal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.stores.tables.dynamodb.conversations._LOG_CHUNK", 20)
    c = await conversation(dynamo, "alice")
    for first in (1, 41):
        await dynamo.log.append([group(*(message(c, seq_no) for seq_no in range(first, first + 40)))])
    await dynamo.statuses.put(Status(conversation_id=c, user_id="alice", version=1))
    dynamodb.shim.asked.clear()
    await dynamo.conversations.delete(c)
    assert dynamodb.shim.asked["Query"] >= 5
    assert await log(dynamo, c) == [] and await dynamo.statuses.of_conversation(c) == []
