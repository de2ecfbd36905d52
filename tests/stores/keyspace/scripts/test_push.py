"""The scripts of pending deliveries and push on a real server: what they take, put off, hand out and give up."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tidings import bounds
from tidings.clock import Clock
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.push import SOURCES, Claimed, GivenUp, PushScripts, Taken, due_shard, push_shard
from tidings.stores.keyspace.server import SingleKeyspace, open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

_numbers = itertools.count(1)


class Shard:
    """Shard 3 of a keyspace of its own."""

    def __init__(self, keyspace: SingleKeyspace) -> None:
        self.keyspace = keyspace
        self.keys = Keys(f"sp{next(_numbers)}.")
        self.scripts = PushScripts(self.keys)

    async def add(self, **scores: int) -> None:
        pairs = [(score, id_) for id_, score in scores.items()]
        await self.keyspace.one(self.scripts.due_add(3, pairs, lambda reply: None))

    async def claim(self, limit: int = 10, hold_ms: int = 30_000) -> Claimed:
        return await self.keyspace.one(self.scripts.due_claim(3, limit=limit, hold_ms=hold_ms))

    async def settle(self, id_: str, until_ms: int, next_ms: int = 0) -> bool:
        return await self.keyspace.one(self.scripts.due_settle(3, id_, until_ms=until_ms, next_ms=next_ms))

    async def score(self, id_: str) -> int | None:
        found = await self.command("ZSCORE", self.keys.due(3), id_)
        return None if found is None else int(float(found))

    async def take(self, consumer: str = "a", limit: int = 10, idle_ms: int = 30_000, most: int = 5) -> Taken:
        call = self.scripts.push_take(3, consumer, limit=limit, idle_ms=idle_ms, deliveries_max=most)
        return await self.keyspace.one(call)

    async def put(self, *jobs: bytes) -> None:
        key = self.keys.push(3)
        await self.keyspace.run([plain(key, "XADD", key, "*", "job", job) for job in jobs])

    async def command(self, *words: str | int) -> Any:
        return await self.keyspace.one(plain("", *words))


@pytest.fixture
async def shard(valkey: ValkeyProcess) -> AsyncIterator[Shard]:
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), Clock())
    yield Shard(keyspace)
    await keyspace.close()


def jobs_of(pile: tuple[tuple[str, bytes], ...]) -> list[bytes]:
    return [job for _, job in pile]


# --- due ------------------------------------------------------------------------------------------


async def test_what_is_due_is_taken_once_and_put_off(shard: Shard) -> None:
    far = Clock().now_ms() + 60_000
    await shard.add(c1=1, c2=2, c3=far)
    claimed = await shard.claim()
    assert claimed.conversation_ids == ("c1", "c2")
    assert claimed.until_ms == claimed.now_ms + 30_000 and abs(claimed.now_ms - Clock().now_ms()) < 10_000
    assert await shard.score("c1") == claimed.until_ms and await shard.score("c3") == far
    assert (await shard.claim()).conversation_ids == ()


async def test_no_more_is_taken_than_asked_for_and_the_oldest_first(shard: Shard) -> None:
    await shard.add(c3=3, c1=1, c2=2)
    assert (await shard.claim(limit=2)).conversation_ids == ("c1", "c2")
    assert (await shard.claim(limit=2)).conversation_ids == ("c3",)


async def test_what_nobody_settles_is_due_again(shard: Shard) -> None:
    await shard.add(c1=1)
    await shard.claim(hold_ms=0)
    assert (await shard.claim()).conversation_ids == ("c1",)


async def test_a_set_that_was_lost_has_another_birth(shard: Shard) -> None:
    first, again = await shard.claim(), await shard.claim()
    assert first.birth == again.birth
    await shard.command("DEL", shard.keys.due(3))
    assert (await shard.claim()).birth != first.birth


async def test_settling_takes_off_or_names_the_next_time(shard: Shard) -> None:
    await shard.add(c1=1, c2=2)
    claimed = await shard.claim()
    assert await shard.settle("c1", claimed.until_ms)
    assert await shard.settle("c2", claimed.until_ms, next_ms=claimed.now_ms + 500)
    assert (await shard.score("c1"), await shard.score("c2")) == (None, claimed.now_ms + 500)


async def test_what_was_asked_for_meanwhile_is_not_settled(shard: Shard) -> None:
    await shard.add(c1=1)
    claimed = await shard.claim()
    await shard.add(c1=claimed.now_ms + 10)
    assert not await shard.settle("c1", claimed.until_ms)
    assert await shard.score("c1") == claimed.now_ms + 10
    assert not await shard.settle("gone", claimed.until_ms)


async def test_an_earlier_time_is_not_put_off_by_a_later_one(shard: Shard) -> None:
    await shard.add(c1=5)
    await shard.add(c1=9)
    assert await shard.score("c1") == 5


# --- push -----------------------------------------------------------------------------------------


async def test_a_job_is_handed_to_one_worker_and_ends_out_of_the_stream(shard: Shard) -> None:
    await shard.put(b"one", b"two")
    first, second = await shard.take("a", limit=1), await shard.take("b")
    assert (jobs_of(first.jobs), jobs_of(second.jobs)) == ([b"one"], [b"two"])
    await shard.keyspace.run(shard.scripts.push_done(3, first.jobs[0][0]))
    assert await shard.command("XLEN", shard.keys.push(3)) == 1
    pending = await shard.command("XPENDING", shard.keys.push(3), "notify")
    assert pending[0] == 1


async def test_what_a_worker_left_goes_to_another_and_before_what_is_new(shard: Shard) -> None:
    await shard.put(b"left")
    await shard.take("dead")
    await shard.put(b"new")
    taken = await shard.take("b", limit=1, idle_ms=0)
    assert jobs_of(taken.jobs) == [b"left"]
    assert jobs_of((await shard.take("b", limit=5)).jobs) == [b"new"]


async def test_after_so_many_deliveries_a_job_is_given_up(shard: Shard) -> None:
    await shard.put(b"poison")
    for _ in range(3):
        assert jobs_of((await shard.take(idle_ms=0, most=3)).jobs) == [b"poison"]
    taken = await shard.take(idle_ms=0, most=3)
    assert (jobs_of(taken.jobs), jobs_of(taken.dead)) == ([], [b"poison"])


async def test_a_job_that_was_put_off_comes_back_when_it_is_time(shard: Shard) -> None:
    now_ms = Clock().now_ms()
    await shard.keyspace.run(
        [shard.scripts.push_put_off(3, b"later", now_ms + 60_000), shard.scripts.push_put_off(3, b"now", now_ms - 1)]
    )
    assert jobs_of((await shard.take()).jobs) == [b"now"]
    assert await shard.command("ZRANGE", shard.keys.push_later(3), 0, -1) == [b"later"]


async def test_jobs_of_before_the_group_was_made_are_handed_out(shard: Shard) -> None:
    assert await shard.take() == Taken((), ())
    await shard.command("DEL", shard.keys.push(3))
    await shard.put(b"early")
    assert jobs_of((await shard.take()).jobs) == [b"early"]


async def test_a_job_that_was_trimmed_is_passed_over(shard: Shard) -> None:
    await shard.put(b"one", b"two")
    await shard.take("dead")
    await shard.command("XTRIM", shard.keys.push(3), "MAXLEN", 1)
    assert jobs_of((await shard.take("b", idle_ms=0)).jobs) == [b"two"]


async def test_jobs_go_to_their_users_shard_and_dead_letters_keep_their_reason(shard: Shard) -> None:
    await shard.keyspace.run([shard.scripts.push_add("bob", b"job"), shard.scripts.push_bury(b"job", "too old")])
    assert await shard.command("XLEN", shard.keys.push(push_shard("bob"))) == 1
    [(_, fields)] = await shard.command("XRANGE", shard.keys.push_dead, "-", "+")
    assert fields == [b"job", b"job", b"reason", b"too old"]


def test_shards_are_within_their_bounds() -> None:
    names = [f"name{number}" for number in range(500)]
    assert {due_shard(name) for name in names} == set(range(bounds.DUE_SHARDS))
    assert {push_shard(name) for name in names} == set(range(bounds.PUSH_SHARDS))


async def test_what_is_put_off_beyond_the_bound_crowds_out_what_would_wait_longest(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PUSH_JOBS_MAX", 2)
    far = Clock().now_ms() + 60_000
    given_up = [
        await shard.keyspace.one(shard.scripts.push_put_off(3, job, far + wait_ms))
        for job, wait_ms in ((b"b", 2), (b"a", 1), (b"b", 3), (b"c", 3), (b"d", 0))
    ]
    assert given_up == [GivenUp(()), GivenUp(()), GivenUp(()), GivenUp((b"c",)), GivenUp((b"b",))]
    assert await shard.command("ZRANGE", shard.keys.push_later(3), 0, -1) == [b"d", b"a"]
