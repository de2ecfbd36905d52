"""The workers of the audit stream: every entry is counted once, whoever dies when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.audit_stream import Auditing, audited
from tests.support.messaging.faulty_stores import answer_lost, request_lost
from tidings import bounds
from tidings.errors import Unavailable
from tidings.operators.audit.sums import AuditSums
from tidings_proof.world.valkey import ValkeyProcess


@pytest.fixture
async def one(valkey: ValkeyProcess) -> AsyncIterator[Auditing]:
    async with audited(valkey) as one:
        yield one


async def noted(one: Auditing, entries: int = 30) -> dict[str, int]:
    """So many entries of several users and classes; their sums."""
    sums: dict[str, int] = {}
    for number in range(entries):
        user_id, class_name, count = f"user{number % 7}", ("send", "read")[number % 2], number + 1
        one.audit.rejected(class_name, user_id, count)
        await one.audit.flush()
        field = f"reject:{class_name}:{user_id}"
        sums[field] = sums.get(field, 0) + count
    return sums


async def test_the_sums_are_those_of_the_stream(one: Auditing) -> None:
    wanted = await noted(one)
    assert await one.count_all() == 30
    assert await one.sums() == wanted
    assert await one.count_all(one.worker("n2", idle_s=0)) == 0
    assert await one.sums() == wanted


async def test_many_workers_share_the_work(one: Auditing) -> None:
    wanted = await noted(one)
    workers = [one.worker(f"n{number}") for number in range(5)]
    counted = await asyncio.gather(*(worker.step(limit=3) for worker in workers))
    assert sum(counted) <= 30 and sum(map(bool, counted)) > 1
    await one.count_all()
    assert await one.sums() == wanted


async def test_what_a_dead_worker_had_taken_is_counted_by_another(one: Auditing) -> None:
    wanted = await noted(one)
    taken = await one.worker("dead").take(5)
    assert taken
    assert await one.count_all() == 30 - sum(map(len, taken.values()))
    await one.count_all(one.worker("n2", idle_s=0))
    assert await one.sums() == wanted


async def test_a_worker_that_was_only_slow_counts_nothing_a_second_time(one: Auditing) -> None:
    wanted = await noted(one)
    slow = one.worker("slow")
    taken = await slow.take(100)
    await one.count_all(one.worker("n2", idle_s=0))
    calls = [call for shard, entries in taken.items() for call in slow._folds(shard, entries)]
    assert await one.keyspace.run(calls) == [0] * len(calls)
    assert await one.sums() == wanted


@pytest.mark.parametrize("fault", [answer_lost, request_lost])
@pytest.mark.parametrize("name", ["audit_take", "audit_fold"])
async def test_an_answer_that_is_lost_changes_no_sum(one: Auditing, name: str, fault: object) -> None:
    wanted = await noted(one)
    one.keyspace.fail(name, *[fault] * bounds.AUDIT_SHARDS)  # type: ignore[arg-type]
    with pytest.raises(Unavailable):
        await one.fold.step()
    await one.count_all(one.worker("n1", idle_s=0))
    assert await one.sums() == wanted


async def test_an_entry_that_cannot_be_read_is_given_up_and_stops_nobody(one: Auditing) -> None:
    wanted = await noted(one)
    key = one.scripts.keys.audit(2)
    for fields in ((b"event", b"not json"), (b"event", b'{"kind":"reject"}'), (b"another", b"field")):
        await one.ask(key, b"XADD", key, b"*", *fields)
    for _ in range(bounds.AUDIT_DELIVERIES_MAX + 1):
        await one.worker("n1", idle_s=0).step()
    assert await one.sums() == wanted
    lag = await one.reader.lag()
    assert (lag.waiting, lag.pending, lag.dead) == (0, 0, 3)


async def test_workers_that_are_long_gone_leave_the_list(one: Auditing) -> None:
    await noted(one)
    await one.worker("holds").take(1)
    await one.count_all(one.worker("gone"))
    tidying = AuditSums(one.keyspace, one.scripts, "n9", consumer_idle_s=0)
    await tidying.take(1)
    assert await tidying.tidy() > 0
    left = set()
    for shard in range(bounds.AUDIT_SHARDS):
        key = one.scripts.keys.audit(shard)
        left |= {row[1] for row in await one.ask(key, b"XINFO", b"CONSUMERS", key, b"fold")}
    assert b"gone" not in left and b"holds" in left


async def test_a_worker_that_runs_counts_what_comes(one: Auditing) -> None:
    one.fold.loop.start()
    wanted = await noted(one, 3)
    async with asyncio.timeout(60):
        while await one.sums() != wanted:
            await asyncio.sleep(0.02)
    await one.fold.loop.stop()
