"""The counts of many members are read in few round trips, and are those that each member alone is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, Gate
from tests.support.messaging.two_nodes import connect, shown
from tests.support.waiting import eventually
from tidings.config.settings import Settings
from tidings.messaging.unread.states import States
from tidings.model import Content, ReadState

NAMES = [f"user{number}" for number in range(30)]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, members_large=3)


async def crowd(node: FaultyNode, names: Sequence[str] = NAMES) -> str:
    """A large conversation with two messages of alice. All members have looked."""
    view, _ = await node.core.directory.create("alice", kind="channel", members=list(names), name="crowd")
    conversation_id = view.head.conversation_id
    for number in range(2):
        await node.send("alice", conversation_id, f"m{number}")
    for user_id in names:
        await node.unread(user_id)
    return conversation_id


async def states(node: FaultyNode, conversation_id: str) -> dict[str, ReadState]:
    return await States(node.core.unread, node.core.unread.large).read(NAMES, conversation_id)


async def alone(node: FaultyNode, conversation_id: str) -> dict[str, ReadState]:
    return {user_id: await node.core.unread.state(user_id, conversation_id) for user_id in NAMES}


async def test_each_member_gets_the_counts_that_the_member_alone_is_shown(a: FaultyNode) -> None:
    conversation_id = await crowd(a)
    await crowd(a, NAMES[:10])  # some have another large conversation
    await a.core.sends.send("user1", conversation_id, "m3", Content("hi", mentions=("user2", "user3")))
    await a.core.unread.mark_read("user4", conversation_id, up_to_seq=2)
    await a.core.unread.mark_read("user5", conversation_id, seqs=[1])
    await a.core.blocks.block("user6", "alice")
    assert await a.unread("user6") == 1  # a block made the counts cold
    found = await states(a, conversation_id)
    assert found == await alone(a, conversation_id)
    counts = [found[f"user{number}"].unread_count for number in range(8)]
    assert counts == [3, 2, 3, 3, 1, 2, 1, 3]
    assert (found["user2"].mention_count, found["user2"].total_unread) == (1, 5)


async def test_members_who_are_cold_or_have_left_are_left_out(a: FaultyNode) -> None:
    conversation_id = await crowd(a)
    await a.command("DEL", a.core.keys.mark("user1"))
    await a.core.directory.remove("alice", conversation_id, "user2")
    assert list(await states(a, conversation_id)) == [name for name in NAMES if name not in ("user1", "user2")]


async def test_nobody_waits_for_the_rebuild_of_a_cold_member_who_gets_the_counts_too(a: FaultyNode) -> None:
    conversation_id = await crowd(a)
    devices = [await connect(a, user_id) for user_id in NAMES]
    await a.command("DEL", a.core.keys.mark("user0"))
    gate = Gate()
    a.keyspace.fail("inbox_begin", gate)
    await a.send("alice", conversation_id, "m3")
    await gate.reached.wait()
    await eventually(lambda: all(shown(device)[-1:] == [3] for device in devices[1:]))
    assert 3 not in shown(devices[0])
    gate.opened.set()
    await eventually(lambda: shown(devices[0])[-1:] == [3])


async def test_many_members_cost_as_many_round_trips_as_one(a: FaultyNode) -> None:
    conversation_id = await crowd(a)
    await a.send("alice", conversation_id, "m3")
    a.keyspace.runs.clear()
    await states(a, conversation_id)
    asked = [sorted(set(run)) for run in a.keyspace.runs]
    assert asked == [["unread_state"], ["MGET"], ["tally_count"]]
    assert [len(run) for run in a.keyspace.runs] == [len(NAMES), 1, len(NAMES)]


async def test_counts_that_have_not_changed_are_not_made_again(a: FaultyNode) -> None:
    conversation_id = await crowd(a)
    first = await states(a, conversation_id)
    a.keyspace.runs.clear()
    assert await states(a, conversation_id) == first
    assert [sorted(set(run)) for run in a.keyspace.runs] == [["unread_state"], ["MGET"]]


async def test_a_post_to_many_who_are_connected_reads_their_counts_together(a: FaultyNode) -> None:
    conversation_id = await crowd(a)
    devices = [await connect(a, user_id) for user_id in NAMES]
    a.keyspace.runs.clear()
    await a.send("alice", conversation_id, "m3")
    await eventually(lambda: all(shown(device)[-1:] == [3] for device in devices))
    assert sum("unread_state" in run for run in a.keyspace.runs) == 1
    assert sum("tally_count" in run for run in a.keyspace.runs) == 1
