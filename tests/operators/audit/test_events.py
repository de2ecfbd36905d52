"""The audit stream's writer: what is alike is one entry, nothing is lost or written twice, and all of it is bounded."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.audit_stream import Auditing, audited
from tests.support.messaging.faulty_stores import answer_lost, down, request_lost
from tidings import bounds
from tidings.errors import Unavailable
from tidings.operators.audit.events import Event
from tidings_proof.world.valkey import ValkeyProcess


@pytest.fixture
async def one(valkey: ValkeyProcess) -> AsyncIterator[Auditing]:
    async with audited(valkey) as one:
        yield one


async def test_a_flood_is_one_entry_with_its_count(one: Auditing) -> None:
    for _ in range(10_000):
        one.audit.rejected("send", "mallory")
    one.audit.rejected("read", "mallory", 3)
    entries = await one.write()
    found = {entry.event for entry in entries}
    assert found == {
        Event("reject", "send", "mallory", 10_000, "n1"),
        Event("reject", "read", "mallory", 3, "n1"),
    }
    assert one.rejects == {"send": 10_000, "read": 3}
    assert one.keyspace.said.count("audit_add") == 1


async def test_what_was_done_is_an_entry_each_with_its_doer(one: Auditing) -> None:
    one.audit.revoked("bob", by="backend")
    one.audit.acted("limits.set", "backend", user_id="bob", detail="user bob send 5/60s")
    one.audit.acted("limits.set", "backend", user_id="bob", detail="user bob send 6/60s")
    one.audit.sign_in_failed("ws")
    one.audit.sign_in_failed("ws")
    events = [entry.event for entry in await one.write()]
    assert Event("revocation", "revoke", "bob", node="n1", by="backend") in events
    assert [event.detail for event in events if event and event.kind == "admin"] == [
        "user bob send 5/60s",
        "user bob send 6/60s",
    ]
    assert Event("sign_in", "ws", "-", 2, "n1") in events


async def test_nothing_to_say_costs_nothing(one: Auditing) -> None:
    assert await one.audit.flush() == 0
    assert one.keyspace.said == []


async def test_a_flush_whose_answer_was_lost_is_not_counted_twice(one: Auditing) -> None:
    one.audit.rejected("send", "alice", 5)
    one.keyspace.fail("audit_add", answer_lost, request_lost)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await one.audit.flush()
        one.audit.rejected("send", "alice", 1)
    entries = await one.write()
    assert sorted(entry.event.count for entry in entries if entry.event) == [2, 5]


async def test_while_the_keyspace_is_down_counts_gather(one: Auditing) -> None:
    one.keyspace.fail("audit_add", *[down] * 20)
    for _ in range(20):
        one.audit.rejected("send", "alice", 7)
        with pytest.raises(Unavailable):
            await one.audit.flush()
    assert sum(entry.event.count for entry in await one.write() if entry.event) == 140


async def test_too_many_users_are_counted_together_and_the_sum_is_right(
    one: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "AUDIT_NOTES_MAX", 10)
    for number in range(500):
        one.audit.rejected("send", f"user{number}", 2)
    events = [entry.event for entry in await one.write() if entry.event]
    assert sum(event.count for event in events) == 1_000
    assert Counter(event.user_id for event in events)["*"] == bounds.AUDIT_SHARDS
    assert len(events) == 11 * bounds.AUDIT_SHARDS


async def test_a_flush_is_short_however_much_there_is(one: Auditing) -> None:
    for number in range(4_000):
        one.audit.rejected("send", f"user{number}")
    assert await one.audit.flush() <= bounds.AUDIT_FLUSH_MAX * bounds.AUDIT_SHARDS
    assert len(await one.write()) == 4_000


async def test_a_node_that_stops_writes_what_is_left(one: Auditing) -> None:
    one.audit.loop.start()
    one.audit.rejected("send", "alice")
    await one.audit.loop.stop()
    assert len(await one.reader.tail()) == 1


async def test_what_was_noted_is_written_within_a_moment(one: Auditing) -> None:
    one.audit.loop.start()
    one.audit.rejected("send", "alice")
    async with asyncio.timeout(60):
        while not await one.reader.tail():
            await asyncio.sleep(0.01)
    await one.audit.loop.stop()
