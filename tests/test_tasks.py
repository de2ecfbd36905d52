"""Background work is bounded, shared and quiet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.waiting import eventually
from tidings import tasks
from tidings.errors import StoreUnavailable, Unavailable
from tidings.tasks import (
    AwaitedListeners,
    Ending,
    KeyedLock,
    KeyedWork,
    Listeners,
    Loop,
    Recent,
    SingleFlight,
    TaskSet,
    Weighed,
    cancel,
    to_beat_s,
    wait_at_most,
)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    return [(record.levelname, record.message, vars(record)["task"]) for record in caplog.records]


async def test_work_past_the_bound_is_dropped() -> None:
    tasks, gate, done = TaskSet(2), asyncio.Event(), list[int]()

    async def work(number: int) -> None:
        await gate.wait()
        done.append(number)

    assert [tasks.run(work(number), "work") for number in range(3)] == [True, True, False]
    gate.set()
    await eventually(lambda: len(tasks) == 0)
    assert done == [0, 1]


async def test_trouble_of_the_stores_is_a_debug_line_and_our_mistake_an_error(caplog: pytest.LogCaptureFixture) -> None:
    tasks = TaskSet(10)

    async def fail(error: Exception) -> None:
        raise error

    with caplog.at_level(logging.DEBUG, "tidings.tasks"):
        tasks.run(fail(Unavailable("no answer")), "presence")
        tasks.run(fail(KeyError("x")), "typing")
        await eventually(lambda: len(tasks) == 0)
    assert lines(caplog) == [
        ("DEBUG", "background work was dropped", "presence"),
        ("ERROR", "background work failed", "typing"),
    ]


async def test_closing_ends_what_is_under_way() -> None:
    tasks, is_ended = TaskSet(10), asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            is_ended.set()

    tasks.run(wait(), "wait")
    await asyncio.sleep(0)
    await tasks.close()
    assert is_ended.is_set()
    assert len(tasks) == 0


async def test_those_who_ask_meanwhile_share_a_run_and_the_next_one_is_new() -> None:
    gate, runs = asyncio.Event(), 0

    async def run() -> int:
        nonlocal runs
        runs += 1
        await gate.wait()
        return runs

    shared = SingleFlight(run, 5.0)
    asked = [asyncio.ensure_future(shared()) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()  # one who leaves takes nothing from the others
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*asked[1:]) == [1, 1]
    assert await shared() == 2


async def test_a_run_that_takes_too_long_is_given_up_and_the_next_may_try() -> None:
    hangs = True

    async def run() -> str:
        await (asyncio.Event().wait() if hangs else asyncio.sleep(0))
        return "done"

    shared = SingleFlight(run, 0.02)
    with pytest.raises(StoreUnavailable, match=r"0\.02 s"):
        await shared()
    hangs = False
    assert await shared() == "done"


async def test_what_goes_wrong_is_told_to_everyone_who_asked() -> None:
    async def run() -> None:
        raise ValueError("no")

    shared = SingleFlight(run, 1.0)
    answers = await asyncio.gather(shared(), shared(), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError, ValueError]


async def test_a_loop_outlives_store_errors_and_mistakes(caplog: pytest.LogCaptureFixture) -> None:
    errors, steps = [Unavailable("no answer"), Unavailable("no answer"), KeyError("x")], 0

    async def step() -> None:
        nonlocal steps
        steps += 1
        if errors:
            raise errors.pop(0)

    loop = Loop("sums", 0.001, step)
    with caplog.at_level(logging.DEBUG, "tidings.tasks"):
        loop.start()
        await eventually(lambda: steps > 4)
    await loop.stop()
    assert lines(caplog) == [
        ("INFO", "background task waits for a store", "sums"),
        ("DEBUG", "background task waits for a store", "sums"),
        ("ERROR", "background task failed", "sums"),
    ]


async def test_a_loop_that_has_more_to_do_does_not_pause() -> None:
    steps = 0

    async def step() -> bool:
        nonlocal steps
        steps += 1
        await asyncio.sleep(0)
        return steps < 100

    loop = Loop("eager", 3600.0, step, is_eager=True)
    loop.start()
    await eventually(lambda: steps == 100)
    await loop.stop()


async def test_a_loop_pauses_before_its_first_step_and_stops_at_once() -> None:
    async def step() -> None:
        pytest.fail("too early")

    loop = Loop("patient", 3600.0, step)
    await loop.stop()  # it was never started
    loop.start()
    await asyncio.sleep(0)
    await loop.stop()


async def test_a_loop_that_is_nudged_does_not_wait() -> None:
    steps = 0

    async def step() -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            loop.nudge()  # during a step: the next one follows it

    loop = Loop("push", 3600.0, step)
    loop.start()
    loop.nudge()
    await eventually(lambda: steps == 2)
    await loop.stop()


async def test_a_wait_for_an_event_ends_with_the_event_or_with_its_time() -> None:
    event = asyncio.Event()
    await wait_at_most(event, 0.0)
    assert event.is_set()
    event.clear()
    waiting = asyncio.create_task(wait_at_most(event, 1e6))
    await asyncio.sleep(0)
    assert not waiting.done()
    event.set()
    await waiting


async def test_long_pauses_end_on_a_common_beat_and_short_ones_when_they_say() -> None:
    now_s = asyncio.get_running_loop().time()
    ends_s = [now_s + to_beat_s(most_s) for most_s in (0.5, 1.0, 2.0)]
    assert all(abs(end_s / 0.25 - round(end_s / 0.25)) < 0.2 for end_s in ends_s)
    assert all(most_s - 0.25 <= to_beat_s(most_s) <= most_s + 0.01 for most_s in (0.25, 0.5, 1.0, 2.0, 300.0))
    assert to_beat_s(0.1) == 0.1


async def test_the_last_work_of_a_loop_is_done_when_it_stops(caplog: pytest.LogCaptureFixture) -> None:
    done = list[str]()

    async def flush() -> None:
        done.append("flushed")
        raise Unavailable("no answer")

    loop = Loop("audit", 3600.0, flush, at_end=flush)
    loop.start()
    await loop.stop()
    assert done == ["flushed"]
    assert lines(caplog) == [("WARNING", "background task lost its last work", "audit")]


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_CANCEL_AGAIN_S", 0.01)
    swallowed = list[str]()

    async def swallows() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.append("once")
        await asyncio.Event().wait()

    task = asyncio.get_running_loop().create_task(swallows())
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await cancel(task, None)
    assert task.cancelled() and swallowed == ["once"]


async def test_parts_end_in_order_though_one_fails_and_another_hangs(caplog: pytest.LogCaptureFixture) -> None:
    ended = list[str]()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hangs")

    async def fails() -> None:
        raise RuntimeError("our mistake")

    async def ends() -> None:
        ended.append("ends")

    async with asyncio.timeout(60):
        ending = Ending(0.05)
        for part in (fails, hangs, ends):
            await ending(part.__name__, part)
    assert ended == ["hangs", "ends"]
    said = [(record.message, vars(record)["part"], vars(record)["cause"]) for record in caplog.records]
    assert said == [
        ("part failed at its end", "fails", "our mistake"),
        ("part did not end", "hangs", "not within 0.05 s"),
    ]


async def test_each_key_has_a_flight_of_its_own_and_closing_ends_them() -> None:
    begun, gate = list[str](), asyncio.Event()

    async def run(key: str) -> str:
        begun.append(key)
        await gate.wait()
        return key

    flights = SingleFlight(run)
    asked = [asyncio.ensure_future(flights(key)) for key in ("a", "b", "a")]
    await eventually(lambda: len(begun) == 2)
    gate.set()
    await flights.settle()
    assert await asyncio.gather(*asked) == ["a", "b", "a"]
    gate.clear()
    late = asyncio.ensure_future(flights("c"))
    await eventually(lambda: begun[-1] == "c")
    await flights.close()
    assert (await asyncio.gather(late, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_callers_of_one_key_wait_for_each_other_and_of_two_do_not() -> None:
    locks, inside, gate = KeyedLock[str](), list[str](), asyncio.Event()

    async def enter(key: str, name: str) -> None:
        async with locks(key):
            inside.append(name)
            await gate.wait()

    tasks = [asyncio.ensure_future(enter(*pair)) for pair in (("a", "a1"), ("a", "a2"), ("b", "b1"))]
    await eventually(lambda: len(inside) == 2)
    assert inside == ["a1", "b1"]
    gate.set()
    await asyncio.gather(*tasks)
    assert inside[2:] == ["a2"] and not locks._locks, "a lock that is free is not kept"


def test_the_keys_that_were_put_last_are_kept() -> None:
    recent = Recent[str, int](3)
    for number, key in enumerate("abca"):
        recent.put(key, number)
    recent.put("d", 4)
    assert recent == {"c": 2, "a": 3, "d": 4}


def test_a_full_map_makes_room_for_many_at_once() -> None:
    recent = Recent[int, int](160)
    for key in range(161):
        recent.put(key, key)
    assert list(recent) == list(range(11, 161))


async def test_listeners_hear_an_event_in_the_order_they_came() -> None:
    heard = list[tuple[str, str]]()
    spoken, awaited = Listeners[[str]](), AwaitedListeners[[str]]()

    def second(word: str) -> None:
        heard.append(("second", word))

    async def third(word: str) -> None:
        heard.append(("third", word))

    spoken("lost")
    spoken.add(lambda word: heard.append(("first", word)))
    spoken.add(second)
    awaited.add(third)
    spoken("a")
    spoken.remove(second)
    spoken("b")
    await awaited("c")
    assert heard == [("first", "a"), ("second", "a"), ("first", "b"), ("third", "c")]


# --- weighed -------------------------------------------------------------------------------------------


def test_past_the_bound_the_values_go_that_were_used_least_recently() -> None:
    kept = Weighed[str, str](10)
    kept.put("a", "A", 4)
    kept.put("b", "B", 4)
    assert kept.get("a") == "A"
    kept.put("c", "C", 4)
    assert (kept.get("a"), kept.get("b"), kept.get("c"), kept.weight, len(kept)) == ("A", None, "C", 8, 2)
    kept.put("a", "AA", 1)
    kept.pop("c")
    kept.pop("never")
    assert (kept.get("a"), kept.weight) == ("AA", 1)


def test_a_value_that_is_heavier_than_the_bound_is_kept_alone() -> None:
    kept = Weighed[str, str](10)
    kept.put("a", "A", 4)
    kept.put("b", "B", 40)
    assert (kept.get("a"), kept.get("b"), len(kept)) == (None, "B", 1)


# --- work for keys --------------------------------------------------------------------------------


class Starts:
    """Starts tasks, and knows how many are under way."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    def __call__(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    @property
    def under_way(self) -> int:
        return sum(not task.done() for task in self.tasks)


