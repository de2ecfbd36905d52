"""Rudeness: whatever a client does to the protocol, the log stays as it should be."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.proof.people.test_device import records
from tests.support.waiting import eventually
from tidings.node.node import Node
from tidings_proof.judge.history import History
from tidings_proof.people import rude
from tidings_proof.people.workload import Workload
from tidings_proof.torture.run import unsettled

EVERY_WAY: dict[str, rude.Way] = {getattr(way, "__name__", ""): way for way in rude.WAYS}


@pytest.mark.parametrize("way", EVERY_WAY.values(), ids=EVERY_WAY)
async def test_no_rudeness_stores_anything_twice_or_keeps_people_from_settling(
    people: Workload, node: Node, history: History, way: rude.Way
) -> None:
    await eventually(lambda: all(one.is_live for one in people.devices))
    for device in people.devices:
        device.compose(next(id_ for id_, one in device.followed.items() if one.is_here))
    await eventually(lambda: not unsettled(people))
    twins = {one: [twin for twin in people.devices if twin.user_id == one.user_id] for one in people.devices[:4]}
    await asyncio.gather(*(way(one, [twin for twin in mine if twin is not one]) for one, mine in twins.items()))
    await eventually(lambda: not unsettled(people) and all(one.is_live for one in people.devices))
    for id_ in people.conversations:
        log = await node.core.tables.log.page(id_, after=0, before=1 << 53, limit=1_000, newest_first=False)
        ids = Counter((entry.sender_id, entry.message_id) for entry in log if entry.kind == "message")
        assert max(ids.values(), default=1) == 1
        assert [entry.seq_no for entry in log] == list(range(1, len(log) + 1))


async def test_what_a_device_puts_out_of_order_itself_is_marked(people: Workload, history: History) -> None:
    await eventually(lambda: all(one.is_live for one in people.devices))
    device = people.devices[0]
    await rude.send_in_the_wrong_order(device, [])
    sends = [record for record in records(history) if record.f == "send" and record.type == "invoke"]
    assert len(device.loose) == 3 and all(record.value is True for record in sends)
