"""Leases follow the keyspace's clock, carried by a clock that nobody sets."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.routing.lease_clock import LeaseClock

TOLERANCE_MS = 5_000  # far above the time of a round trip on a busy machine, far below what the tests add


def clock_of(node: FaultyNode) -> LeaseClock:
    return LeaseClock(node.core.keyspace, node.core.keys, node.clock)


async def test_before_the_first_reading_it_is_the_clock_of_the_machine(a: FaultyNode) -> None:
    a.clock.ahead_ms = 3_600_000
    assert abs(clock_of(a).now_ms() - a.clock.now_ms()) < TOLERANCE_MS


async def test_it_is_the_clock_of_the_keyspace_whatever_the_machine_says(a: FaultyNode) -> None:
    right_ms = a.clock.now_ms()
    a.clock.ahead_ms = 3_600_000
    leases = clock_of(a)
    await leases.read()
    assert abs(leases.now_ms() - right_ms) < TOLERANCE_MS
    a.clock.ahead_ms = -3_600_000
    assert abs(leases.now_ms() - right_ms) < TOLERANCE_MS, "it was set meanwhile"


async def test_between_two_readings_time_goes_on(a: FaultyNode) -> None:
    leases = clock_of(a)
    await leases.read()
    before_ms = leases.now_ms()
    a.clock.elapsed_s += 100
    assert abs(leases.now_ms() - before_ms - 100_000) < TOLERANCE_MS


async def test_a_server_with_another_clock_is_followed_at_the_next_reading(a: FaultyNode) -> None:
    leases = clock_of(a)
    await leases.read()
    before_ms = leases.now_ms()
    a.keyspace.ahead_ms = -600_000  # as after a failover
    await leases.read()
    assert abs(leases.now_ms() - before_ms + 600_000) < TOLERANCE_MS


async def test_a_reading_that_the_round_trip_explains_moves_nothing(a: FaultyNode) -> None:
    leases = clock_of(a)
    await leases.read()
    ahead_ms = leases._ahead_ms
    assert ahead_ms is not None
    await leases.read()
    assert leases._ahead_ms is not None and abs(leases._ahead_ms - ahead_ms) < TOLERANCE_MS


async def test_a_look_back_finds_the_dates_of_every_server_of_that_time(a: FaultyNode) -> None:
    leases = clock_of(a)
    await leases.read()
    for ahead_ms in (3_600_000, 0, 600_000):  # failovers: the entries of the last minute have dates of all of them
        a.keyspace.ahead_ms = ahead_ms
        await leases.read()
    right_ms = leases.now_ms() - 600_000
    assert abs(leases.earliest_ms(60) - (right_ms - 60_000)) < TOLERANCE_MS
    a.clock.elapsed_s += 120
    assert abs(leases.earliest_ms(60) - (leases.now_ms() - 60_000)) < TOLERANCE_MS, "the jumps are longer ago"
