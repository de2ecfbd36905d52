"""Timed work: one node at a time, and failures that hold up nothing else."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import StoreUnavailable
from tidings.messaging.lifecycle.timed import TimedWork
from tidings.stores.tables.records import DEPLOYMENT, Put, Record


def worker(node: FaultyNode, done: list[str], tried: list[str] | None = None) -> TimedWork:
    records = node.tables.records

    async def work(record: Record) -> None:
        if tried is not None:
            tried.append(record.name)
        if record.name == "bad":
            raise StoreUnavailable("not now, says the test")
        done.append(record.name)
        await records.put([Put(*record.key, None)])

    core = node.core
    return TimedWork(core.keyspace, core.keys, records, core.clock, core.node_id, {"errands": work})


async def test_one_node_works_and_the_other_takes_over_when_it_is_gone(a: FaultyNode, b: FaultyNode) -> None:
    done: list[str] = []
    first, second = worker(a, done), worker(b, done)
    await first.step()
    await a.tables.records.put([Put(DEPLOYMENT, "errands", "one", b"{}", due_ms=1)])
    await second.step()
    assert done == []
    await a.command("DEL", a.core.keys.timed)  # its lease ended
    await second.step()
    assert done == ["one"]


async def test_work_that_fails_is_put_off_and_the_rest_is_done(a: FaultyNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")  # a line that is not written hides a mistake in it
    done: list[str] = []
    await a.tables.records.put([Put(DEPLOYMENT, "errands", name, b"{}", due_ms=1) for name in ("bad", "good")])
    tried: list[str] = []
    timed = worker(a, done, tried)
    await timed.step()
    await timed.step()
    assert (done, tried) == (["good"], ["bad", "good"]), "not at once again"
    assert "timed work is put off" in caplog.messages
    a.clock.elapsed_s += 1.5
    await timed.step()
    assert tried == ["bad", "good", "bad"]


async def test_a_node_with_a_wrong_clock_does_not_delay_work_that_fails(a: FaultyNode, b: FaultyNode) -> None:
    """Its clock is an hour ahead; when it is gone another node finds the work due."""
    await a.tables.records.put([Put(DEPLOYMENT, "errands", "bad", b"{}", due_ms=1)])
    a.clock.ahead_ms = 3_600_000
    await worker(a, []).step()
    (left,) = await b.tables.records.due("errands", until_ms=b.clock.now_ms(), limit=10)
    assert left.due_ms == 1


async def test_work_that_is_not_due_waits(a: FaultyNode) -> None:
    done: list[str] = []
    await a.tables.records.put([Put(DEPLOYMENT, "errands", "later", b"{}", due_ms=a.clock.now_ms() + 60_000)])
    await worker(a, done).step()
    assert done == []
    a.clock.ahead_ms = 61_000
    await worker(a, done).step()
    assert done == ["later"]
