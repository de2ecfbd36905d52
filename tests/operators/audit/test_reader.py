"""Reading the audit stream: in one order over all shards, without a gap, and what the sums say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.messaging.audit_stream import Auditing, audited
from tidings import bounds
from tidings.errors import BadRequest, Unavailable
from tidings.operators.audit.reader import AuditEntry, Lag, Rejects, place_of
from tidings_proof.world.valkey import ValkeyProcess


@pytest.fixture
async def one(valkey: ValkeyProcess) -> AsyncIterator[Auditing]:
    async with audited(valkey) as one:
        yield one


async def noted(one: Auditing, entries: int) -> None:
    for number in range(entries):
        one.audit.rejected("send", f"user{number}", number + 1)
        await one.audit.flush()


async def test_pages_from_id_to_id_have_every_entry_once(one: Auditing) -> None:
    for number in range(200):
        one.audit.rejected("send", f"user{number}", number + 1)  # in one flush: many ids are alike
    await one.audit.flush()
    everything = await one.reader.tail("0", 1_000)
    assert len(everything) == 200
    paged: list[AuditEntry] = []
    while page := await one.reader.tail(paged[-1].id if paged else "0", 7):
        paged += page
    assert paged == everything
    assert [place_of(entry.id) for entry in paged] == sorted(place_of(entry.id) for entry in paged)


async def test_without_an_id_the_newest_come_the_oldest_of_them_first(one: Auditing) -> None:
    await noted(one, 30)
    everything = await one.reader.tail("0", 100)
    assert await one.reader.tail(count=4) == everything[-4:]
    assert await one.reader.tail("0", 4) == everything[:4]


@pytest.mark.parametrize("text", ["", "x", "1-2-3-4", "1-", "-1", "1 - 2", "9" * 19, "٣"])
async def test_an_id_that_is_none_is_refused(one: Auditing, text: str) -> None:
    with pytest.raises(BadRequest):
        await one.reader.tail(text)


async def test_an_entry_that_cannot_be_read_is_shown_as_such(one: Auditing) -> None:
    key = one.scripts.keys.audit(1)
    await one.ask(key, b"XADD", key, b"5-0", b"event", b"nonsense")
    assert await one.reader.tail("0") == [AuditEntry("5-0-1", 5, None)]


async def test_a_follower_sees_the_newest_and_then_every_new_one_once(one: Auditing) -> None:
    await noted(one, 10)
    newest = [entry.event.count for entry in await one.reader.tail(count=3) if entry.event]
    seen: list[int] = []

    async def follow() -> None:
        async for entry in one.reader.follow(None, 3, 0.01):
            assert entry.event is not None
            seen.append(entry.event.count)

    following = asyncio.get_running_loop().create_task(follow())
    async with asyncio.timeout(60):
        while len(seen) < 3:
            await asyncio.sleep(0.01)
        for count in range(100, 120):
            one.audit.rejected("send", f"user{count}", count)
            await one.audit.flush()
        while len(seen) < 23:
            await asyncio.sleep(0.01)
    following.cancel()
    assert seen[:3] == newest and sorted(seen[3:]) == list(range(100, 120))


async def test_a_follower_from_an_id_begins_after_it(one: Auditing) -> None:
    await noted(one, 10)
    everything = await one.reader.tail("0", 100)
    seen: list[AuditEntry] = []
    async with asyncio.timeout(60):
        async for entry in one.reader.follow(everything[3].id, 3, 0.01):
            seen.append(entry)
            if len(seen) == 6:
                break
    assert seen == everything[4:]


async def test_a_follower_waits_for_a_keyspace_that_goes_away(one: Auditing, monkeypatch: pytest.MonkeyPatch) -> None:
    await noted(one, 2)
    everything = await one.reader.tail("0", 100)
    ask, downs = one.reader._ask, iter(range(3))

    async def ask_again(*words: Any) -> list[AuditEntry]:
        if next(downs, None) is not None:
            raise Unavailable("down")
        return await ask(*words)

    monkeypatch.setattr(one.reader, "_ask", ask_again)
    async with asyncio.timeout(60):
        async for entry in one.reader.follow(everything[0].id, 3, 0.01):
            assert entry == everything[1]
            break
    assert next(downs, None) is None


async def test_who_was_refused_most(one: Auditing) -> None:
    one.audit.rejected("send", "mallory", 900)
    one.audit.rejected("read", "mallory", 20)
    one.audit.rejected("send", "alice", 3)
    one.audit.acted("limits.set", "backend", user_id="mallory")
    await one.write()
    await one.count_all()
    assert await one.reader.top_rejects(2) == [
        Rejects("mallory", "send", 900),
        Rejects("mallory", "read", 20),
        Rejects("alice", "send", 3),
    ]
    assert len(await one.reader.top_rejects(2, limit=1)) == 1
    minutes = await one.reader.sums(60)
    assert len(minutes) == 60
    assert sum(count for sums in minutes.values() for (kind, _, _), count in sums.items() if kind == "reject") == 923
    assert sum(count for sums in minutes.values() for (kind, _, _), count in sums.items() if kind == "admin") == 1


async def test_only_the_minutes_asked_for_count(one: Auditing) -> None:
    one.audit.rejected("send", "alice", 3)
    await one.write()
    await one.count_all()
    one.clock.ahead_ms = 10 * 60_000
    assert await one.reader.top_rejects(5) == []
    assert await one.reader.top_rejects(20) == [Rejects("alice", "send", 3)]
    assert len(await one.reader.sums(100_000)) == bounds.AUDIT_MINUTES_MAX


async def test_the_lag_says_what_waits_and_what_is_taken(one: Auditing) -> None:
    assert await one.reader.lag() == Lag(0, 0, 0, 0)
    await noted(one, 10)
    assert await one.reader.lag() == Lag(10, 10, 0, 0)
    taken = await one.worker("dead").take(1)
    assert await one.reader.lag() == Lag(10, 10 - len(taken), len(taken), 0)
    await one.count_all(one.worker("n2", idle_s=0))
    assert await one.reader.lag() == Lag(10, 0, 0, 0)
