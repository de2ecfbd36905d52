"""A row is pushed to those who are connected, wherever they are, and to nobody else."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, down
from tests.support.messaging.two_nodes import connect, telling
from tests.support.waiting import eventually
from tidings.messaging.conversations.announcements import Announcements
from tidings.pushes import ConversationUpdated


@pytest.fixture
def announcements(a: FaultyNode) -> Announcements:
    return Announcements(a.core.inbox, a.core.registry, a.core.router)


async def settled(announcements: Announcements) -> None:
    await eventually(lambda: not len(announcements._tasks))


async def test_a_row_is_pushed_on_every_node_and_cold_counts_come_from_the_tables(
    a: FaultyNode, b: FaultyNode, announcements: Announcements, direct: str
) -> None:
    async with telling(a, b):
        await a.send("alice", direct, "m1")
        here, there = await connect(a, "alice"), await connect(b, "bob")
        rebuilds = a.core.metrics.rebuilds["inbox"].value
        await a.command("DEL", a.core.keys.mark("bob"))
        announcements.announce([("alice", direct), ("bob", direct), ("carol", direct)], ConversationUpdated)
        await eventually(lambda: bool(there.events) and bool(here.events))
        (event,) = [one for one in there.events if isinstance(one, ConversationUpdated)]
        assert (event.item.state.unread_count, event.item.state.total_unread) == (1, None)
        assert a.core.metrics.rebuilds["inbox"].value == rebuilds


async def test_nobody_connected_costs_nothing_and_a_store_that_is_down_drops_it(
    a: FaultyNode, announcements: Announcements, direct: str
) -> None:
    runs = len(a.keyspace.runs)
    announcements.announce([("alice", direct), ("bob", direct)], ConversationUpdated)
    await settled(announcements)
    assert len(a.keyspace.runs) == runs
    alice = await connect(a, "alice")
    a.keyspace.fail("unread_state", down)
    announcements.announce([("alice", direct)], ConversationUpdated)
    await settled(announcements)
    assert alice.events == []
    await announcements.close()
