from __future__ import annotations

import asyncio

from tidings.gateway.pace import Pace


async def next_turn() -> None:
    await asyncio.sleep(0)


async def test_a_few_go_at_once() -> None:
    pace, done = Pace(3), list[int]()
    assert all(pace.go(lambda n=n: done.append(n)) for n in range(3))  # type: ignore[misc]
    assert done == [0, 1, 2]


async def test_a_storm_is_spread_over_turns_in_its_order() -> None:
    pace, done = Pace(3), list[int]()
    went = [pace.go(lambda n=n: done.append(n)) for n in range(10)]  # type: ignore[misc]
    assert went == [True] * 3 + [False] * 7
    sizes = []
    while len(done) < 10:
        before = len(done)
        await next_turn()
        sizes.append(len(done) - before)
    assert done == list(range(10))
    assert max(sizes) == 3


async def test_who_comes_later_does_not_overtake_those_who_wait() -> None:
    pace, done = Pace(1), list[str]()
    for name in "abc":
        pace.go(lambda name=name: done.append(name))  # type: ignore[misc]
    await next_turn()
    assert not pace.go(lambda: done.append("late"))
    for _ in range(8):
        await next_turn()
    assert done == ["a", "b", "c", "late"]


async def test_one_that_fails_takes_nobody_with_it() -> None:
    pace, done = Pace(2), list[int]()
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))

    def fail() -> None:
        raise ValueError

    for work in (lambda: None, lambda: None, fail, lambda: done.append(1), lambda: done.append(2)):
        pace.go(work)
    for _ in range(8):
        await next_turn()
    assert done == [1, 2] and len(failures) == 1


async def test_after_a_storm_there_is_room_again() -> None:
    pace, done = Pace(2), list[int]()
    for n in range(5):
        pace.go(lambda n=n: done.append(n))  # type: ignore[misc]
    for _ in range(8):
        await next_turn()
    assert pace.go(lambda: done.append(5)) and done == list(range(6))
