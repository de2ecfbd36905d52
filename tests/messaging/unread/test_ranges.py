"""The arithmetic of cursor and ranges."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.bounds import READ_RANGES_MAX
from tidings.errors import TooLarge
from tidings.messaging.unread.ranges import (
    READ_TIMES_MAX,
    effective,
    is_in,
    next_version,
    read_these,
    read_up_to,
    seen_up_to,
    unread_from,
)
from tidings.model import Row, Status

Seqs = st.sets(st.integers(1, 30))


def status(cursor: int, read: set[int]) -> Status:
    blank = Status(conversation_id="c", user_id="u", cursor_seq=cursor)
    return read_these(blank, read)


def read_in(status: Status) -> set[int]:
    ranged = {seq for low, high in status.ranges for seq in range(low, high + 1)}
    return ranged | set(range(1, status.cursor_seq + 1))


@given(st.integers(0, 30), Seqs, st.integers(0, 40))
def test_reading_up_to_a_seq_reads_everything_to_it_and_nothing_else(cursor: int, read: set[int], seq_no: int) -> None:
    before = status(cursor, read)
    assert read_in(read_up_to(before, seq_no)) == read_in(before) | set(range(1, seq_no + 1))


@given(st.integers(0, 30), Seqs, Seqs)
def test_reading_these_reads_these_and_nothing_else(cursor: int, read: set[int], more: set[int]) -> None:
    before = status(cursor, read)
    after = read_these(before, more)
    assert read_in(after) == read_in(before) | more
    assert all(low > after.cursor_seq + 1 for low, _ in after.ranges)
    assert all(b[0] > a[1] + 1 for a, b in itertools.pairwise(after.ranges))


@given(st.integers(0, 30), Seqs, st.integers(1, 40))
def test_unread_from_a_seq_on_leaves_what_is_before_it(cursor: int, read: set[int], seq_no: int) -> None:
    before = status(cursor, read)
    assert read_in(unread_from(before, seq_no)) == {seq for seq in read_in(before) if seq < seq_no}


def test_more_than_64_ranges_are_refused() -> None:
    most = status(0, set(range(2, 2 + 2 * READ_RANGES_MAX, 2)))
    assert len(most.ranges) == READ_RANGES_MAX
    with pytest.raises(TooLarge):
        read_these(most, [1000])


def test_a_status_of_an_earlier_membership_counts_for_nothing() -> None:
    row = Row(user_id="u", conversation_id="c", kind="group", joined_seq=10)
    old = Status(conversation_id="c", user_id="u", cursor_seq=7, ranges=((9, 9),), version=3, since_seq=2)
    now = effective(old, row)
    assert (now.cursor_seq, now.ranges, now.version, now.since_seq) == (10, (), 3, 10)
    assert effective(now, row) is now
    assert effective(None, row).cursor_seq == 10


def test_a_receipt_moves_forward_with_its_time() -> None:
    status = Status(
        conversation_id="c", user_id="u", delivered_seq=7, delivered_ms=100, read_seq=3, read_ms=90, version=4
    )
    further = next_version(status, receipt=5, now_ms=200)
    assert (further.delivered_seq, further.delivered_ms, further.read_seq, further.read_ms) == (7, 100, 5, 200)
    assert (further.version, further.read_before) == (5, ((3, 90),))
    for receipt in range(10, 30):
        further = next_version(further, receipt=receipt, now_ms=receipt)
    assert further.read_before == tuple((mark, mark) for mark in range(29 - READ_TIMES_MAX, 29))
    assert next_version(further, receipt=0, now_ms=300) == msgspec.structs.replace(further, version=further.version + 1)


def test_ranges_include_both_ends() -> None:
    assert [seq for seq in range(1, 9) if is_in(((2, 3), (6, 6)), seq)] == [2, 3, 6]


@pytest.mark.parametrize(("is_delivered_seen", "seen"), [(False, 3), (True, 7)])
def test_a_delivered_receipt_counts_as_seen_only_under_when_offline(is_delivered_seen: bool, seen: int) -> None:
    status = Status(conversation_id="c", user_id="u", cursor_seq=3, delivered_seq=7)
    assert seen_up_to(status, is_delivered_seen=is_delivered_seen) == seen
