"""A world: people live in it, peace comes, and what is wrong is noted."""

from __future__ import annotations

from tidings_proof.simulation.world import World


def test_a_world_comes_to_peace_and_nothing_is_wrong() -> None:
    world = World(4)
    assert world.play() == []
    assert any(line.endswith("peace") for line in world.story) and all(device.got for device in world.devices)


def test_what_is_noted_is_found_wrong_and_told() -> None:
    world = World(1)
    world.note("something")
    assert world.faults == ["something"] and world.story[-1].endswith("WRONG: something")
