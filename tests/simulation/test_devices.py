"""Devices of a simulated world notice what no connection may see."""

from __future__ import annotations

import asyncio

import pytest

from tidings.model import Content, Entry
from tidings.pushes import ConversationRemoved, MessageNew
from tidings_proof.simulation.plans import Plan
from tidings_proof.simulation.world import World


def entry(conversation_id: str, seq_no: int, message_id: str) -> MessageNew:
    made = Entry(
        conversation_id=conversation_id,
        seq_no=seq_no,
        kind="message",
        sent_ms=seq_no,
        message_id=message_id,
        sender_id="ann",
        content=Content("x"),
    )
    return MessageNew(made, None, False, None)


@pytest.mark.parametrize(
    ("pushed", "said"),
    [([1, 2, 3], None), ([1, 3], "a skip"), ([1, 2, 2], "got"), ([2, 1], "after 2")],
)
def test_an_entry_out_of_order_is_noticed(pushed: list[int], said: str | None) -> None:
    world = World(1, Plan.quiet(dies_at=None))

    async def play() -> None:
        await world._begin()
        device = next(one for one in world.devices if one.user_id == "bob")
        connection, id_ = device.connection, world.conversation_ids[0]
        assert connection is not None
        connection.last[id_] = 0
        for seq_no in pushed:
            connection.push(entry(id_, seq_no, f"m{seq_no}"))
        await asyncio.sleep(0)

    world.loop.run(play())
    if said is None:
        assert world.faults == []
    else:
        assert any(said in fault for fault in world.faults), world.faults


@pytest.mark.parametrize("is_told", [False, True])
def test_a_skip_of_somebody_who_was_removed_is_noticed_until_they_are_told(is_told: bool) -> None:
    world = World(1, Plan.quiet(dies_at=None))

    async def play() -> None:
        await world._begin()
        device = next(one for one in world.devices if one.user_id == "bob")
        connection, id_ = device.connection, world.conversation_ids[0]
        assert connection is not None
        await connection.node.ask(connection.node.core.directory.remove("ann", id_, "bob"))
        if is_told:
            connection.push(ConversationRemoved(id_))
        else:
            connection.last[id_] = 0  # as if the news were still on its way
        connection.push(entry(id_, 2, "m2"))

    world.loop.run(play())
    assert any("a skip" in fault for fault in world.faults) is not is_told
