"""Answers of the scripts: what each reply means to a caller."""

from __future__ import annotations

from tidings.stores.keyspace.scripts import answers
from tidings.stores.keyspace.scripts.marks import Mark

MARK = Mark(version=3, cursor=7, seen=7, count=2, first=8, floor=0)


def test_a_cold_member_has_no_counts_but_leases() -> None:
    for state, is_user_cold in ((0, False), (-1, True)):
        found = answers.read_indexed([state, 0, 0, -1, [b"n:1"], 0, 0, 0, 0])
        assert (found.is_user_cold, found.is_cold, found.unread_count, found.leases) == (
            is_user_cold,
            True,
            None,
            ("n:1",),
        )


def test_a_warm_member_has_the_counts_and_the_version_they_belong_to() -> None:
    found = answers.read_indexed([1, 4, 0, -1, [], 9, 2, 3, 5])
    assert (found.mention_count, found.total_mentions, found.unread_conversations) == (2, 3, 5)
    assert (found.is_cold, found.unread_count, found.unread_capped, found.version) == (False, 4, False, 9)
    assert found.total_unread is None, "another conversation is cold"


def test_a_counter_that_must_be_seeded_has_no_numbers() -> None:
    assert answers.read_numbered([]) is None
    found = answers.read_numbered([2, 5, 100, b"id", 1, 3, 90])
    assert found is not None and found.known == {1: (3, 90)} and found.first_seq == 5


def test_a_page_of_a_cold_user_is_none_and_a_cold_conversation_has_no_mark() -> None:
    assert answers.read_page([]) is None
    lines = [b"c1", b"100", MARK.packed().encode(), b"c2", b"50", b"", b"c3", b"9", b""]
    page = answers.read_page([b"inbox", b"50", b"c2", 2, 1, 1, 0, 1, *lines])
    assert page is not None and [one.mark for one in page.listed] == [MARK, None]
    assert page.large == [answers.Listed("c3", 9, None)]
    assert page.next == answers.Place("inbox", 50, "c2")


def test_totals_are_not_known_while_a_conversation_is_cold() -> None:
    assert answers.read_unread_state([]) is None
    state = answers.read_unread_state([5, 2, 1, 0, b""])
    assert state is not None and state.total_unread is None and state.mark is None and state.large == []
    state = answers.read_unread_state([5, 2, 0, 0, b"", b"c3", b"9", MARK.packed().encode()])
    assert state is not None and state.large == [answers.Listed("c3", 9, MARK)]


def test_a_chilled_conversation_has_a_mark_or_a_change_number() -> None:
    assert answers.read_chilled([1, MARK.packed().encode()]).mark == MARK
    assert answers.read_chilled([0, b"12"]).gen == "12"
    assert answers.read_chilled([-1, b""]).is_user_cold
