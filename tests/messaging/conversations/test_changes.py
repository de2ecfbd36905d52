"""A change of a conversation is an entry of its log that counts for nobody and moves nothing."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.messaging.faulty_stores import FaultyNode, answer_lost, down
from tests.support.messaging.two_nodes import connect
from tests.support.waiting import eventually
from tidings import testing
from tidings.errors import StoreUnavailable
from tidings.messaging.conversations.changes import change_draft
from tidings.model import Totals
from tidings.pushes import ConversationUpdated, MessageNew


async def group_of(node: FaultyNode) -> str:
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob"], name="old")
    return view.head.conversation_id


async def test_a_draft_says_what_changed_and_needs_the_right_to_rename(a: FaultyNode) -> None:
    member_list = await a.core.access.authorize("alice", await group_of(a), "rename")
    draft = change_draft(a.core.clock, "alice", member_list, {"name": "new"})
    assert draft.content is not None and draft.content.conversation == {"name": "new"}
    assert draft.change is not None and (draft.change.user_ids, draft.change.role) == (("alice",), "owner")


async def test_a_rename_is_an_entry_that_every_device_gets(a: FaultyNode) -> None:
    group = await group_of(a)
    bob = await connect(a, "bob")
    await a.send("alice", group, "m1")
    before = (await a.core.inbox.page("bob", limit=20, cursor=None)).items[0]
    await a.core.directory.rename("alice", group, name="new")
    await eventually(lambda: any(isinstance(event, ConversationUpdated) for event in bob.events))
    entry = (await a.log(group))[-1]
    assert (entry.seq_no, entry.kind, entry.sender_id) == (2, "conversation", "alice")
    assert entry.content is not None and entry.content.conversation == {"name": "new"}
    await eventually(lambda: [one.entry.seq_no for one in bob.events if isinstance(one, MessageNew)] == [1, 2])
    after = (await a.core.inbox.page("bob", limit=20, cursor=None)).items[0]
    assert after.state == before.state and after.row.name == "new"
    assert after.row.last_message_ts == before.row.last_message_ts and after.row.last_message == before.row.last_message
    assert await a.core.unread.totals("bob") == Totals(1, 1)


async def test_without_its_entry_a_name_does_not_change(a: FaultyNode) -> None:
    group = await group_of(a)
    a.faulty_log.faults.append(down)
    with pytest.raises(StoreUnavailable):
        await a.core.directory.rename("alice", group, name="new")
    assert (await a.core.directory.view("alice", group)).head.name == "old" and await a.log(group) == []
    assert (await a.core.inbox.page("bob", limit=20, cursor=None)).items[0].row.name == "old"


async def test_a_rename_whose_answer_was_lost_is_one_entry(a: FaultyNode) -> None:
    group = await group_of(a)
    a.faulty_log.faults.append(answer_lost)
    assert (await a.core.directory.rename("alice", group, name="new")).head.name == "new"
    assert [entry.kind for entry in await a.log(group)] == ["conversation"]


async def test_a_rename_to_the_same_name_is_an_entry_again(a: FaultyNode) -> None:
    group = await group_of(a)
    await a.core.directory.rename("alice", group, name="old", avatar_url=None)
    (entry,) = await a.log(group)
    assert entry.content is not None and entry.content.conversation == {"name": "old", "avatar_url": None}


async def test_a_name_and_rules_that_change_together_are_one_entry() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        me = {"Authorization": f"Bearer {server.token('alice')}"}
        made = await http.post("/v1/conversations", headers=me, json={"kind": "group", "members": ["bob"]})
        path = f"/v1/conversations/{made.json()['conversation_id']}"
        changed = {"name": "new", "slow_s": 30, "post": "admins"}
        answer = await http.patch(path, headers=me, json=changed)
        assert answer.status_code == 200 and answer.json()["name"] == "new"
        assert answer.json()["rules"] == {"slow_s": 30, "post": "admins"}
        (entry,) = (await http.get(f"{path}/messages", headers=me)).json()["messages"]
        assert (entry["kind"], entry["conversation"]) == ("conversation", changed)


async def test_a_name_that_a_direct_conversation_cannot_have_changes_no_rules_either() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        me = {"Authorization": f"Bearer {server.token('alice')}"}
        made = await http.post("/v1/conversations", headers=me, json={"kind": "direct", "members": ["bob"]})
        path = f"/v1/conversations/{made.json()['conversation_id']}"
        answer = await http.patch(path, headers=me, json={"name": "new", "data": {"color": "red"}})
        assert answer.status_code == 403
        assert (await http.get(f"{path}/messages", headers=me)).json()["messages"] == []


async def test_a_frozen_conversation_can_be_renamed(a: FaultyNode) -> None:
    group = await group_of(a)
    await a.core.rules.change("alice", group, {"frozen": True})
    view = await a.core.directory.rename("alice", group, name="new")
    assert (view.head.name, [entry.kind for entry in await a.log(group)]) == ("new", ["conversation"] * 2)
