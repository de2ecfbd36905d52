"""Checks of a world at peace: a row that is changed by hand is noticed."""

from __future__ import annotations

import pytest

from tidings.messaging.log import Log
from tidings.messaging.send.open_work import Undecided
from tidings.model import void_at
from tidings.stores.tables.values import Group
from tidings_proof.simulation import world as worlds
from tidings_proof.simulation.checks import check
from tidings_proof.simulation.world import World

STRANGE = "UPDATE messages SET sender_id = 'mallory' WHERE rowid IN (SELECT rowid FROM messages LIMIT 1)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM messages WHERE kind = 'message'", "is not there"),
        ("DELETE FROM messages WHERE seq_no = 1", "has the numbers"),
        ("UPDATE conversation_heads SET head = head + 1", "the head is"),
        ("UPDATE messages SET sender_id = 'mallory' WHERE kind = 'message'", "a message of a stranger"),
    ],
)
def test_a_change_behind_the_nodes_is_noticed(monkeypatch: pytest.MonkeyPatch, change: str, said: str) -> None:
    async def changed(world: World) -> None:
        world.tx.connection.execute(change)
        await check(world)

    monkeypatch.setattr(worlds, "check", changed)
    assert any(said in fault for seed in range(3) for fault in World(seed).play())


async def _void_above_lost_numbers(world: World) -> None:
    """The answer with a number is lost, the next number is closed as not needed, and then nobody sends any more."""
    node = world.some_node()
    assert node is not None
    messages = node.core.tables.log
    for id_ in world.conversation_ids:
        top = await node.ask(messages.top(id_))
        void = void_at(id_, top.seq_no + 2, max(top.sent_ms, 1))
        await node.ask(messages.append([Group(conversation_id=id_, entries=(void,))]))
    await check(world)


def test_a_lost_number_below_a_void_is_closed_by_the_next_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "check", _void_above_lost_numbers)
    assert [World(seed).play() for seed in range(3)] == [[]] * 3


def test_a_lost_number_that_no_reader_closes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def close_nothing(*args: object, **options: object) -> bool:
        return False

    async def changed(world: World) -> None:
        monkeypatch.setattr(Log, "_close_old", close_nothing)
        await _void_above_lost_numbers(world)

    monkeypatch.setattr(worlds, "check", changed)
    faults = World(0).play()
    assert any(" reads " in fault for fault in faults)
    assert any("has the numbers" in fault for fault in faults)


def test_a_number_that_a_node_leaves_undecided_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def changed(world: World) -> None:
        id_ = world.conversation_ids[0]
        world.live_nodes()[0].core.open_work.undecided[id_] = Undecided(first=7, last=8, since_s=0.0)
        await check(world)

    monkeypatch.setattr(worlds, "check", changed)
    assert any("has not decided 7 to 8" in fault for fault in World(0).play())
