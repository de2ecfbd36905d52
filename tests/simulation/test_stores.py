"""Stores of a simulated world: wires that fail, and two primaries."""

from __future__ import annotations

import random

import pytest

from tidings.errors import Throttled, Unavailable
from tidings.stores.keyspace.call import plain
from tidings_proof.simulation.loop import SimLoop
from tidings_proof.simulation.stores import SimKeyspace, SimServer, Weather, Wire


class Place:
    def __init__(self) -> None:
        self.dice = random.Random(1)
        self.loop = SimLoop(self.dice)  # type: ignore[abstract]
        self.weather = Weather(self.dice)
        self.server = SimServer(self.loop, self.weather)

    def link(self, name: str) -> SimKeyspace:
        party = self.loop.party(name, lambda: None)
        return SimKeyspace(self.loop, Wire(self.loop, self.weather, party, "keyspace"), self.server, party)


def test_nodes_on_two_primaries_see_different_things_until_they_are_joined() -> None:
    place = Place()
    one, other = place.link("a"), place.link("b")

    async def play() -> None:
        await one.one(plain("k", b"SET", "k", "before"))
        place.server.split({one.party})
        with pytest.raises(Unavailable):
            await other.one(plain("k", b"GET", "k"))
        other.reconnect()
        await one.one(plain("k", b"SET", "k", "old"))
        assert await other.one(plain("k", b"GET", "k")) == b"before"
        epochs: list[tuple[str, str]] = []
        one.on_epoch(lambda old, new: epochs.append((old, new)))
        place.server.join()
        one.reconnect()
        assert await one.one(plain("k", b"GET", "k")) == b"before"
        assert epochs == [("epoch-1", "epoch-2")]

    place.loop.run(play())


def test_a_hot_table_refuses_and_does_nothing() -> None:
    place, done = Place(), []
    wire = Wire(place.loop, place.weather, place.loop.party("a", lambda: None), "tables")
    place.weather.throttle = 1.0

    async def play() -> None:
        with pytest.raises(Throttled):
            await wire.ask(lambda fate: done.append(fate))

    place.loop.run(play())
    assert done == []
