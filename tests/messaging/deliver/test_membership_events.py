"""Who came and went is told so, and nothing of a conversation comes before the news that it is there."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import Device, FaultyNode, Gate, down
from tests.support.messaging.two_nodes import connect, member_list_of, telling
from tests.support.waiting import eventually
from tidings.messaging.deliver import membership_events as events
from tidings.messaging.deliver.membership_events import MembershipEvents
from tidings.pushes import ConversationAdded, ConversationRemoved, MessageNew


@pytest.fixture
def membership_events(a: FaultyNode) -> MembershipEvents:
    return MembershipEvents(a.core.inbox, a.core.hub, a.core.router)


async def lane_has_spoken(node: FaultyNode) -> None:
    await eventually(lambda: not node.core.deliver._tasks and not node.core.router._sending)


def words(device: Device) -> list[type[object]]:
    return [type(event) for event in device.events if isinstance(event, ConversationAdded | ConversationRemoved)]


def kinds(device: Device) -> list[type[object]]:
    found = (ConversationAdded, ConversationRemoved, MessageNew)
    return [type(event) for event in device.events if isinstance(event, found)]


async def test_removals_that_are_found_in_the_log_are_told_as_they_stand_now(
    a: FaultyNode, membership_events: MembershipEvents, group: str
) -> None:
    await a.core.directory.remove("alice", group, "bob")
    await a.core.directory.remove("alice", group, "carol")
    await a.core.directory.add("alice", group, ["carol", "dave"])
    await lane_has_spoken(a)
    bob, carol, alice = await connect(a, "bob"), await connect(a, "carol"), await connect(a, "alice")
    changes = [entry for entry in await a.log(group) if entry.member is not None]
    assert len(changes) == 3
    membership_events.push_found(changes, await member_list_of(a, group))
    assert words(bob) == [ConversationRemoved]
    assert words(carol) == [] and words(alice) == [], "she is back: that she was gone is over"


async def test_no_entry_comes_before_the_news_that_the_conversation_is_there(a: FaultyNode, group: str) -> None:
    gate, dave = Gate(), await connect(a, "dave")
    await a.unread("dave")
    a.keyspace.fail("unread_state", gate)
    await a.core.directory.add("alice", group, ["dave"])
    await gate.reached.wait()
    await a.send("alice", group, "m1")
    await a.send("alice", group, "m2")
    assert kinds(dave) == []
    gate.opened.set()
    await lane_has_spoken(a)
    assert kinds(dave) == [ConversationAdded, MessageNew, MessageNew] and dave.seqs() == [2, 3]


async def test_the_news_comes_first_on_another_node_too(a: FaultyNode, b: FaultyNode, group: str) -> None:
    async with telling(a, b):
        dave = await connect(b, "dave")
        await a.core.directory.add("alice", group, ["dave"])
        await a.send("alice", group, "m1")
        await eventually(lambda: dave.seqs() == [2])
        assert kinds(dave) == [ConversationAdded, MessageNew]


async def test_a_row_that_cannot_be_read_now_delays_the_news_and_what_follows(a: FaultyNode, group: str) -> None:
    dave = await connect(a, "dave")
    await a.unread("dave")
    a.keyspace.fail("unread_state", down, down)
    await a.core.directory.add("alice", group, ["dave"])
    await a.send("alice", group, "m1")
    await lane_has_spoken(a)
    assert kinds(dave) == [ConversationAdded, MessageNew]


async def test_entries_come_although_the_row_cannot_be_read(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_TRIES_MAX", 2)
    dave = await connect(a, "dave")
    await a.unread("dave")
    a.keyspace.fail("unread_state", down, down)
    await a.core.directory.add("alice", group, ["dave"])
    await a.send("alice", group, "m1")
    await lane_has_spoken(a)
    assert kinds(dave) == [MessageNew]


async def test_a_user_who_is_removed_again_gets_nothing_that_waited(a: FaultyNode, group: str) -> None:
    gate, dave = Gate(), await connect(a, "dave")
    await a.unread("dave")
    a.keyspace.fail("unread_state", gate)
    await a.core.directory.add("alice", group, ["dave"])
    await gate.reached.wait()
    await a.send("alice", group, "m1")
    await a.core.directory.remove("alice", group, "dave")
    gate.opened.set()
    await lane_has_spoken(a)
    assert kinds(dave) == [ConversationRemoved]
