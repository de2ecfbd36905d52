"""The limiter: an exact sliding window, shared by all nodes, and a memory that spares the keyspace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyKeyspace, TurnedClock, down
from tidings.bounds import Limit
from tidings.errors import NotFound, RateLimited, Unavailable
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.limits.policy import Limits
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.messaging import SOURCES, Scripts
from tidings.stores.keyspace.server import open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

LIMITS = {"send": Limit(20, 1), "read": Limit(3, 60), "off": None}


class Budgeted:
    """A limiter on a real keyspace, under a prefix of its own."""

    def __init__(self, keyspace: FaultyKeyspace, prefix: str) -> None:
        self.keyspace = keyspace
        self.clock = TurnedClock()
        scripts = Scripts(Keys(prefix), unread_cap=10, unread_ttl_s=60)
        self.limiter = Limiter(keyspace, scripts, self.clock, Limits(LIMITS))

    async def passes(self, class_name: str = "send", user_id: str = "alice") -> bool:
        try:
            await self.limiter.admit(class_name, user_id)
        except RateLimited:
            return False
        return True


@asynccontextmanager
async def budgeted(valkey: ValkeyProcess, prefix: str) -> AsyncIterator[Budgeted]:
    clock = TurnedClock()
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), clock)
    try:
        yield Budgeted(FaultyKeyspace(keyspace), prefix + clock.random_id(4))
    finally:
        await keyspace.close()


@pytest.fixture
async def one(valkey: ValkeyProcess) -> AsyncIterator[Budgeted]:
    async with budgeted(valkey, "limiter.") as one:
        yield one


async def test_exactly_the_limit_passes_however_many_ask_at_once(one: Budgeted) -> None:
    passed = await asyncio.gather(*(one.passes("read") for _ in range(200)))
    assert sum(passed) == 3


async def test_a_batch_is_admitted_as_far_as_the_window_goes(one: Budgeted) -> None:
    answers = await one.limiter.admit_many("read", [("alice", 2), ("bob", 9)])
    assert [(answer.admitted, answer.remaining) for answer in answers] == [(2, 1), (3, 0)]
    assert answers[1].retry_after_us > 59_000_000


async def test_after_a_slide_exactly_as_many_pass_as_left_the_window(one: Budgeted) -> None:
    async def some_pass(wanted: int) -> int:
        (answer,) = await one.limiter.admit_many("send", [("alice", wanted)])
        return answer.admitted

    assert await some_pass(12) == 12
    while (await one.limiter.budgets("alice"))["send"].remaining < 20:  # those twelve have left it
        await asyncio.sleep(0.02)
    assert await some_pass(5) == 5
    assert await some_pass(100) == 15
    began_s = one.clock.monotonic_s()
    while not (freed := await some_pass(100)):
        await asyncio.sleep(0.02)
    # The five came a moment before the fifteen: whatever left the window by now, and nothing else, is free.
    assert one.clock.monotonic_s() - began_s < 5
    assert freed in (5, 20)
    if freed == 5:
        while not (rest := await some_pass(100)):
            await asyncio.sleep(0.02)
        assert rest == 15


async def test_classes_and_users_do_not_eat_each_others_budget(one: Budgeted) -> None:
    assert [await one.passes("read") for _ in range(4)] == [True, True, True, False]
    assert await one.passes("send")
    assert await one.passes("read", "bob")


async def test_a_class_that_is_off_lets_everything_pass_without_asking(one: Budgeted) -> None:
    assert (await one.limiter.admit_many("off", [("alice", 1_000)]))[0].admitted == 1_000
    assert one.keyspace.said == [] and one.limiter.count_max("off", "alice") == 0


async def test_a_refused_user_is_refused_from_memory_until_a_slot_is_free(one: Budgeted) -> None:
    (answer,) = await one.limiter.admit_many("read", [("alice", 9)])
    asked = len(one.keyspace.said)
    assert [await one.passes("read") for _ in range(50)] == [False] * 50
    assert len(one.keyspace.said) == asked
    one.clock.elapsed_s = answer.retry_after_us / 1e6 - 1
    assert not await one.passes("read")
    assert len(one.keyspace.said) == asked
    one.clock.elapsed_s = answer.retry_after_us / 1e6 + 1
    assert not await one.passes("read")  # the keyspace's own clock did not move: it decides
    assert len(one.keyspace.said) == asked + 1


async def test_what_a_refusal_says(one: Budgeted) -> None:
    for _ in range(3):
        await one.limiter.admit("read", "alice")
    with pytest.raises(RateLimited) as refused:
        await one.limiter.admit("read", "alice")
    assert (refused.value.limit, refused.value.class_name) == (3, "read")
    assert 59_000 < (refused.value.retry_after_ms or 0) <= 60_001


async def test_a_slot_given_back_is_free_at_once(one: Budgeted) -> None:
    (answer,) = await one.limiter.admit_many("read", [("alice", 9)])
    await one.limiter.give_back("read", {"alice": [f"{answer.token}:2"]})
    assert [await one.passes("read") for _ in range(2)] == [True, False]


async def test_looking_at_the_budgets_uses_none_of_them(one: Budgeted) -> None:
    await one.passes("read")
    for _ in range(5):
        budgets = await one.limiter.budgets("alice")
        assert {name: budget.remaining for name, budget in budgets.items()} == {"send": 20, "read": 2}


async def test_two_nodes_see_one_window(valkey: ValkeyProcess, one: Budgeted) -> None:
    other = Budgeted(one.keyspace, one.limiter._scripts.keys.prefix)
    passed = await asyncio.gather(*(node.passes("read") for node in (one, other) for _ in range(20)))
    assert sum(passed) == 3


async def test_while_the_keyspace_is_down_a_class_is_counted_on_this_node(one: Budgeted) -> None:
    one.keyspace.fail("limiter_admit", *[down] * 10)
    assert [await one.passes("read") for _ in range(5)] == [True, True, True, False, False]
    one.clock.elapsed_s = 61.0
    assert await one.passes("read")


async def test_a_batch_of_sends_is_not_admitted_while_the_keyspace_is_down(one: Budgeted) -> None:
    one.keyspace.fail("limiter_admit", down)
    with pytest.raises(Unavailable):
        await one.limiter.admit_many("send", [("alice", 1)])


async def test_the_block_runs_while_the_keyspace_is_asked_if_there_is_room(
    one: Budgeted, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, asked = one.keyspace.begin, list[Sequence[Call[Any]]]()

    def recorded(calls: Sequence[Call[Any]]) -> asyncio.Task[list[Any]]:
        asked.append(calls)
        return begin(calls)

    monkeypatch.setattr(one.keyspace, "begin", recorded)
    async with one.limiter.admitted("send", "alice"):
        assert len(asked) == 1, "the question is under way when the block begins"
    assert (await one.limiter.budgets("alice"))["send"].remaining == 19


async def test_the_block_is_not_begun_when_a_refusal_is_likely(one: Budgeted) -> None:
    begun = []

    async def passes() -> bool:
        try:
            async with one.limiter.admitted("send", "alice"):
                begun.append(1)
        except RateLimited:
            return False
        return True

    assert [await passes() for _ in range(23)] == [True] * 20 + [False] * 3
    assert len(begun) == 20


async def test_a_refusal_is_raised_whatever_the_block_came_to(one: Budgeted) -> None:
    for i in range(20):  # by another node: this one does not expect a refusal
        key = one.limiter._scripts.keys.rate("alice", "send")
        await one.keyspace.one(plain(key, "ZADD", key, TurnedClock().now_ms() * 1000 + i, f"other:{i}"))
    with pytest.raises(RateLimited):
        async with one.limiter.admitted("send", "alice"):
            raise NotFound("no such conversation")
    with pytest.raises(NotFound):
        async with one.limiter.admitted("send", "bob"):
            raise NotFound("no such conversation")


async def test_a_request_takes_as_many_slots_as_it_costs(one: Budgeted) -> None:
    await one.limiter.admit("send", "alice", 15)
    assert (await one.limiter.budgets("alice"))["send"].remaining == 5


async def test_a_dear_request_passes_whole_or_not_at_all_and_a_cheap_one_still_passes(one: Budgeted) -> None:
    await one.limiter.admit("read", "alice", 2)
    with pytest.raises(RateLimited):
        await one.limiter.admit("read", "alice", 2)
    assert [await one.passes("read") for _ in range(2)] == [True, False]


async def test_a_dear_request_is_refused_from_memory_until_it_can_pass(one: Budgeted) -> None:
    await one.limiter.admit("read", "alice", 2)
    with pytest.raises(RateLimited) as refused:
        await one.limiter.admit("read", "alice", 2)
    assert 59_000 < (refused.value.retry_after_ms or 0) <= 60_001
    asked = len(one.keyspace.said)
    for cost in (2, 3):
        with pytest.raises(RateLimited):
            await one.limiter.admit("read", "alice", cost)
    assert len(one.keyspace.said) == asked


async def test_a_request_that_costs_more_than_the_limit_takes_a_whole_window(one: Budgeted) -> None:
    await one.limiter.admit("read", "alice", 1_000)
    assert not await one.passes("read")
    await one.limiter.admit("off", "alice", 1_000)


async def test_a_dear_request_costs_as_much_while_the_keyspace_is_down(one: Budgeted) -> None:
    one.keyspace.fail("limiter_admit", *[down] * 10)
    await one.limiter.admit("read", "alice", 2)
    with pytest.raises(RateLimited):
        await one.limiter.admit("read", "alice", 2)
    assert await one.passes("read")


async def test_many_users_are_asked_about_in_one_round_trip_and_one_refusal_is_no_others(one: Budgeted) -> None:
    await one.limiter.admit("read", "bob", 3)
    one.keyspace.runs.clear()
    alice, bob, carol = await one.limiter.admit_each("read", [("alice", 1), ("bob", 1), ("carol", 10)])
    assert (alice, carol) == (None, None)
    assert bob is not None and 0 < (bob.retry_after_ms or 0) <= 60_000
    assert one.keyspace.runs == [["limiter_admit"] * 3]
    assert [answer is None for answer in await one.limiter.admit_each("read", [("alice", 1), ("carol", 1)])] == [
        True,
        False,
    ]


async def test_many_users_are_counted_on_this_node_while_the_keyspace_is_down(one: Budgeted) -> None:
    one.keyspace.fail("limiter_admit", *[down] * 2)
    assert await one.limiter.admit_each("read", [("alice", 3), ("bob", 1)]) == [None, None]
    alice, bob = await one.limiter.admit_each("read", [("alice", 1), ("bob", 1)])
    assert alice is not None and bob is None


@pytest.mark.parametrize("is_down", [False, True])
async def test_of_several_requests_those_over_the_budget_are_refused_alone(one: Budgeted, is_down: bool) -> None:
    one.keyspace.fail("limiter_admit", *[down] * 3 * is_down)
    (count, refusal), bob = await one.limiter.admit_first("read", [("alice", 5), ("bob", 3)])
    assert count == 3 and bob == (3, None)  # the limit is 3 a minute
    assert refusal is not None and 0 < (refusal.retry_after_ms or 0) <= 60_001
    ((count, refusal),) = await one.limiter.admit_first("read", [("alice", 1)])
    assert count == 0 and refusal is not None


async def test_a_clock_that_was_set_back_by_an_hour_refuses_nobody_for_an_hour(one: Budgeted) -> None:
    await one.limiter.admit("read", "alice", 3)
    key = one.limiter._scripts.keys.rate("alice", "read")
    names = await one.keyspace.one(plain(key, b"ZRANGE", key, 0, -1))
    for name in names:  # as if the clock had been an hour ahead when they were taken
        await one.keyspace.one(plain(key, b"ZINCRBY", key, 3_600_000_000, name))
    assert [await one.passes("read") for _ in range(4)] == [True, True, True, False]


async def test_the_budgets_leave_out_slots_that_a_clock_set_back_left_in_the_future(one: Budgeted) -> None:
    await one.limiter.admit("read", "alice")
    key = one.limiter._scripts.keys.rate("alice", "read")
    (name,) = await one.keyspace.one(plain(key, b"ZRANGE", key, 0, -1))
    await one.keyspace.one(plain(key, b"ZINCRBY", key, 3_600_000_000, name))
    assert (await one.limiter.budgets("alice"))["read"].remaining == 3
