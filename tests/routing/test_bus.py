"""The bus: what one node has for another leaves together, in order, and is repeated only while nobody can say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, Gate, Late, answer_lost, down
from tests.support.waiting import eventually
from tidings.bounds import BUS_BYTES_MAX
from tidings.model import Content, Entry
from tidings.pushes import ConversationRemoved, Typing
from tidings.routing import bus
from tidings.routing.bus import Closing, Delivery, Item, Joined, Pushed, Signal
from tidings.stores.keyspace.call import plain


@pytest.fixture
async def heard(b: FaultyNode) -> AsyncIterator[list[Item]]:
    """What comes to node b."""
    items: list[Item] = []
    await b.core.bus.open(lambda item, node_id: items.append(item), lambda: None)
    yield items
    await b.core.bus.close()


def pushed(number: int) -> Pushed:
    return Pushed("bob", ConversationRemoved(f"c{number}"))


def publishes(node: FaultyNode) -> list[int]:
    """How many went together, run by run."""
    return [run.count("SPUBLISH") for run in node.keyspace.runs if "SPUBLISH" in run]


async def test_what_is_posted_in_one_turn_leaves_in_one_publish(a: FaultyNode, heard: list[Item]) -> None:
    for number in range(100):
        a.core.bus.publish("b", pushed(number))
    await eventually(lambda: len(heard) == 100)
    assert heard == [pushed(number) for number in range(100)]
    assert publishes(a) == [1]


async def test_what_is_posted_while_a_publish_is_under_way_gathers_for_the_next(
    a: FaultyNode, heard: list[Item]
) -> None:
    gate = Gate()
    a.keyspace.fail("SPUBLISH", gate)
    a.core.bus.publish("b", pushed(0))
    await gate.reached.wait()
    for number in range(1, 10):
        a.core.bus.publish("b", pushed(number))
    gate.opened.set()
    await a.core.bus.settle()
    await eventually(lambda: heard == [pushed(number) for number in range(10)])
    assert publishes(a) == [1, 1]


async def test_a_publish_larger_than_the_bound_is_split(
    a: FaultyNode, heard: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BUS_BYTES_MAX < 8 * 1024 * 1024
    monkeypatch.setattr(bus, "BUS_BYTES_MAX", 4_096)
    entry = Entry(conversation_id="c", seq_no=1, kind="message", sent_ms=1, content=Content("x" * 1_000))
    items = [Delivery("c", 0, (entry,), {"bob": (n, False, n, 0, 0, None)}) for n in range(10)]
    large = Delivery("c", 0, (entry,) * 6, {})  # cannot be split, and goes alone
    for item in (*items, large):
        a.core.bus.publish("b", item)
    await eventually(lambda: len(heard) == 11)
    assert heard == [*items, large]
    assert publishes(a)[0] > 3


async def test_an_item_that_cannot_be_encoded_is_left_out_alone(a: FaultyNode, heard: list[Item]) -> None:
    content = Content("x", data={"n": 2**64})
    entry = Entry(conversation_id="c", seq_no=1, kind="message", sent_ms=1, content=content)
    for item in (pushed(1), Delivery("c", 0, (entry,), {}), pushed(2)):
        a.core.bus.publish("b", item)
    a.core.bus.publish("elsewhere", Delivery("c", 0, (entry,), {}))
    await a.core.bus.settle()
    await eventually(lambda: heard == [pushed(1), pushed(2)])


async def test_a_publish_without_an_answer_is_repeated_in_its_place(a: FaultyNode, heard: list[Item]) -> None:
    late = Late()
    a.keyspace.fail("SPUBLISH", late, down)
    a.core.bus.publish("b", pushed(1))
    await late.reached.wait()
    a.core.bus.publish("b", pushed(2))
    late.opened.set()
    await a.core.bus.settle()
    await eventually(lambda: heard == [pushed(1), pushed(2)])


async def test_a_node_that_cannot_be_told_does_not_make_others_hear_twice(a: FaultyNode, heard: list[Item]) -> None:
    a.keyspace.fail("SPUBLISH", down)
    a.core.bus.publish("nobody", pushed(1))
    a.core.bus.publish("b", pushed(2))
    await a.core.bus.settle()
    await eventually(lambda: heard == [pushed(2)])
    a.keyspace.fail("SPUBLISH", answer_lost)
    a.core.bus.publish("b", pushed(3))
    await a.core.bus.settle()
    await eventually(lambda: heard == [pushed(2), pushed(3), pushed(3)])  # nobody could know


async def test_what_is_true_for_a_moment_is_not_repeated_and_the_rest_is_bounded(
    a: FaultyNode, heard: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "BUS_WAITING_MAX", 3)
    a.keyspace.fail("SPUBLISH", down)
    for number in range(5):
        a.core.bus.publish("b", pushed(number))
    a.core.bus.publish("b", Signal(("c",), Typing("c", "bob", True)))
    await a.core.bus.settle()
    await eventually(lambda: heard == [pushed(number) for number in (2, 3, 4)])


async def test_a_publish_of_another_version_is_passed_over(a: FaultyNode, b: FaultyNode, heard: list[Item]) -> None:
    channel = b.core.keys.bus("b")
    for payload in (b"\xc1", b"\x91\x81\xa4type\xa5Later", b""):
        assert await a.keyspace.one(plain(channel, b"SPUBLISH", channel, payload)) == 1
    assert await a.core.bus.publish_now("b", Joined("a"))
    await eventually(lambda: heard == [Joined("a")])


async def test_telling_says_whether_anybody_listened(a: FaultyNode, b: FaultyNode, heard: list[Item]) -> None:
    assert await a.core.bus.publish_now("b", Joined("a"))
    assert not await a.core.bus.publish_now("nobody", Joined("a"))
    assert b.core.bus.is_up and not a.core.bus.is_up
    await b.core.bus.close()
    assert not b.core.bus.is_up
    async with asyncio.timeout(60):
        while await a.core.bus.publish_now("b", Joined("a")):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "item",
    [
        Closing(4503, "bob"),
        Closing(4505, "bob", "connection"),
        Pushed("bob", ConversationRemoved("c"), "connection"),
        Delivery("c", 7, (), {"bob": (None, False, None, None, None, {1: (2, None)})}),
        Signal(("c", "d"), Typing("c", "bob", False)),
    ],
    ids=lambda item: type(item).__name__,
)
async def test_every_kind_of_item_comes_as_it_was_posted(a: FaultyNode, heard: list[Item], item: Item) -> None:
    a.core.bus.publish("b", item)
    await eventually(lambda: heard == [item])
