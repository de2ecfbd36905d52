from __future__ import annotations

import pytest

from tests.support.gateway.standins import entry, item_of
from tidings.bounds import PRESENCE_BURST_MAX, RESUME_HELD_MAX
from tidings.gateway.live_gate import MOMENTARY, LiveGate
from tidings.pushes import ConversationAdded, ConversationRemoved, Event, MessageNew, Presence, Typing


def message(seq_no: int, conversation_id: str = "c1") -> MessageNew:
    return MessageNew(entry(conversation_id=conversation_id, seq_no=seq_no), 1, False, 1)


def seqs(events: list[Event]) -> list[int]:
    return [event.entry.seq_no for event in events if isinstance(event, MessageNew)]


def live(**resumed: int) -> LiveGate:
    gate = LiveGate()
    for conversation_id, to_seq in resumed.items():
        gate.resumed(conversation_id, to_seq)
    gate.go_live()
    return gate


def test_events_are_held_until_the_resume_is_done_and_then_follow_in_their_order() -> None:
    gate = LiveGate()
    events: list[Event] = [message(1), ConversationRemoved("c2"), message(2), Typing("c1", "bob", True)]
    assert not any(gate.lets_through(event) for event in events)
    assert gate.go_live() == events
    assert gate.go_live() == []


def test_a_held_entry_that_the_resume_wrote_is_left_out() -> None:
    gate = LiveGate()
    for seq_no in (7, 8, 9, 10):
        gate.lets_through(message(seq_no))
    gate.lets_through(message(1, "c2"))
    gate.resumed("c1", 8)
    assert seqs(gate.go_live()) == [9, 10, 1]


def test_a_late_live_entry_that_the_resume_wrote_is_left_out() -> None:
    gate = live(c1=8)
    assert [gate.lets_through(message(seq_no)) for seq_no in (7, 8, 9, 10)] == [False, False, True, True]


def test_the_first_entry_above_the_mark_ends_its_use() -> None:
    gate = live(c1=8)
    assert gate.lets_through(message(9))
    assert gate.lets_through(message(3)), "an entry that is edited again is not mistaken for a replayed one"


def test_the_mark_of_one_conversation_says_nothing_of_another() -> None:
    gate = live(c1=8)
    assert gate.lets_through(message(2, "c2")) and not gate.lets_through(message(8))


def test_only_entries_are_compared_with_the_mark() -> None:
    gate = live(c1=8)
    assert gate.lets_through(ConversationRemoved("c1")) and gate.lets_through(Typing("c1", "bob", True))


def test_without_a_resume_everything_passes() -> None:
    gate = live()
    assert gate.lets_through(message(1)) and gate.lets_through(message(1))


def test_momentary_events_never_fill_the_gate() -> None:
    gate = LiveGate()
    for _ in range(RESUME_HELD_MAX + 1):
        gate.lets_through(Typing("c1", "bob", True))
    assert not gate.is_overfull()
    assert len(gate.go_live()) == PRESENCE_BURST_MAX


def test_a_resume_that_takes_too_long_is_noticed() -> None:
    gate = LiveGate()
    for seq_no in range(RESUME_HELD_MAX):
        gate.lets_through(message(seq_no))
    assert not gate.is_overfull()
    gate.lets_through(message(RESUME_HELD_MAX))
    assert gate.is_overfull()
    gate.go_live()
    assert not gate.is_overfull()


def test_a_gate_is_needed_until_an_entry_above_each_mark_of_the_resume_came() -> None:
    assert LiveGate().is_needed() and not live().is_needed()
    gate = live(c1=5)
    gate.lets_through(message(5))
    assert gate.is_needed()
    gate.lets_through(message(6))
    assert not gate.is_needed()


@pytest.mark.parametrize(
    ("event", "is_so"),
    [
        (Typing("c1", "bob", True), True),
        (Presence("bob", True, None), True),
        (message(1), False),
        (ConversationAdded(item_of("bob", "c1")), False),
    ],
)
def test_only_typing_and_presence_are_momentary(event: Event, is_so: bool) -> None:
    assert (type(event) in MOMENTARY) is is_so
