"""Scheduled messages: sent once at their time, whatever dies, and never after they were taken back."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import Device, FaultyNode, Gate, answer_lost, down, told
from tidings.errors import BadRequest, NotFound, TooLarge
from tidings.messaging.lifecycle.scheduled import SCHEDULED, Scheduled
from tidings.model import Content
from tidings.pushes import ScheduledFailed


async def schedule(node: FaultyNode, conversation_id: str, message_id: str = "m1", *, in_s: int = 60) -> Scheduled:
    send_at = node.clock.now_ms() + in_s * 1000
    scheduled = Scheduled(conversation_id, Content("good morning"), send_at, message_id)
    assert await node.core.schedule.put("alice", scheduled)
    return scheduled


async def test_a_scheduled_message_is_sent_once_at_its_time(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    scheduled = await schedule(a, direct)
    await a.core.timed.step()
    assert await a.log(direct) == []
    assert await a.core.schedule.all("alice") == [scheduled]
    a.clock.ahead_ms = b.clock.ahead_ms = 61_000
    (record,) = await a.tables.records.due(SCHEDULED, until_ms=1 << 53, limit=10)
    await asyncio.gather(*(node.core.schedule.send(record) for node in (a, b)))
    await a.core.timed.step()
    # The later node may take the first one's number for given up, as its clock is ahead, and close it with a void.
    assert [entry.message_id for entry in await a.log(direct) if entry.kind != "void"] == ["m1"]
    assert await a.core.schedule.all("alice") == []
    assert await a.unread("bob") == 1


async def test_a_lost_answer_does_not_send_it_twice(a: FaultyNode, direct: str) -> None:
    await schedule(a, direct)
    a.clock.ahead_ms = 61_000
    a.faulty_log.faults.extend([answer_lost, down])
    await a.core.timed.step()
    a.clock.ahead_ms = 70_000
    await a.core.timed.step()
    assert told(await a.log(direct)) == [(1, "message", "m1")]
    assert await a.core.schedule.all("alice") == []


async def test_what_was_taken_back_is_never_sent(a: FaultyNode, direct: str) -> None:
    await schedule(a, direct)
    (record,) = await a.tables.records.due(SCHEDULED, until_ms=1 << 53, limit=10)
    a.faulty_log.faults.append(gate := Gate())
    sending = asyncio.ensure_future(a.core.schedule.send(record))
    await gate.reached.wait()
    await a.core.schedule.remove("alice", "m1")
    gate.opened.set()
    await sending
    assert [entry.kind for entry in await a.log(direct)] in ([], ["void"])
    with pytest.raises(NotFound):
        await a.core.schedule.remove("alice", "m1")


async def test_a_replaced_message_is_sent_with_its_new_text(a: FaultyNode, direct: str) -> None:
    scheduled = await schedule(a, direct)
    other = Scheduled(direct, Content("good evening"), scheduled.send_at, "m1")
    assert not await a.core.schedule.put("alice", other)
    a.clock.ahead_ms = 61_000
    await a.core.timed.step()
    assert [entry.text for entry in await a.log(direct)] == ["good evening"]


async def test_a_refusal_for_good_is_told_and_stays_in_the_list(a: FaultyNode, group: str) -> None:
    device = Device("bob", "b1")
    a.core.hub.attach(device)
    scheduled = Scheduled(group, Content("too late"), a.clock.now_ms() + 60_000, "m1")
    await a.core.schedule.put("bob", scheduled)
    await a.core.directory.remove("alice", group, "bob")
    a.clock.ahead_ms = 61_000
    await a.core.timed.step()
    assert [event for event in device.events if isinstance(event, ScheduledFailed)] == [
        ScheduledFailed("m1", "not_found")
    ]
    (failed,) = await a.core.schedule.all("bob")
    assert failed.failed == "not_found"
    await a.core.timed.step()
    await a.core.schedule.remove("bob", "m1")
    assert await a.core.schedule.all("bob") == []


async def test_only_members_schedule_and_within_bounds(a: FaultyNode, direct: str) -> None:
    now_ms = a.clock.now_ms()
    with pytest.raises(NotFound):
        await a.core.schedule.put("mallory", Scheduled(direct, Content("hi"), now_ms, "m1"))
    with pytest.raises(BadRequest):
        await a.core.schedule.put("alice", Scheduled(direct, Content("hi"), now_ms * 2, "m1"))
    for at in range(100):
        await schedule(a, direct, f"m{at}")
    with pytest.raises(TooLarge):
        await a.core.schedule.put("alice", Scheduled(direct, Content("hi"), now_ms, "one-too-many"))
