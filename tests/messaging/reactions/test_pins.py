"""Pins: a list that is exact whatever is retried, and nothing else moves."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, answer_lost
from tests.support.messaging.two_nodes import connect
from tests.support.waiting import eventually
from tidings.errors import NotFound, TooLarge
from tidings.messaging.reactions import pins
from tidings.model import Beside, Entry, ReactionCount
from tidings.pushes import MessageNew


async def listed(node: FaultyNode, user_id: str, id_: str) -> list[int]:
    return [one.entry.seq_no for one in await node.core.pins.all(user_id, id_)]


def from_log(log: list[Entry]) -> list[int]:
    """The pins from the log alone, applied in its order. Each entry must change something."""
    found: list[int] = []
    for entry in log:
        if entry.kind == "pin":
            assert entry.content is not None and entry.target_seq is not None
            assert entry.content.pinned is (entry.target_seq not in found)
            found = [seq for seq in found if seq != entry.target_seq]
            found = [entry.target_seq, *found] if entry.content.pinned else found
    return found


async def test_a_pin_is_shown_on_the_message_in_the_list_and_to_every_device(a: FaultyNode, group: str) -> None:
    for at in range(3):
        await a.send("alice", group, f"m{at}")
    device = await connect(a, "carol")
    assert await a.core.pins.set("bob", group, 1, is_on=True) == Beside({}, 0, True)
    await a.core.pins.set("alice", group, 3, is_on=True)
    assert await listed(a, "carol", group) == [3, 1]
    (first,) = [one.pin for one in await a.core.pins.all("carol", group) if one.entry.seq_no == 1]
    assert first.user_id == "bob"
    assert (await a.core.history.page("carol", group)).beside == {1: Beside({}, 0, True), 3: Beside({}, 0, True)}
    await eventually(lambda: device.seqs()[-1:] == [5])
    told = [one.entry for one in device.events if isinstance(one, MessageNew) and one.entry.kind == "pin"]
    assert [(one.target_seq, one.content and one.content.pinned) for one in told] == [(1, True), (3, True)]
    assert await a.core.pins.set("carol", group, 1, is_on=False) == Beside({})
    assert await listed(a, "carol", group) == [3]


async def test_a_pin_counts_for_nobody_and_moves_nothing(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.core.rows.flush()
    before = await a.core.inbox.page("bob", limit=20, cursor=None)
    await a.core.pins.set("alice", group, 1, is_on=True)
    await a.core.pins.set("alice", group, 1, is_on=False)
    await a.core.rows.flush()
    assert await a.core.inbox.page("bob", limit=20, cursor=None) == before
    assert await a.wrong() == []


async def test_to_pin_twice_is_to_pin_once_also_on_two_nodes(a: FaultyNode, b: FaultyNode, group: str) -> None:
    for at in range(4):
        await a.send("alice", group, f"m{at}")
    nodes = (a, b, a, b)
    await asyncio.gather(
        *(node.core.pins.set("alice", group, seq, is_on=True) for node in nodes for seq in (1, 2, 3, 4))
    )
    log = await a.log(group)
    assert [entry.kind for entry in log].count("pin") == 4
    assert await listed(b, "bob", group) == from_log(log)
    await asyncio.gather(*(node.core.pins.set("alice", group, 2, is_on=on) for node in (a, b) for on in (False, True)))
    assert await listed(b, "bob", group) == from_log(await a.log(group))


async def test_a_lost_answer_does_not_pin_twice(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    a.faulty_log.faults.append(answer_lost)
    await a.core.pins.set("alice", group, 1, is_on=True)
    assert await listed(a, "bob", group) == from_log(await a.log(group)) == [1]


async def test_reactions_and_the_pin_of_a_message_keep_each_other(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await asyncio.gather(
        a.core.pins.set("alice", group, 1, is_on=True), a.core.reactions.react("bob", group, 1, "up", is_on=True)
    )
    beside = (await a.core.history.page("bob", group)).beside[1]
    assert beside.is_pinned and beside.reactions == {"up": ReactionCount(1, True)}


async def test_a_pin_too_many_is_refused_and_deleted_messages_make_room(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "PINS_MAX", 2)
    for at in range(3):
        await a.send("alice", group, f"m{at}")
    for seq in (1, 2):
        await a.core.pins.set("alice", group, seq, is_on=True)
    with pytest.raises(TooLarge):
        await a.core.pins.set("alice", group, 3, is_on=True)
    await a.core.rewrites.delete("alice", group, 1)
    assert await listed(a, "bob", group) == [2]
    await a.core.pins.set("alice", group, 3, is_on=True)
    assert await listed(a, "bob", group) == [3, 2]


async def test_strangers_and_messages_that_are_not_there_are_not_found(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    for user_id, seq in (("mallory", 1), ("bob", 2)):
        with pytest.raises(NotFound):
            await a.core.pins.set(user_id, group, seq, is_on=True)
    with pytest.raises(NotFound):
        await a.core.pins.all("mallory", group)
