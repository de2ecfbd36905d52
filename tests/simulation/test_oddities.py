"""Oddities: each kind can be played, and peace ends all of them."""

from __future__ import annotations

import pytest

from tidings_proof.simulation.oddities import KINDS, Oddities
from tidings_proof.simulation.plans import Plan
from tidings_proof.simulation.world import World


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_played_to_its_end(kind: str) -> None:
    assert callable(getattr(Oddities, f"_play_{kind}"))
    world = World(5, Plan.odd(5, kind))
    assert world.play() == []
    assert world.weather.throttle == 0.0
    assert {node.unread for node in world.live_nodes()} == {world.unread}
    assert all(link.primary is world.server.valkey for link in world.server.links if not link.party.is_dead)
