"""Edits, deletes and member changes: what they see and what they write are one."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.contracts import START_MS, conversation, fresh, group, head_of, log, message, void
from tests.contracts.messages import edit
from tests.support.servers.dynamodb_tables import Once, faults, store_of
from tidings import bounds
from tidings.model import Entry, Member, MemberChange, Row
from tidings.stores.tables.dynamodb.append.heads import raise_head, raised_by
from tidings.stores.tables.dynamodb.client.items import head_key
from tidings.stores.tables.dynamodb.client.operations import Op, assign, update
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Refused
from tidings_proof.world.dynamodb import DynamoLocal


async def test_a_deleted_text_does_not_come_back_by_a_late_raise_of_the_head(dynamo: Tables) -> None:
    """The message is in the log, its head is not raised yet, and somebody is faster to delete it."""
    c = await conversation(dynamo, "alice")
    first, secret = message(c, 1, "one"), message(c, 2, "a secret")
    await dynamo.log.append([group(first), group(secret)])
    late = raised_by([secret])
    await store_of(dynamo).write(_set_back(c))
    assert await dynamo.log.append([edit(c, 3, secret, None)]) == [None]
    await raise_head(store_of(dynamo), c, late)
    head = await head_of(dynamo, c)
    assert (head.head, head.last_seq, head.preview) == (3, 2, None)


def _set_back(conversation_id: str) -> Op:
    change, held = assign({"head": 1, "last_seq": 1, "last_ms": START_MS + 1, "preview": "one"})
    return update("conversation_heads", head_key(conversation_id), change, held)


async def test_an_edit_meets_a_stream_of_messages_and_both_get_through(dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    target = message(c, 1, "old")
    await dynamo.log.append([group(target)])
    sends = [dynamo.log.append([group(message(c, seq_no))]) for seq_no in range(3, 23)]
    verdicts = await asyncio.gather(dynamo.log.append([edit(c, 2, target, "new")]), *sends)
    assert verdicts == [[None]] * 21
    head = await head_of(dynamo, c)
    assert (head.head, head.last_seq, head.preview) == (22, 22, "hello")
    assert (await log(dynamo, c))[0].text == "new"


@pytest.mark.parametrize("kind", ["lost", "error", "conflict", "throttling"])
async def test_an_edit_is_done_once_whatever_becomes_of_its_reply(
    dynamodb: DynamoLocal, dynamo: Tables, kind: str
) -> None:
    c = await conversation(dynamo, "alice")
    target = message(c, 1, "old")
    await dynamo.log.append([group(target)])
    with faults(dynamodb, Once(kind, "TransactWriteItems")):
        assert await dynamo.log.append([edit(c, 2, target, "new")]) == [None]
    assert [(entry.text, entry.rev) for entry in await log(dynamo, c)] == [("new", 1), ("new", 0)]


async def test_the_largest_member_change_is_one_commit(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    users = [fresh("user") for _ in range(bounds.MEMBER_CHANGE_USERS_MAX)]
    change = MemberChange("added", tuple(users), "member")
    entry = Entry(
        conversation_id=c,
        seq_no=1,
        kind="member",
        sent_ms=START_MS,
        sender_id="alice",
        message_id="m1",
        member=change,
    )
    members = tuple(Member(conversation_id=c, user_id=user_id, joined_seq=1) for user_id in users)
    rows = tuple(Row(user_id=user_id, conversation_id=c, kind="group", joined_seq=1) for user_id in users)
    dynamodb.shim.asked.clear()
    assert await dynamo.log.append([group(entry, void(c, 2), members=members, rows_added=rows)]) == [None]
    assert dynamodb.shim.asked["TransactWriteItems"] == 1
    assert len(await dynamo.conversations.members(c)) == len(users) + 1
    assert (await head_of(dynamo, c)).members_seq == 1
    assert len(await dynamo.inboxes.rows(users[-1], [c])) == 1


async def test_rows_that_only_come_or_go_need_the_conversation(dynamo: Tables) -> None:
    c = fresh("c")
    row = Row(user_id="alice", conversation_id=c, kind="group")
    [refused] = await dynamo.log.append([group(message(c, 1), rows_added=(row,))])
    assert isinstance(refused, Refused) and refused.is_gone
    assert await dynamo.inboxes.rows("alice", [c]) == {}


async def test_an_entry_without_an_id_is_never_taken_for_ours(dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    nameless = msgspec.structs.replace(message(c, 1), message_id=None)
    alice = Member(conversation_id=c, user_id="alice")
    assert await dynamo.log.append([group(nameless, members=(alice,))]) == [None]
    [refused] = await dynamo.log.append([group(nameless, members=(alice,))])
    assert refused == Refused({}, frozenset({0}))
