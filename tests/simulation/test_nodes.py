"""A simulated node: its requests end with it."""

from __future__ import annotations

import asyncio

import pytest

from tidings_proof.simulation.nodes import Gone
from tidings_proof.simulation.plans import Plan
from tidings_proof.simulation.world import World


def test_a_request_to_a_node_that_dies_is_lost() -> None:
    world = World(1, Plan.quiet(dies_at=None))

    async def play() -> None:
        node = world.start_node()
        while not node.is_up:
            await asyncio.sleep(0.05)
        asked = asyncio.ensure_future(node.ask(world.loop.elapse(10)))
        await world.loop.elapse(1)
        world.loop.bury(node.party)
        with pytest.raises(Gone):
            await asked
        with pytest.raises(Gone):
            await node.ask(asyncio.sleep(0))

    world.loop.run(play())


def test_a_node_starts_with_the_unread_settings_of_its_world() -> None:
    world = World(1, Plan.quiet(dies_at=None))
    world.unread = (3, "when_offline")

    async def play() -> None:
        node = world.start_node()
        assert node.unread == (3, "when_offline") and node.core.settings.unread.cap == 3

    world.loop.run(play())
