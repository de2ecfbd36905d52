"""The scripts of the audit stream on a real server: written once, taken over, counted once, given up, counted anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tidings import bounds
from tidings.clock import Clock
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.audit import FOLDS, SOURCES, AuditScripts, minute_of
from tidings.stores.keyspace.server import SingleKeyspace, open_keyspace
from tidings_proof.world.valkey import ValkeyProcess


class Stream:
    """Shard 0 under a prefix of its own."""

    def __init__(self, keyspace: SingleKeyspace) -> None:
        self.keyspace = keyspace
        self.scripts = AuditScripts(Keys(f"audit{Clock().random_id(4)}."))
        self.key = self.scripts.keys.audit(0)

    async def add(self, *events: bytes, token: str = "") -> int:
        return await self.keyspace.one(self.scripts.audit_add(0, "n1", token or Clock().random_id(4), events))

    async def take(self, worker: str, limit: int = 100, idle_ms: int = 60_000) -> list[tuple[str, bytes]]:
        return await self.keyspace.one(self.scripts.audit_take(0, worker, limit=limit, idle_ms=idle_ms))

    async def fold(self, *counted: tuple[str, str, int]) -> int:
        return await self.keyspace.one(self.scripts.audit_fold(0, minute_of(counted[0][0]), counted))

    async def sums(self, minute: int) -> dict[str, int]:
        key = self.scripts.keys.audit_sums(0, minute)
        flat = await self.ask(key, b"HGETALL", key)
        found = {field.decode(): int(n) for field, n in zip(flat[::2], flat[1::2], strict=True)}
        found.pop(FOLDS, None)
        return found

    async def ask(self, key: str, *words: Any) -> Any:
        return await self.keyspace.one(plain(key, *words))


@pytest.fixture
async def stream(valkey: ValkeyProcess) -> AsyncIterator[Stream]:
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), Clock())
    yield Stream(keyspace)
    await keyspace.close()


async def test_a_flush_that_comes_again_is_written_once(stream: Stream) -> None:
    assert await stream.add(b"a", b"b", token="first") == 2
    assert await stream.add(b"a", b"b", token="first") == 0
    assert await stream.add(b"c", token="second") == 1
    assert [event for _, event in await stream.take("w")] == [b"a", b"b", b"c"]
    assert await stream.ask(stream.key, b"TTL", stream.scripts.keys.audit_flush(0, "n1")) > 0


async def test_an_entry_is_of_one_worker_until_that_one_is_silent_for_long(stream: Stream) -> None:
    await stream.add(b"a", b"b")
    first = await stream.take("dead", limit=1)
    assert [event for _, event in first] == [b"a"]
    assert [event for _, event in await stream.take("w")] == [b"b"]
    assert await stream.take("w") == []
    assert await stream.take("w", limit=1, idle_ms=0) == first


async def test_an_entry_is_counted_by_whoever_is_first(stream: Stream) -> None:
    await stream.add(b"a")
    [(entry_id, _)] = await stream.take("slow")
    await stream.take("quick", idle_ms=0)
    counted = (entry_id, "reject:send:alice", 7)
    assert await stream.fold(counted) == 1
    assert await stream.fold(counted) == 0
    assert await stream.sums(minute_of(entry_id)) == {"reject:send:alice": 7}
    assert await stream.take("later", idle_ms=0) == []


async def test_an_entry_that_nobody_counts_is_a_dead_letter_after_five_deliveries(stream: Stream) -> None:
    await stream.add(b"poison")
    handed_out = [await stream.take("w", idle_ms=0) for _ in range(bounds.AUDIT_DELIVERIES_MAX + 2)]
    assert [len(taken) for taken in handed_out] == [1] * bounds.AUDIT_DELIVERIES_MAX + [0, 0]
    dead = stream.scripts.keys.audit_dead(0)
    [(_, fields)] = await stream.ask(dead, b"XRANGE", dead, b"-", b"+")
    assert fields == [b"id", handed_out[0][0][0].encode(), b"event", b"poison"]


async def test_an_entry_without_an_event_is_handed_out_as_an_empty_one(stream: Stream) -> None:
    await stream.ask(stream.key, b"XADD", stream.key, b"*", b"other", b"field")
    assert [event for _, event in await stream.take("w")] == [b""]


async def test_past_the_bound_users_are_counted_together(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "AUDIT_SUMS_MAX", 2)
    await stream.add(*[b"x"] * 5)
    ids = [entry_id for entry_id, _ in await stream.take("w")]
    await stream.fold(*((id_, f"reject:send:u{n % 4}", 1) for n, id_ in enumerate(ids)))
    sums = await stream.sums(minute_of(ids[0]))
    assert sums == {"reject:send:u0": 2, "reject:send:u1": 1, "reject:send:*": 2}


async def test_a_recount_replaces_the_sums_unless_somebody_counted_meanwhile(stream: Stream) -> None:
    await stream.add(b"a", b"b")
    (one, _), (two, _) = await stream.take("w")
    minute = minute_of(one)
    await stream.fold((one, "reject:send:alice", 100))
    again = stream.scripts.audit_recount(0, minute, "", two, [("reject:send:alice", 3)])
    assert not await stream.keyspace.one(again)
    again = stream.scripts.audit_recount(0, minute, "1", two, [("reject:send:alice", 3)])
    assert await stream.keyspace.one(again)
    assert await stream.fold((two, "reject:send:alice", 50)) == 0  # what was pending was in the recount
    assert await stream.sums(minute) == {"reject:send:alice": 3}


async def test_the_group_is_made_again_where_the_stream_was_lost(stream: Stream) -> None:
    await stream.add(b"a")
    await stream.take("w")
    await stream.ask(stream.key, b"DEL", stream.key)
    assert await stream.take("w") == []
    await stream.add(b"b")
    assert [event for _, event in await stream.take("w")] == [b"b"]


async def test_the_stream_is_capped(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "AUDIT_ENTRIES_MAX", 100)
    for _ in range(10):
        await stream.add(*[b"x"] * 100)
    assert 100 <= await stream.ask(stream.key, b"XLEN", stream.key) < 300
