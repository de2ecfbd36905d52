"""Counting minutes anew gives what the stream says, however often, whatever workers do meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.support.messaging.audit_stream import Auditing, audited
from tidings.errors import BadRequest, StoreUnavailable
from tidings.operators.audit import recount as audit_replay
from tidings.operators.audit.reader import place_of
from tidings.stores.keyspace.scripts.audit import minute_of
from tidings_proof.world.valkey import ValkeyProcess


@pytest.fixture
async def one(valkey: ValkeyProcess) -> AsyncIterator[Auditing]:
    async with audited(valkey) as one:
        yield one


async def noted(one: Auditing, entries: int = 20) -> dict[str, int]:
    sums: dict[str, int] = {}
    for number in range(entries):
        one.audit.rejected("send", f"user{number % 5}", number + 1)
        field = f"reject:send:user{number % 5}"
        sums[field] = sums.get(field, 0) + number + 1
        await one.audit.flush()
    return sums


async def test_a_replay_changes_nothing_that_is_right(one: Auditing) -> None:
    wanted = await noted(one)
    await one.count_all()
    for _ in range(3):
        assert (await one.replay.run("0")).entries == 20
        assert await one.sums() == wanted


async def test_a_replay_puts_right_what_is_wrong(one: Auditing) -> None:
    wanted = await noted(one)
    await one.count_all()
    for entry in await one.reader.tail("0", 100):
        key = one.scripts.keys.audit_sums(place_of(entry.id)[2], minute_of(entry.id))
        await one.ask(key, b"HINCRBY", key, b"reject:send:user0", 1_000)
    assert await one.sums() != wanted
    await one.replay.run("0")
    assert await one.sums() == wanted


async def test_entries_that_are_taken_but_not_counted_are_counted_once(one: Auditing) -> None:
    wanted = await noted(one)
    slow = one.worker("slow")
    taken = await slow.take(3)
    await one.replay.run("0")
    calls = [call for shard, entries in taken.items() for call in slow._folds(shard, entries)]
    await one.keyspace.run(calls)
    await one.count_all(one.worker("n2", idle_s=0))
    assert await one.sums() == wanted


async def test_entries_that_nobody_has_taken_yet_are_left_to_the_workers(one: Auditing) -> None:
    await one.worker("n1").take(1)  # the groups are there
    wanted = await noted(one)
    await one.replay.run("0")
    await one.count_all()
    await one.replay.run("0")
    assert await one.sums() == wanted


async def test_replays_and_workers_at_the_same_time(one: Auditing) -> None:
    wanted = await noted(one, 60)

    async def work(name: str) -> None:
        worker = one.worker(name, idle_s=0)
        for _ in range(30):
            await worker.step(limit=1)

    async def replay() -> None:
        for _ in range(10):
            with suppress(StoreUnavailable):  # workers without a pause may leave it no moment; then it changed nothing
                await one.replay.run("0")

    await asyncio.gather(work("n1"), work("n2"), replay(), replay())
    await one.count_all(one.worker("n3", idle_s=0))
    assert await one.sums() == wanted
    await one.replay.run("0")
    assert await one.sums() == wanted


async def test_only_the_minutes_of_the_range_are_counted(one: Auditing) -> None:
    key = one.scripts.keys.audit(0)
    for minute in (10, 11, 12):
        event = b'{"kind":"reject","class":"send","user_id":"alice","count":%d}' % minute
        await one.ask(key, b"XADD", key, f"{minute * 60_000}-0", b"event", event)
    await one.count_all()
    replayed = await one.replay.run(f"{11 * 60_000 + 5}-0-0", str(11 * 60_000 + 30_000))
    assert (replayed.minutes, replayed.entries, replayed.left) == (1, 1, 0)
    assert (await one.replay.run("0")).minutes == 3


async def test_a_minute_whose_beginning_was_trimmed_is_left_as_it_is(one: Auditing) -> None:
    key = one.scripts.keys.audit(0)
    for number in range(4):
        event = b'{"kind":"reject","class":"send","user_id":"alice"}'
        await one.ask(key, b"XADD", key, f"{(10 + number // 2) * 60_000 + number}-0", b"event", event)
    await one.count_all()
    await one.ask(key, b"XTRIM", key, b"MAXLEN", 3)
    replayed = await one.replay.run("0")
    assert (replayed.minutes, replayed.left) == (1, 1)
    first = one.scripts.keys.audit_sums(0, 10)
    assert await one.ask(first, b"HGET", first, b"reject:send:alice") == b"2"


async def test_many_entries_are_read_in_pieces(one: Auditing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_replay, "_CHUNK", 3)
    wanted = await noted(one)
    await one.count_all()
    await one.replay.run("0")
    assert await one.sums() == wanted


async def test_an_empty_stream_has_nothing_to_count(one: Auditing) -> None:
    replayed = await one.replay.run("0")
    assert (replayed.minutes, replayed.entries, replayed.left) == (0, 0, 0)
    with pytest.raises(BadRequest):
        await one.replay.run("yesterday")
