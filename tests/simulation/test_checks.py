"""Checks of a world at peace: a row that is changed by hand is noticed."""

from __future__ import annotations

import pytest

from tidings_proof.simulation import world as worlds
from tidings_proof.simulation.checks import check
from tidings_proof.simulation.world import World

STRANGE = "UPDATE messages SET sender_id = 'mallory' WHERE rowid IN (SELECT rowid FROM messages LIMIT 1)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM messages WHERE kind = 'message'", "is not there"),
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
