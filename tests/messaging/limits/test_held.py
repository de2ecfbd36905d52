"""Holds: what was refused is not overtaken."""

from __future__ import annotations

from tidings.bounds import HOLD_CONVERSATIONS_MAX, HOLD_MESSAGES_MAX
from tidings.messaging.limits import held as holds


class Holds(holds.Holds):
    """With the number in a message's name for its place: m1 was sent before m2."""

    def is_held(self, origin: str | None, conversation_id: str, message_id: str, place: int = 0) -> bool:
        return super().is_held(origin, conversation_id, message_id, place or place_of(message_id))


def place_of(message_id: str) -> int:
    return int(message_id[1:]) + 1


def places(*message_ids: str) -> dict[str, int]:
    return {message_id: place_of(message_id) for message_id in message_ids}


def held_after_refusing(*message_ids: str) -> Holds:
    held = Holds()
    held.refuse("socket", "c", places(*message_ids))
    return held


def test_a_connection_with_refused_sends_in_too_many_conversations_is_overfull() -> None:
    held = Holds()
    for n in range(HOLD_CONVERSATIONS_MAX + 1):
        assert not held.is_overfull("socket")
        held.refuse("socket", f"c{n}", {"m1": 1})
    assert held.is_overfull("socket") and not held.is_overfull("other")


def test_nothing_is_held_before_something_was_refused() -> None:
    assert not Holds().is_held("socket", "c", "m1")


def test_a_later_send_joins_the_hold_and_only_the_first_may_pass() -> None:
    held = held_after_refusing("m1")
    assert held.is_held("socket", "c", "m2")
    assert not held.is_held("socket", "c", "m1")
    held.let_pass("socket", "c", "m1")
    assert held.is_held("socket", "c", "m3")
    assert not held.is_held("socket", "c", "m2")


def test_a_hold_ends_when_it_is_empty() -> None:
    held = held_after_refusing("m1", "m2")
    held.let_pass("socket", "c", "m1")
    held.let_pass("socket", "c", "m2")
    assert not held.is_held("socket", "c", "m9")
    assert not held.is_held("socket", "c", "m10")


def test_what_passed_and_was_refused_again_stands_in_front_of_what_waits() -> None:
    held = held_after_refusing("m1", "m2")
    assert held.is_held("socket", "c", "m3")
    held.let_pass("socket", "c", "m1")
    held.refuse("socket", "c", places("m1"))
    assert [held.is_held("socket", "c", id_) for id_ in ("m1", "m2", "m3")] == [False, True, True]


def test_what_waits_already_keeps_its_place_when_it_is_refused_again() -> None:
    held = held_after_refusing("m1", "m2", "m3")
    held.let_pass("socket", "c", "m1")
    held.refuse("socket", "c", places("m1", "m3"))  # m3 was answered `held` in the same batch
    passed = []
    for _ in range(3):
        passed += [id_ for id_ in ("m3", "m2", "m1") if id_ not in passed and not held.is_held("socket", "c", id_)]
        held.let_pass("socket", "c", passed[-1])
    assert passed == ["m1", "m2", "m3"]


def test_what_is_turned_away_before_it_was_looked_at_comes_last() -> None:
    held = held_after_refusing("m1")
    held.join("socket", "c", "m2", place_of("m2"))
    held.join("socket", "c", "m1", place_of("m1"))
    assert not held.is_held("socket", "c", "m1")
    assert held.is_held("socket", "c", "m2")


def test_abandoning_the_first_lets_the_second_pass() -> None:
    held = held_after_refusing("m1", "m2")
    held.abandon("socket", "c", "m1")
    assert not held.is_held("socket", "c", "m2")
    held.abandon("socket", "c", "m2")
    assert not held.is_held("socket", "c", "m7")


def test_a_hold_is_of_one_connection_and_one_conversation() -> None:
    held = held_after_refusing("m1")
    assert not held.is_held("socket", "other", "m2")
    assert not held.is_held("other", "c", "m2")
    held.forget("socket")
    assert not held.is_held("socket", "c", "m2")


def test_a_send_without_a_connection_is_never_held() -> None:
    held = Holds()
    held.refuse(None, "c", places("m1"))
    held.join(None, "c", "m1", place_of("m1"))
    assert not held.is_held(None, "c", "m2")


def test_a_hold_has_an_end_and_still_lets_nothing_overtake() -> None:
    held = held_after_refusing("m0")
    assert all(held.is_held("socket", "c", f"m{i}") for i in range(1, HOLD_MESSAGES_MAX + 10))
    held.abandon("socket", "c", "m0")
    assert not held.is_held("socket", "c", "m1")


def test_what_was_refused_before_it_was_looked_at_stays_behind_what_waits() -> None:
    held = held_after_refusing("m1")
    held.refuse("socket", "c", places("m1", "m2"))  # sent again, and the batch failed before anybody was let pass
    assert held.is_held("socket", "c", "m2")
    assert not held.is_held("socket", "c", "m1")


def test_what_is_refused_stands_where_it_was_sent_whoever_is_refused_first() -> None:
    held = held_after_refusing("m1")
    held.refuse("socket", "c", places("m2", "m3"))  # the batch after it failed before anybody looked
    held.join("socket", "c", "m9", place_of("m9"))  # turned away at the door
    held.refuse("socket", "c", places("m5"))  # was under way meanwhile
    passed = []
    while waiting := held._of("socket", "c"):
        passed.append(next(iter(waiting)))
        held.let_pass("socket", "c", passed[-1])
    assert passed == ["m1", "m2", "m3", "m5", "m9"]


def test_a_send_that_was_held_again_while_it_was_under_way_goes_back_to_its_place() -> None:
    held = held_after_refusing("m1", "m2")
    assert held.let_pass("socket", "c", "m1") == place_of("m1")
    assert held.is_held("socket", "c", "m1", 99)  # it came once more
    held.refuse("socket", "c", places("m1"))
    assert held.is_held("socket", "c", "m2") and not held.is_held("socket", "c", "m1")
