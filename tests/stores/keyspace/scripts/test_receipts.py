"""The tick scripts on a real server: marks go forward, and what was not built or was lost is COLD."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.bounds import INDEX_TTL_S
from tidings.clock import Clock
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.receipts import SOURCES, ReceiptScripts
from tidings.stores.keyspace.server import SingleKeyspace, open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

R = TypeVar("R")
_tenants = itertools.count(1)


class Bench:
    """One conversation on a tenant of its own."""

    def __init__(self, keyspace: SingleKeyspace) -> None:
        self.keyspace = keyspace
        self.keys = Keys(f"ticks{next(_tenants)}.")
        self.scripts = ReceiptScripts(self.keys)

    async def do(self, call: Call[R]) -> R:
        return await self.keyspace.one(call)

    async def build(self, *marks: tuple[str, int, int], members_seq: int = 0) -> int:
        return await self.do(self.scripts.receipts_build("c", members_seq=members_seq, marks=marks))

    async def raised(self, user_id: str, delivered: int, read: int = 0) -> tuple[int, int] | None:
        return await self.do(self.scripts.receipts_raise("c", user_id, delivered_seq=delivered, read_seq=read))

    async def lowest(self, but: str = "", members_seq: int = 0) -> tuple[int, int] | None:
        return await self.do(self.scripts.receipts_lowest("c", members_seq=members_seq, but=but))

    async def command(self, *words: str | int) -> Any:
        return await self.do(plain(str(words[1]), *words))

    async def marks(self) -> dict[str, tuple[int, int]]:
        found: list[dict[str, int]] = []
        for key in (self.keys.delivered("c"), self.keys.readby("c")):
            flat = await self.command("ZRANGE", key, 0, -1, "WITHSCORES")
            found.append({name.decode(): int(score) for name, score in zip(flat[::2], flat[1::2], strict=True)})
        return {name: (delivered, found[1].get(name, 0)) for name, delivered in found[0].items()}


@pytest.fixture
async def bench(valkey: ValkeyProcess) -> AsyncIterator[Bench]:
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), Clock())
    yield Bench(keyspace)
    await keyspace.close()


async def test_the_lowest_is_that_of_everybody_but_the_one_who_asks(bench: Bench) -> None:
    assert await bench.build(("alice", 9, 9), ("bob", 5, 2), ("carol", 7, 4)) == 3
    assert await bench.lowest("alice") == (5, 2)
    assert await bench.lowest("bob") == (7, 4)
    assert await bench.lowest("stranger") == (5, 2)


async def test_marks_go_forward_and_never_back(bench: Bench) -> None:
    await bench.build(("alice", 0, 0), ("bob", 5, 2))
    assert await bench.raised("bob", 7, 3) == (5, 2)
    assert await bench.raised("bob", 6, 0) == (7, 3)
    assert await bench.raised("bob", 0, 9) == (7, 3)
    assert await bench.lowest("alice") == (7, 9)


async def test_what_was_not_built_is_cold_and_a_raise_does_not_make_it_warm(bench: Bench) -> None:
    assert await bench.lowest() is None
    assert await bench.raised("bob", 5) is None
    assert await bench.lowest() is None
    await bench.build(("alice", 0, 0), ("bob", 3, 0))
    assert await bench.lowest("alice") == (5, 0), "the higher of the tables and the receipt stands"
    assert await bench.raised("bob", 6) == (5, 0)


async def test_another_member_list_or_another_life_of_the_server_is_cold(bench: Bench) -> None:
    await bench.build(("alice", 1, 1), ("bob", 1, 1), members_seq=4)
    assert await bench.lowest("alice", members_seq=4) == (1, 1)
    assert await bench.lowest("alice", members_seq=5) is None
    await bench.command("HSET", bench.keys.conv("c"), "ticks", "another-epoch 4 2")
    assert await bench.lowest("alice", members_seq=4) is None
    assert await bench.raised("bob", 2) is None


async def test_marks_that_were_lost_are_not_taken_for_nothing_received(bench: Bench) -> None:
    for lost in (bench.keys.delivered("c"), bench.keys.readby("c")):
        await bench.build(("alice", 3, 3), ("bob", 2, 2))
        await bench.command("DEL", lost)
        assert await bench.lowest("alice") is None
        await bench.raised("bob", 9, 9)
        assert await bench.lowest("alice") is None, "one mark of many is not all"
    await bench.build(("alice", 3, 3), ("bob", 2, 2))
    assert await bench.lowest("alice") == (9, 9)


async def test_who_is_no_member_any_more_goes_with_the_next_build(bench: Bench) -> None:
    await bench.build(("alice", 9, 9), ("bob", 9, 9), ("carol", 1, 1))
    assert await bench.lowest("alice") == (1, 1)
    await bench.build(("alice", 9, 9), ("bob", 9, 9), members_seq=7)
    assert await bench.lowest("alice", members_seq=7) == (9, 9)
    assert set(await bench.marks()) == {"alice", "bob"}
    await bench.raised("carol", 2)  # a late receipt of one who left
    assert await bench.lowest("alice", members_seq=7) is None


async def test_every_key_has_an_end_of_life(bench: Bench) -> None:
    await bench.raised("bob", 5, 5)
    assert 0 < await bench.command("TTL", bench.keys.delivered("c")) <= INDEX_TTL_S
    assert 0 < await bench.command("TTL", bench.keys.readby("c")) <= INDEX_TTL_S
    await bench.build(("alice", 0, 0), ("bob", 0, 0))
    for key in (bench.keys.conv("c"), bench.keys.delivered("c"), bench.keys.readby("c")):
        assert 0 < await bench.command("TTL", key) <= INDEX_TTL_S


async def test_a_conversation_of_a_thousand_is_built_in_one_call(bench: Bench) -> None:
    assert await bench.build(*((f"user{n}", n + 1, n // 2) for n in range(1_000))) == 1_000
    assert await bench.lowest("user0") == (2, 0)
    assert await bench.raised("user1", 500, 400) == (2, 0)
    assert await bench.lowest("user0") == (3, 1)


MEMBERS = ("alice", "bob", "carol")
STEPS = st.lists(
    st.tuples(st.sampled_from(MEMBERS), st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=30
)


@settings(max_examples=60)
@given(steps=STEPS)
def test_builds_and_raises_commute(valkey: ValkeyProcess, steps: list[tuple[str, int, int, bool]]) -> None:
    async def run() -> None:
        keyspace = await open_keyspace(valkey.url, SOURCES.values(), Clock())
        try:
            bench, model = Bench(keyspace), dict.fromkeys(MEMBERS, (0, 0))
            for user_id, delivered, read, is_build in steps:
                model[user_id] = (max(model[user_id][0], delivered), max(model[user_id][1], read))
                if is_build:  # of tables that hold all of it, or a little less for others
                    await bench.build(*((name, *marks) for name, marks in model.items()))
                else:
                    await bench.raised(user_id, delivered, read)
            await bench.build(*((name, 0, 0) for name in MEMBERS))
            assert await bench.marks() == model
        finally:
            await keyspace.close()

    asyncio.run(run())
