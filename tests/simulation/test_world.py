"""A world: people live in it, peace comes, and what is wrong is noted."""

from __future__ import annotations

import gc
import weakref

from tidings_proof.simulation.plans import Plan
from tidings_proof.simulation.world import World


def test_a_world_comes_to_peace_and_nothing_is_wrong() -> None:
    world = World(4)
    assert world.play() == []
    assert any(line.endswith("peace") for line in world.story) and all(device.got for device in world.devices)


def test_what_is_noted_is_found_wrong_and_told() -> None:
    world = World(1)
    world.note("something")
    assert world.faults == ["something"] and world.story[-1].endswith("WRONG: something")


def test_nothing_of_a_world_that_was_closed_is_kept() -> None:
    played = []
    for seed in (1, 2):  # the metrics, which all worlds share, know the nodes of the last one
        world = World(seed, Plan.odd(seed, "finding"))
        world.play()
        world.close()
        played.append(weakref.ref(world))
        del world
    gc.collect()
    assert played[0]() is None
