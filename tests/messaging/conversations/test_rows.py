from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, down
from tests.support.messaging.two_nodes import connect
from tests.support.waiting import eventually
from tidings.errors import Unavailable
from tidings.pushes import ConversationAdded
from tidings.stores.keyspace.call import SLICE_STEPS


async def test_whoever_is_connected_is_told_of_a_new_row(a: FaultyNode) -> None:
    bob = await connect(a, "bob")
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], name="Crew")
    await eventually(lambda: bool(bob.events))
    ids = [event.item.row.conversation_id for event in bob.events if isinstance(event, ConversationAdded)]
    assert ids == [view.head.conversation_id]


async def test_without_a_marker_nothing_is_made(a: FaultyNode) -> None:
    a.keyspace.fail("unread_put", down)
    with pytest.raises(Unavailable):
        await a.core.directory.create("alice", kind="group", members=["bob"], name="Crew")
    assert await a.tables.inboxes.scan("bob", after_id="", limit=10) == []


async def test_the_inboxes_of_a_big_group_are_entered_in_slices(a: FaultyNode) -> None:
    people = [f"user{number}" for number in range(300)]
    a.keyspace.runs.clear()
    await a.core.directory.create("alice", kind="group", members=people, name="Crew")
    runs = [[name for name in run if name in ("inbox_join", "unread_put")] for run in a.keyspace.runs]
    assert sum(map(len, runs)) == 3 * 301  # a marker, a row, and the marker removed
    assert max(map(len, runs)) <= SLICE_STEPS // 8  # each of these calls has more words than that
    assert await a.unread("user7") == 0 and await a.wrong() == []
