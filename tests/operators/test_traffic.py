"""Traffic of a day: what nodes counted, in slots that all nodes share."""

from __future__ import annotations

from typing import Any

from tidings.node.graph import Core
from tidings.operators.bounds import TRAFFIC_TTL_S
from tidings.operators.node_samples import Sample
from tidings.operators.traffic import HOUR_MS, SLOT_MS, SLOTS, Traffic
from tidings.stores.keyspace.call import plain

START_MS = 500_000 * HOUR_MS


def sample(at_ms: int, **counts: Any) -> Sample:
    return Sample(at_ms=at_ms, node_id="a", version="1", started_ms=0, **counts)


async def test_counts_are_added_to_the_slot_of_their_time(core: Core) -> None:
    traffic = Traffic(core.keyspace, core.keys)
    await traffic.add(sample(START_MS, messages=5, deliveries=9, connections=2))
    await traffic.add(sample(START_MS + 1_000, messages=6))  # too soon: it is counted with the next one
    await traffic.add(sample(START_MS + 61_000, messages=8, deliveries=9, connections=3))
    await traffic.add(sample(START_MS + SLOT_MS, messages=9, deliveries=12, connections=4))
    day = await traffic.day(START_MS + SLOT_MS)
    assert (day.slot_ms, len(day.slots)) == (SLOT_MS, SLOTS)
    first, second = day.slots[-2:]
    assert (first.at_ms, first.messages, first.deliveries, first.connections) == (START_MS, 8, 9, 2)
    assert (second.messages, second.deliveries, second.connections) == (1, 3, 4)
    assert sum(slot.messages for slot in day.slots) == 9


async def test_nodes_add_to_the_same_slots_and_a_restart_leaves_no_hole(core: Core) -> None:
    one, other = Traffic(core.keyspace, core.keys), Traffic(core.keyspace, core.keys)
    await one.add(sample(START_MS, messages=5, connections=1))
    await other.add(sample(START_MS + 1_000, messages=7, connections=1))
    again = Traffic(core.keyspace, core.keys)  # the first node after a restart: its counters begin anew
    await again.add(sample(START_MS + 2_000, messages=1))
    slot = (await again.day(START_MS + 2_000)).slots[-1]
    assert (slot.messages, slot.connections) == (13, 2)


async def test_a_day_reaches_back_24_hours_and_its_keys_go_by_themselves(core: Core) -> None:
    traffic = Traffic(core.keyspace, core.keys)
    await traffic.add(sample(START_MS, messages=5))
    key = core.keys.traffic(START_MS // HOUR_MS)
    (ttl_s,) = await core.keyspace.run([plain(key, b"TTL", key)])
    assert 24 * 3_600 < int(ttl_s) <= TRAFFIC_TTL_S
    assert (await traffic.day(START_MS + 24 * HOUR_MS - SLOT_MS)).slots[0].messages == 5
    assert sum(slot.messages for slot in (await traffic.day(START_MS + 24 * HOUR_MS)).slots) == 0
