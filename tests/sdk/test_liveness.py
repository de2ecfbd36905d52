from __future__ import annotations

import pytest

from tests.sdk.scripted import StillClock
from tidings.sdk.liveness import Liveness, Verdict


class TwoClocks(StillClock):
    """A steady clock, and one of the day that can go on alone."""

    def __init__(self) -> None:
        super().__init__()
        self.day_s = 0.0

    def now_ms(self) -> int:
        return int((self.now_s + self.day_s) * 1000)


@pytest.fixture
def clock() -> TwoClocks:
    return TwoClocks()


@pytest.fixture
def liveness(clock: TwoClocks) -> Liveness:
    made = Liveness(clock)
    made.begin(20)
    return made


def test_a_quiet_server_is_pinged_and_then_left(clock: TwoClocks, liveness: Liveness) -> None:
    verdicts = []
    for _ in range(4):
        clock.now_s += 10
        verdicts.append(liveness.tick())
    assert verdicts == [Verdict.FINE, Verdict.PING, Verdict.PING, Verdict.CUT]


def test_what_is_heard_keeps_it(clock: TwoClocks, liveness: Liveness) -> None:
    for _ in range(5):
        clock.now_s += 10
        liveness.hear()
        assert liveness.tick() is Verdict.FINE and liveness.heard_s == clock.now_s


def test_what_is_read_after_a_stop_counts_only_once_a_ping_was_answered(clock: TwoClocks, liveness: Liveness) -> None:
    clock.now_s += 5
    liveness.hear()
    clock.now_s += 600  # stopped; what came before the network went is read now
    liveness.hear()
    assert liveness.heard_s == 1_005
    assert liveness.tick() is Verdict.PROVE
    liveness.hear()
    assert liveness.heard_s == 1_005
    clock.now_s += 1
    liveness.proven(liveness.proof)
    assert liveness.heard_s == clock.now_s
    clock.now_s += 9
    assert liveness.tick() is Verdict.FINE


def test_a_server_that_does_not_answer_after_a_stop_is_left_at_the_next_tick(
    clock: TwoClocks, liveness: Liveness
) -> None:
    clock.now_s += 600
    assert liveness.tick() is Verdict.PROVE
    clock.now_s += 10
    liveness.hear()
    assert liveness.tick() is Verdict.CUT


def test_a_machine_that_slept_is_noticed_though_its_steady_clock_stood_still(
    clock: TwoClocks, liveness: Liveness
) -> None:
    clock.now_s += 10
    clock.day_s += 3_600
    assert liveness.tick() is Verdict.PROVE


def test_an_answer_that_was_asked_for_before_another_stop_proves_nothing(clock: TwoClocks, liveness: Liveness) -> None:
    clock.now_s += 600
    liveness.tick()
    asked = liveness.proof
    clock.now_s += 600
    liveness.hear()
    liveness.proven(asked)
    assert liveness.heard_s == 1_000 and liveness.tick() is Verdict.PROVE


def test_what_was_left_unread_for_a_while_is_in_doubt_too(clock: TwoClocks, liveness: Liveness) -> None:
    liveness.doubt()
    clock.now_s += 10
    liveness.hear()
    assert liveness.heard_s == 1_000 and liveness.tick() is Verdict.PROVE
