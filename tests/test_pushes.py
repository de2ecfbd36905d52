"""The values that are pushed: each travels between nodes and comes out as itself."""

from __future__ import annotations

from typing import get_args

import msgspec

from tidings.pushes import Blocked, Event, Typing


def test_every_event_has_a_name_of_its_own_on_the_bus() -> None:
    names = [kind.__name__ for kind in get_args(Event)]
    assert len(names) == len(set(names)) > 10


def test_an_event_comes_out_of_the_bus_as_it_went_in() -> None:
    for event in (Blocked("bob", True), Typing("c", "bob", False)):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event) == event
