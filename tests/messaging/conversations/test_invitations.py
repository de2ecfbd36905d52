"""Requests and invitations: shown, uncounted, and one's own to accept or to make go away."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tests.support.messaging.two_nodes import connect
from tests.support.waiting import eventually
from tidings.errors import NotFound
from tidings.model import InboxItem, User
from tidings.pushes import ConversationAdded, ConversationRemoved, Presence
from tidings.stores.tables.values import Preferences


async def items(node: FaultyNode, user_id: str) -> list[InboxItem]:
    return (await node.core.inbox.page(user_id, limit=100, cursor=None)).items


@pytest.fixture
async def request_(a: FaultyNode) -> str:
    """mallory wrote to bob, who wants no strangers."""
    await a.core.tables.accounts.put_user(User(user_id="mallory", name="M", avatar_url="https://example.com/m.png"))
    await a.core.consent.put_preferences("bob", Preferences(who_may_write="shared"))
    view, _ = await a.core.directory.create("mallory", kind="direct", members=["bob"])
    await a.unread("bob")
    for n in range(2):
        await a.send("mallory", view.head.conversation_id, f"m{n}")
    return view.head.conversation_id


async def test_a_stranger_s_message_is_a_request_shown_without_a_picture_and_uncounted(
    a: FaultyNode, request_: str
) -> None:
    (item,) = await items(a, "bob")
    assert item.row.is_requested and (item.row.name, item.row.avatar_url) == ("M", None)
    assert item.state.unread_count == 0 and await a.unread("bob") == 0
    await a.core.verify.reset("bob")
    assert await a.unread("bob") == 0 and await a.wrong() == []


async def test_a_request_shows_the_stranger_nothing(a: FaultyNode, request_: str) -> None:
    await connect(a, "bob")
    assert await a.core.live_status.presence("mallory", request_, []) == [Presence("bob", False, None)]
    assert await a.core.directory.profiles("mallory", request_, ["bob"]) == []
    mallory = await connect(a, "mallory")
    await a.core.unread.mark_read("bob", request_, up_to_seq=2)
    await a.core.receipts.flush()
    assert mallory.events == []


async def test_a_stranger_sees_the_name_only_when_the_request_is_accepted(a: FaultyNode, request_: str) -> None:
    await a.core.directory.introduce(User(user_id="bob", name="Bob Real Name"))
    assert [item.row.name for item in await items(a, "mallory")] == ["bob"]
    await a.core.directory.accept("bob", request_)
    assert [item.row.name for item in await items(a, "mallory")] == ["Bob Real Name"]


async def test_an_accepted_request_is_a_conversation_like_any_other(a: FaultyNode, request_: str) -> None:
    view = await a.core.directory.accept("bob", request_)
    assert not any(member.is_requested for member in view.members)
    assert await a.unread("bob") == 2 and await a.wrong() == []
    assert not (await items(a, "bob"))[0].row.is_requested
    assert await a.core.directory.accept("bob", request_) is not None, "twice is no error"
    assert [user.user_id for user in await a.core.directory.profiles("mallory", request_, ["bob"])] == ["bob"]


async def test_an_answer_accepts_and_keeps_its_order(a: FaultyNode, b: FaultyNode, request_: str) -> None:
    await b.core.access.load(request_)
    answers = [b.submit("bob", request_, f"r{n}") for n in range(3)]
    assert [(await one).__class__.__name__ for one in answers] == ["Sent"] * 3
    kinds = [(entry.kind, entry.message_id) for entry in (await a.log(request_))[2:]]
    assert [name for kind, name in kinds if kind == "message"] == ["r0", "r1", "r2"]
    assert kinds[0][0] == "member"
    assert await a.unread("mallory") == 3 and await a.unread("bob") == 2
    assert await a.wrong() == []


async def test_a_direct_conversation_can_be_hidden_until_the_other_writes_again(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    assert await a.unread("bob") == 1
    bob = await connect(a, "bob")
    await a.core.directory.remove("bob", direct, "bob")
    assert bob.events[-1] == ConversationRemoved(direct)
    assert (await items(a, "bob"), await a.unread("bob")) == ([], 0)
    await a.core.verify.reset("bob")
    assert await items(a, "bob") == [] and await a.wrong() == []
    await a.send("alice", direct, "m2")
    assert [item.row.conversation_id for item in await items(a, "bob")] == [direct]
    assert await a.wrong() == []


async def test_with_a_block_it_stays_hidden_for_good(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.core.blocks.block("bob", "alice")
    await a.core.directory.remove("bob", direct, "bob")
    assert await a.code("alice", direct, "m2") == "forbidden"
    assert await items(a, "bob") == [] and await a.wrong() == []


@pytest.fixture
async def invitation(a: FaultyNode) -> str:
    """alice named bob, who wants to be asked; carol came in."""
    await a.core.consent.put_preferences("bob", Preferences(who_may_add="nobody"))
    await a.unread("bob")
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob", "carol"], name="Crew")
    assert [member.user_id for member in view.members] == ["alice", "carol"]
    return view.head.conversation_id


async def test_an_invited_user_sees_the_name_and_nothing_that_was_written(a: FaultyNode, invitation: str) -> None:
    await a.send("alice", invitation, "m1", "a secret of members")
    (item,) = await items(a, "bob")
    assert item.row.is_invited and (item.row.name, item.row.last_message_preview) == ("Crew", None)
    assert await a.unread("bob") == 0
    for ask in (a.core.history.page("bob", invitation), a.core.directory.view("bob", invitation)):
        with pytest.raises(NotFound):
            await ask
    assert await a.code("bob", invitation, "b1") == "not_found"
    await a.core.verify.reset("bob")
    assert [one.row.is_invited for one in await items(a, "bob")] == [True]
    assert await a.wrong() == []


async def test_an_accepted_invitation_is_a_membership(a: FaultyNode, invitation: str) -> None:
    view = await a.core.directory.accept("bob", invitation)
    assert "bob" in [member.user_id for member in view.members]
    await a.send("alice", invitation, "m1")
    assert await a.unread("bob") == 1 and not (await items(a, "bob"))[0].row.is_invited
    assert await a.wrong() == []


async def test_only_the_invited_user_can_accept(a: FaultyNode, invitation: str) -> None:
    with pytest.raises(NotFound):
        await a.core.directory.accept("stranger", invitation)


async def test_a_declined_invitation_is_gone(a: FaultyNode, invitation: str) -> None:
    await a.core.directory.remove("bob", invitation, "bob")
    assert await items(a, "bob") == []
    with pytest.raises(NotFound):
        await a.core.directory.accept("bob", invitation)
    assert await a.wrong() == []


async def test_who_left_a_group_comes_back_only_by_accepting(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    await a.core.directory.remove("bob", group, "bob")
    bob.events.clear()
    view = await a.core.directory.add("alice", group, ["bob"])
    assert "bob" not in [member.user_id for member in view.members]
    await eventually(lambda: any(isinstance(event, ConversationAdded) for event in bob.events))
    assert [event.item.row.is_invited for event in bob.events if isinstance(event, ConversationAdded)] == [True]
    await a.core.directory.accept("bob", group)
    assert await a.wrong() == []


async def test_who_left_and_declined_to_come_back_is_still_asked(a: FaultyNode, group: str) -> None:
    await a.core.directory.remove("bob", group, "bob")
    for _ in range(2):
        view = await a.core.directory.add("alice", group, ["bob"])
        assert "bob" not in {member.user_id for member in view.members}
        assert [item.row.is_invited for item in await items(a, "bob")] == [True]
        await a.core.directory.remove("bob", group, "bob")
        assert await items(a, "bob") == []


async def test_who_was_removed_can_be_added_again_at_once(a: FaultyNode, group: str) -> None:
    await a.core.directory.remove("alice", group, "bob")
    view = await a.core.directory.add("alice", group, ["bob"])
    assert "bob" in [member.user_id for member in view.members]
