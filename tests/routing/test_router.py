"""The router: an event reaches every device of a user, on every node, in order."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import Device, FaultyNode, Late, down
from tests.support.messaging.two_nodes import connect, disconnect, ticks
from tests.support.waiting import eventually
from tidings.errors import Close
from tidings.pushes import ConversationRemoved, Event, Receipt
from tidings.routing import router
from tidings.routing.bus import Closing, Pushed
from tidings.tasks import Recent


def event(number: int) -> Event:
    return ConversationRemoved(f"c{number}")


def events(count: int) -> list[Event]:
    return [event(number) for number in range(count)]


async def test_local_devices_hear_at_once_and_others_through_the_bus(a: FaultyNode, b: FaultyNode, two: None) -> None:
    here, too, there = await connect(a, "bob", "1"), await connect(a, "bob", "2"), await connect(b, "bob", "3")
    stranger = await connect(b, "carol")
    a.core.router.push("bob", event(0), but="1")
    assert (here.events, too.events, there.events) == ([], [event(0)], [])
    await eventually(lambda: there.events == [event(0)])
    assert stranger.events == []


async def test_the_connection_that_caused_it_is_left_out_wherever_it_is(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    phone, laptop = await connect(b, "bob", "phone"), await connect(b, "bob", "laptop")
    a.core.router.push("bob", event(0), but="phone")  # a request by REST to another node
    await eventually(lambda: laptop.events == [event(0)])
    assert phone.events == []


async def test_a_node_that_is_alone_asks_nobody(a: FaultyNode) -> None:
    await a.core.registry.renew_node()
    bob = await connect(a, "bob")
    runs = len(a.keyspace.runs)
    a.core.router.push("bob", event(0))
    a.core.router.push("carol", event(1))
    assert bob.events == [event(0)] and len(a.keyspace.runs) == runs
    assert a.core.router.may_reach("bob") and not a.core.router.may_reach("carol")


async def test_somebody_elsewhere_may_be_reached_when_there_are_other_nodes(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    assert a.core.router.may_reach("anybody")


async def test_events_of_one_turn_are_looked_up_together(a: FaultyNode, b: FaultyNode, two: None) -> None:
    bob, carol = await connect(b, "bob"), await connect(b, "carol")
    runs = len(a.keyspace.runs)
    for number in range(50):
        a.core.router.push("bob", event(number))
        a.core.router.push("carol", event(number))
    await eventually(lambda: len(bob.events) == len(carol.events) == 50)
    assert bob.events == carol.events == events(50)
    assert len(a.keyspace.runs) == runs + 2, "one look at the leases, one publish"


@pytest.mark.parametrize(("most", "kept"), [(10, events(5)), (4, events(5)[1:])], ids=["all", "the latest"])
async def test_events_wait_in_their_order_while_the_keyspace_is_down(
    a: FaultyNode, b: FaultyNode, two: None, most: int, kept: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "BUS_WAITING_MAX", most)
    bob = await connect(b, "bob")
    late = Late()
    a.keyspace.fail("ZRANGE", late, down)
    a.core.router.push("bob", event(0))
    await late.reached.wait()
    for number in range(1, 5):
        a.core.router.push("bob", event(number))
    late.opened.set()
    await a.core.router.settle()
    await eventually(lambda: len(bob.events) >= len(kept))
    assert bob.events == kept


async def test_closing_reaches_every_device_even_where_leases_are_lost(a: FaultyNode, b: FaultyNode, two: None) -> None:
    here, there, other = await connect(a, "bob"), await connect(b, "bob"), await connect(b, "carol")
    await a.command("DEL", a.core.keys.ws("bob"))
    a.core.router.close("bob", Close.REVOKED)
    assert here.closed == [Close.REVOKED]
    await eventually(lambda: there.closed == [Close.REVOKED])
    assert other.closed == []


async def test_closing_is_repeated_until_the_keyspace_takes_it(a: FaultyNode, b: FaultyNode, two: None) -> None:
    bob = await connect(b, "bob")
    a.keyspace.fail("SPUBLISH", down, down)
    a.core.router.close("bob", Close.REVOKED)
    await eventually(lambda: bob.closed == [Close.REVOKED])


def test_receipts_that_cross_on_the_way_never_lower_a_tick(a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a.core.router, "_known", Recent(2))
    alice, carol = Device("alice", "1"), Device("carol", "2")
    for device in (alice, carol):
        a.core.hub.attach(device)
    a.core.router.push("alice", Receipt("c", "bob", 11, 4))
    a.core.router.take(Pushed("alice", Receipt("c", "bob", 10, 6)), "b")
    a.core.router.take(Pushed("carol", Receipt("c", "bob", 9, 0)), "b")
    assert (ticks(alice), ticks(carol)) == ([("bob", 11, 4), ("bob", 11, 6)], [("bob", 11, 6)])
    for n in range(5):
        a.core.router.push("alice", Receipt(f"c{n}", "bob", 1, 1))
    assert len(a.core.router._known) == 2


def test_what_another_node_has_for_ours_goes_to_the_connections_it_names(a: FaultyNode) -> None:
    phone, laptop = Device("bob", "phone"), Device("bob", "laptop")
    for device in (phone, laptop):
        a.core.hub.attach(device)
    a.core.router.take(Closing(Close.REPLACED, "bob", "phone"), "b")
    a.core.router.take(Pushed("bob", event(0), "laptop"), "b")
    a.core.router.take(Pushed("nobody", event(1)), "b")
    assert (phone.closed, laptop.closed) == ([Close.REPLACED], [])
    assert (phone.events, laptop.events) == ([event(0)], [])


async def test_who_has_gone_is_not_looked_for(a: FaultyNode, b: FaultyNode, two: None) -> None:
    bob = await connect(b, "bob")
    disconnect(b, bob)
    await eventually(lambda: not b.core.registry._tasks)
    a.core.router.push("bob", event(0))
    await a.core.router.settle()
    assert "SPUBLISH" not in a.keyspace.said


async def test_a_router_that_stops_waits_for_no_keyspace(a: FaultyNode, b: FaultyNode, two: None) -> None:
    a.keyspace.fail("ZRANGEBYSCORE", down)
    before = asyncio.all_tasks()
    a.core.router.push("bob", event(0))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() != before
    await a.core.router.stop()
    assert asyncio.all_tasks() == before
