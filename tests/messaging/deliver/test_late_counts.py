"""Counts that could not go with their entry follow it, and each member shows the right number in the end."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode, Gate
from tests.support.messaging.two_nodes import connect, shown, telling
from tests.support.waiting import eventually
from tidings.pushes import MessageNew


async def test_a_count_that_comes_after_its_entry_is_told_again(a: FaultyNode, b: FaultyNode, group: str) -> None:
    async with telling(a, b):
        bob = await connect(b, "bob")
        await a.send("alice", group, "m1")
        await eventually(lambda: bob.seqs() == [1])
        gate = Gate()
        a.keyspace.fail("inbox_index", gate)
        slow = a.submit("alice", group, "m2")  # stored, and not counted yet
        await gate.reached.wait()
        await b.send("carol", group, "m3")
        await eventually(lambda: bob.seqs() == [1, 2, 3])
        await eventually(lambda: shown(bob)[-1:] == [2])
        gate.opened.set()
        await slow
        await eventually(lambda: shown(bob)[-1:] == [3])
        assert bob.seqs() == [1, 2, 3]


async def test_counts_of_a_cold_member_follow_the_entry(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    await a.send("alice", group, "m1")
    await a.command("DEL", a.core.keys.mark("bob"))
    await a.send("alice", group, "m2")
    assert [(event.unread_count, event.total_unread) for event in bob.events if isinstance(event, MessageNew)] == [
        (1, 1),
        (None, None),
    ]
    await eventually(lambda: shown(bob) == [2])


async def test_a_cold_member_is_rebuilt_once_however_many_entries_come(a: FaultyNode, group: str) -> None:
    await connect(a, "bob")
    gate = Gate()
    a.keyspace.fail("unread_state", gate)
    late_counts = a.core.deliver._late_counts
    late_counts.sync_soon("bob", group)
    await gate.reached.wait()
    late_counts.sync_soon("bob", group)
    assert len(a.core.deliver._tasks) == 1
    gate.opened.set()
    await eventually(lambda: not a.core.deliver._tasks and not late_counts._syncing)