async def test_keys_past_the_bound_wait_without_a_task_and_each_has_its_turn() -> None:
    starts, gate, done = Starts(), asyncio.Event(), list[int]()

    async def work(key: int) -> None:
        await gate.wait()
        done.append(key)

    keyed = KeyedWork(2, work, starts)
    for key in range(50):
        keyed.add(key)
    await asyncio.sleep(0)
    assert starts.under_way == 2 and len(keyed) == 50 and 49 in keyed
    gate.set()
    await asyncio.gather(*starts.tasks)
    assert sorted(done) == list(range(50)) and not keyed and starts.under_way == 0


async def test_a_key_that_comes_again_while_it_is_under_way_is_done_once_more_and_never_twice_at_a_time() -> None:
    starts, gates, under_way = Starts(), [asyncio.Event(), asyncio.Event()], list[str]()
    begun = 0

    async def work(key: str) -> None:
        nonlocal begun
        assert key not in under_way
        under_way.append(key)
        begun += 1
        await gates[begun - 1].wait()
        under_way.remove(key)

    keyed = KeyedWork(5, work, starts)
    keyed.add("a")
    await asyncio.sleep(0)
    keyed.add("a")
    keyed.add("a")
    assert begun == 1
    gates[0].set()
    await eventually(lambda: begun == 2)
    gates[1].set()
    await asyncio.gather(*starts.tasks)
    assert begun == 2 and "a" not in keyed


async def test_a_mistake_with_one_key_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    starts, done = Starts(), list[int]()

    async def work(key: int) -> None:
        done.append(1 // key)

    keyed = KeyedWork(1, work, starts)
    for key in (0, 1):
        keyed.add(key)
    await asyncio.gather(*starts.tasks)
    assert done == [1] and lines(caplog) == [("ERROR", "background work failed", "keyed work")]
