"""The only door to time and randomness."""

from __future__ import annotations

import time

from tidings.clock import Clock, Dice


def test_wall_time_is_in_milliseconds() -> None:
    before_s, now_ms, after_s = time.time(), Clock().now_ms(), time.time()
    assert int(before_s * 1000) <= now_ms <= int(after_s * 1000) + 1


def test_waiting_is_measured_by_a_clock_that_never_goes_back() -> None:
    clock = Clock()
    times = [clock.monotonic_s() for _ in range(1_000)]
    assert times == sorted(times)


def test_random_ids_have_the_size_asked_for_and_do_not_repeat() -> None:
    clock = Clock()
    assert len(clock.random_id()) == 32 and len(clock.random_id(6)) == 12
    assert len({clock.random_id() for _ in range(1_000)}) == 1_000
    assert set(clock.random_id()) <= set("0123456789abcdef")


def test_fractions_are_spread_between_zero_and_one() -> None:
    clock = Clock()
    fractions = [clock.random_fraction() for _ in range(2_000)]
    assert all(0 <= fraction < 1 for fraction in fractions)
    assert min(fractions) < 0.05 and max(fractions) > 0.95


def test_the_same_seed_throws_the_same_dice() -> None:
    assert [Dice("7").random() for _ in range(3)] == [Dice("7").random()] * 3
    assert Dice("7").random() != Dice("8").random()
