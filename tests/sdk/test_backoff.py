from __future__ import annotations

from tests.sdk.scripted import StillClock
from tidings.bounds import CLIENT_BACKOFF_S, CLIENT_BACKOFF_S_MAX
from tidings.sdk.backoff import Backoff


def test_the_bound_doubles_until_it_is_the_longest() -> None:
    clock = StillClock()
    clock.fraction = 1.0
    backoff = Backoff(clock)
    pauses = [backoff.next_s() for _ in range(12)]
    assert pauses[:3] == [CLIENT_BACKOFF_S, CLIENT_BACKOFF_S * 2, CLIENT_BACKOFF_S * 4]
    assert pauses[-1] == CLIENT_BACKOFF_S_MAX


def test_the_pause_is_random_so_that_not_everyone_comes_back_at_once() -> None:
    clock = StillClock()
    clock.fraction = 0.0
    assert Backoff(clock).next_s() == 0


def test_it_is_never_shorter_than_what_the_server_asked_for() -> None:
    clock = StillClock()
    clock.fraction = 0.0
    assert Backoff(clock).next_s(1_200) == 1.2


def test_success_begins_anew() -> None:
    clock = StillClock()
    backoff = Backoff(clock)
    first = backoff.next_s()
    backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == first
