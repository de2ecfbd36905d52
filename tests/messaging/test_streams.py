"""A stream: entries leave in the order of their numbers, each once."""

from __future__ import annotations

from tidings.messaging.streams import Stream
from tidings.model import Entry, MemberChange


def entry(seq_no: int) -> Entry:
    return Entry(conversation_id="c1", seq_no=seq_no, kind="message", sent_ms=seq_no)


def test_an_entry_that_comes_with_its_counts_goes_before_the_one_that_was_read() -> None:
    for first, then in (({}, None), (None, {})):
        stream = Stream(0.0)
        stream.last = 1
        stream.hold([entry(3)], first, {3: "phone"})
        stream.hold([entry(3)], then, {3: "phone"})
        assert stream.pop_ready(0) == [] and stream.has_gap
        stream.hold([entry(2)], None, {})
        assert [(held.entry.seq_no, held.counts) for held in stream.pop_ready(0)] == [(2, None), (3, {})]
        assert stream.uncounted == {2} and stream.is_miscounted and not stream.has_gap


def test_what_went_out_does_not_go_out_again() -> None:
    stream = Stream(0.0)
    stream.last = 0
    stream.hold([entry(1), entry(2)], {}, {})
    assert [held.entry.seq_no for held in stream.pop_ready(0)] == [1, 2]
    stream.hold([entry(1), entry(2), entry(3)], {}, {})
    assert [held.entry.seq_no for held in stream.pop_ready(0)] == [3]


def change(seq_no: int) -> Entry:
    member = MemberChange("removed", ("bob",))
    return Entry(conversation_id="c1", seq_no=seq_no, kind="member", sent_ms=seq_no, member=member)


def test_from_a_change_on_that_the_member_list_does_not_have_entries_are_held() -> None:
    stream = Stream(0.0)
    stream.last = 0
    stream.hold([entry(1), change(2), entry(3)], {}, {})
    assert [held.entry.seq_no for held in stream.pop_ready(0)] == [1]
    assert not stream.is_known_to(0) and stream.is_known_to(2) and not stream.has_gap
    assert [held.entry.seq_no for held in stream.pop_ready(2)] == [2, 3]
    stream.hold([entry(4)], {}, {})
    assert stream.pop_ready(0) == [] and not stream.is_known_to(0)  # of whoever was slow with an older list
    assert [held.entry.seq_no for held in stream.pop_ready(2)] == [4]
