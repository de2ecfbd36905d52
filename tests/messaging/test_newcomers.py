"""Who came and went is told so: everywhere by the node that changed it, here by a node that finds it in the log."""

from __future__ import annotations

import pytest

from tests.messaging.delivering import connect
from tests.messaging.faulty import Device, FaultyNode, down
from tests.messaging.test_deliver import roster_of
from tests.valkey import eventually
from tidings.messaging.newcomers import Newcomers
from tidings.model import ConversationAdded, ConversationRemoved


@pytest.fixture
def newcomers(a: FaultyNode) -> Newcomers:
    return Newcomers(a.core.inbox, a.core.hub, a.core.router)


async def lane_has_spoken(node: FaultyNode) -> None:
    await eventually(lambda: not node.core.deliver._tasks and not node.core.router._sending)


def words(device: Device) -> list[type[object]]:
    return [type(event) for event in device.events if isinstance(event, ConversationAdded | ConversationRemoved)]


async def test_what_is_found_in_the_log_is_told_as_it_stands_now(
    a: FaultyNode, newcomers: Newcomers, group: str
) -> None:
    await a.core.directory.remove("alice", group, "bob")
    await a.core.directory.remove("alice", group, "carol")
    await a.core.directory.add("alice", group, ["carol", "dave"])
    await lane_has_spoken(a)
    bob, carol, alice = await connect(a, "bob"), await connect(a, "carol"), await connect(a, "alice")
    changes = [entry for entry in await a.log(group) if entry.member is not None]
    assert len(changes) == 3
    await newcomers.tell_found(changes, await roster_of(a, group))
    assert words(bob) == [ConversationRemoved]
    assert words(carol) == [ConversationAdded], "she is back: that she was gone is over"
    assert words(alice) == [] and not a.core.hub.of_user("dave")


async def test_a_word_that_cannot_be_said_now_is_left_out(a: FaultyNode, newcomers: Newcomers, group: str) -> None:
    await a.core.directory.add("alice", group, ["dave"])
    await lane_has_spoken(a)
    dave = await connect(a, "dave")
    (change,) = [entry for entry in await a.log(group) if entry.member is not None]
    roster = await roster_of(a, group)
    a.keyspace.fail("unread_state", down)
    await newcomers.tell_found([change], roster)
    assert words(dave) == []
    await newcomers.tell_found([change], roster)
    assert words(dave) == [ConversationAdded]
