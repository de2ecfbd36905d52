"""Counts of two nodes that cross on the way: the device ends with the true ones."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import Device, FaultyNode, Gate
from tests.support.messaging.two_nodes import connect, shown, telling
from tests.support.waiting import eventually
from tidings.bounds import COUNT_RESYNC_S
from tidings.messaging.deliver import count_resync as module
from tidings.messaging.deliver.count_resync import CountResync
from tidings.model import ReadState
from tidings.pushes import MessageNew, ReadSynced
from tidings.routing.hub import Hub


def badge(device: Device) -> int | None:
    """What the device shows: the total that it heard last."""
    told = [event.total_unread for event in device.events if isinstance(event, MessageNew)]
    synced = [event.state.total_unread for event in device.events if isinstance(event, ReadSynced)]
    totals = [total for total in (synced[-1:] or told[-1:]) if total is not None]
    return totals[-1] if totals else None


async def test_an_older_total_that_arrives_last_does_not_stay(
    a: FaultyNode, b: FaultyNode, direct: str, group: str
) -> None:
    async with telling(a, b):
        bob = await connect(a, "bob")
        late = Gate()
        b.keyspace.fail("SPUBLISH", late)
        await b.send("carol", group, "m1")  # its publish is under way: total 1
        await late.reached.wait()
        await a.send("alice", direct, "m2")  # total 2
        await eventually(lambda: badge(bob) == 2)
        late.opened.set()
        await eventually(lambda: shown(bob) != [])
        assert badge(bob) == 2


class Counts:
    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []

    async def state(self, user_id: str, conversation_id: str) -> ReadState:
        self.read.append((user_id, conversation_id))
        return ReadState(
            conversation_id=conversation_id,
            read_seq=0,
            unread_count=1,
            unread_capped=False,
            first_unread_seq=None,
            total_unread=1,
        )


async def test_what_one_node_tells_costs_nothing(a: FaultyNode) -> None:
    count_resync = CountResync(Hub(), Counts(), a.clock)
    for number in range(100):
        count_resync.record("bob", f"c{number}", "n1")
    a.clock.elapsed_s += COUNT_RESYNC_S
    count_resync.record("bob", "c1", "n2")  # long after the other
    assert count_resync._tasks == {}


async def test_who_left_meanwhile_is_not_read_for_and_memory_is_bounded(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts()
    count_resync = CountResync(Hub(), counts, a.clock)
    count_resync.record("bob", "c1", "n1")
    count_resync.record("bob", "c2", "n2")
    await asyncio.gather(*count_resync._tasks.values())
    assert counts.read == [] and count_resync._doubtful == {}
    monkeypatch.setattr(module, "COUNT_RESYNC_USERS_MAX", 50)
    for number in range(50):
        count_resync.record(f"u{number}", "c", "n1")
    a.clock.elapsed_s += 2 * COUNT_RESYNC_S
    count_resync.record("last", "c", "n1")
    assert len(count_resync._last) == 1


class HeldCounts(Counts):
    """The first reading takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def state(self, user_id: str, conversation_id: str) -> ReadState:
        self.reached.set()
        await self.opened.wait()
        return await super().state(user_id, conversation_id)


async def test_counts_that_cross_while_others_are_told_again_are_told_too(a: FaultyNode) -> None:
    counts, hub = HeldCounts(), Hub()
    hub.attach(Device("bob", "c-1"))
    count_resync = CountResync(hub, counts, a.clock)
    count_resync.record("bob", "c1", "n1")
    count_resync.record("bob", "c2", "n2")
    first = count_resync._tasks["bob"]
    await counts.reached.wait()
    count_resync.record("bob", "c3", "n1")
    count_resync.record("bob", "c4", "n2")
    second = count_resync._tasks["bob"]
    assert second is not first
    counts.opened.set()
    await asyncio.gather(first, second)
    assert {conversation_id for _, conversation_id in counts.read} == {"c1", "c2", "c3", "c4"}
    assert count_resync._doubtful == {} and count_resync._tasks == {}
