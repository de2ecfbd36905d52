"""Holds: what was refused is not overtaken."""

from __future__ import annotations

from tidings.bounds import HOLD_MESSAGES_MAX
from tidings.messaging.holds import Holds


def held_after_refusing(*message_ids: str) -> Holds:
    holds = Holds()
    holds.refuse("socket", "c", list(message_ids))
    return holds


def test_nothing_is_held_before_something_was_refused() -> None:
    assert not Holds().is_held("socket", "c", "m1")


def test_a_later_send_joins_the_hold_and_only_the_first_may_pass() -> None:
    holds = held_after_refusing("m1")
    assert holds.is_held("socket", "c", "m2")
    assert not holds.is_held("socket", "c", "m1")
    holds.let_pass("socket", "c", "m1")
    assert holds.is_held("socket", "c", "m3")
    assert not holds.is_held("socket", "c", "m2")


def test_a_hold_ends_when_it_is_empty() -> None:
    holds = held_after_refusing("m1", "m2")
    holds.let_pass("socket", "c", "m1")
    holds.let_pass("socket", "c", "m2")
    assert not holds.is_held("socket", "c", "m9")
    assert not holds.is_held("socket", "c", "m10")


def test_what_passed_and_was_refused_again_stands_in_front_of_what_waits() -> None:
    holds = held_after_refusing("m1", "m2")
    assert holds.is_held("socket", "c", "m3")
    holds.let_pass("socket", "c", "m1")
    holds.refuse("socket", "c", ["m1"])
    assert [holds.is_held("socket", "c", id_) for id_ in ("m1", "m2", "m3")] == [False, True, True]


def test_what_waits_already_keeps_its_place_when_it_is_refused_again() -> None:
    holds = held_after_refusing("m1", "m2", "m3")
    holds.let_pass("socket", "c", "m1")
    holds.refuse("socket", "c", ["m1", "m3"])  # m3 was answered `held` in the same batch
    passed = []
    for _ in range(3):
        passed += [id_ for id_ in ("m3", "m2", "m1") if id_ not in passed and not holds.is_held("socket", "c", id_)]
        holds.let_pass("socket", "c", passed[-1])
    assert passed == ["m1", "m2", "m3"]


def test_what_is_turned_away_before_it_was_looked_at_comes_last() -> None:
    holds = held_after_refusing("m1")
    holds.join("socket", "c", "m2")
    holds.join("socket", "c", "m1")
    assert not holds.is_held("socket", "c", "m1")
    assert holds.is_held("socket", "c", "m2")


def test_abandoning_the_first_lets_the_second_pass() -> None:
    holds = held_after_refusing("m1", "m2")
    holds.abandon("socket", "c", "m1")
    assert not holds.is_held("socket", "c", "m2")
    holds.abandon("socket", "c", "m2")
    assert not holds.is_held("socket", "c", "m7")


def test_a_hold_is_of_one_connection_and_one_conversation() -> None:
    holds = held_after_refusing("m1")
    assert not holds.is_held("socket", "other", "m2")
    assert not holds.is_held("other", "c", "m2")
    holds.forget("socket")
    assert not holds.is_held("socket", "c", "m2")


def test_a_send_without_a_connection_is_never_held() -> None:
    holds = Holds()
    holds.refuse(None, "c", ["m1"])
    holds.join(None, "c", "m1")
    assert not holds.is_held(None, "c", "m2")


def test_a_hold_has_an_end_and_still_lets_nothing_overtake() -> None:
    holds = held_after_refusing("m0")
    assert all(holds.is_held("socket", "c", f"m{i}") for i in range(1, HOLD_MESSAGES_MAX + 10))
    holds.abandon("socket", "c", "m0")
    assert not holds.is_held("socket", "c", "m1")


def test_what_was_refused_before_it_was_looked_at_stays_behind_what_waits() -> None:
    holds = held_after_refusing("m1")
    holds.refuse("socket", "c", ["m1", "m2"])  # sent again, and the batch failed before anybody was let pass
    assert holds.is_held("socket", "c", "m2")
    assert not holds.is_held("socket", "c", "m1")
