"""A sequencer: entries leave in the order of their numbers, each once."""

from __future__ import annotations

from tidings.messaging.deliver.sequencer import Leaver, Sequencer
from tidings.model import Entry, Member, MemberChange


def entry(seq_no: int) -> Entry:
    return Entry(conversation_id="c1", seq_no=seq_no, kind="message", sent_ms=seq_no)


def test_an_entry_that_comes_with_its_counts_goes_before_the_one_that_was_read() -> None:
    for first, then in (({}, None), (None, {})):
        sequencer = Sequencer(0.0)
        sequencer.last = 1
        sequencer.hold([entry(3)], first, {3: "phone"})
        sequencer.hold([entry(3)], then, {3: "phone"})
        assert sequencer.pop_ready(0) == [] and sequencer.has_gap
        sequencer.hold([entry(2)], None, {})
        assert [(held.entry.seq_no, held.counts) for held in sequencer.pop_ready(0)] == [(2, None), (3, {})]
        assert sequencer.uncounted == {2} and sequencer.is_miscounted and not sequencer.has_gap


def test_what_went_out_does_not_go_out_again() -> None:
    sequencer = Sequencer(0.0)
    sequencer.last = 0
    sequencer.hold([entry(1), entry(2)], {}, {})
    assert [held.entry.seq_no for held in sequencer.pop_ready(0)] == [1, 2]
    sequencer.hold([entry(1), entry(2), entry(3)], {}, {})
    assert [held.entry.seq_no for held in sequencer.pop_ready(0)] == [3]


def change(seq_no: int) -> Entry:
    member = MemberChange("removed", ("bob",))
    return Entry(conversation_id="c1", seq_no=seq_no, kind="member", sent_ms=seq_no, member=member)


def test_from_a_change_on_that_the_member_list_does_not_have_entries_are_held() -> None:
    sequencer = Sequencer(0.0)
    sequencer.last = 0
    sequencer.hold([entry(1), change(2), entry(3)], {}, {})
    assert [held.entry.seq_no for held in sequencer.pop_ready(0)] == [1]
    assert not sequencer.is_known_to(0) and sequencer.is_known_to(2) and not sequencer.has_gap
    assert [held.entry.seq_no for held in sequencer.pop_ready(2)] == [2, 3]
    sequencer.hold([entry(4)], {}, {})
    assert sequencer.pop_ready(0) == [] and not sequencer.is_known_to(0)  # of whoever was slow with an older list
    assert [held.entry.seq_no for held in sequencer.pop_ready(2)] == [4]


def test_once_a_list_decided_no_older_one_decides() -> None:
    sequencer = Sequencer(0.0)
    sequencer.begin(0)
    sequencer.hold([entry(1), entry(2)], {}, {})
    assert [held.entry.seq_no for held in sequencer.pop_ready(5)] == [1, 2]
    sequencer.hold([entry(3)], {}, {})
    assert sequencer.pop_ready(4) == [] and not sequencer.is_known_to(4)
    assert [held.entry.seq_no for held in sequencer.pop_ready(5)] == [3]


def test_a_stream_that_begins_again_knows_of_nobody_who_is_leaving() -> None:
    sequencer = Sequencer(0.0)
    sequencer.begin(1)
    sequencer.list_seq = 4
    sequencer.leaving["bob"] = Leaver(Member(conversation_id="c1", user_id="bob"))
    assert sequencer.is_owing and sequencer.has_gap
    sequencer.begin(2)
    assert not sequencer.leaving and not sequencer.has_gap and sequencer.members_seq == 4
