"""Blobs of a simulated world: one dict for all nodes, whose first writer wins."""

from __future__ import annotations

import random

import pytest

from tidings.errors import Missing
from tidings.stores.blobs.ports import Blob
from tidings_proof.simulation.blobs import SimBlobs
from tidings_proof.simulation.loop import SimLoop
from tidings_proof.simulation.stores import SimClock, Weather, Wire


def test_what_one_node_puts_another_gets() -> None:
    dice = random.Random(1)
    loop = SimLoop(dice)  # type: ignore[abstract]
    clock, weather = SimClock(loop, dice), Weather(dice)
    objects: dict[str, Blob] = {}
    data: dict[str, bytes] = {}
    wires = [Wire(loop, weather, loop.party(name, lambda: None), "blobs") for name in "ab"]
    one, other = (SimBlobs(wire, objects, data, clock) for wire in wires)

    async def play() -> None:
        assert await one.put("a/1", b"x") and not await other.put("a/1", b"y")
        assert await other.get("a/1") == b"x"
        assert [[blob.name for blob in page] async for page in other.list("a")] == [["a/1"]]
        await one.delete("a/1")
        with pytest.raises(Missing):
            await other.get("a/1")

    loop.run(play())
