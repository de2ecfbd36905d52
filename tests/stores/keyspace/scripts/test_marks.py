"""A mark in the mark hash is read as it was packed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.stores.keyspace.scripts.marks import Mark, pack_ranges, unpack_mark

marks = st.builds(
    Mark,
    version=st.integers(0, 1 << 40),
    cursor=st.integers(0, 1 << 53),
    seen=st.integers(0, 1 << 53),
    count=st.integers(0, 10_000),
    first=st.integers(0, 1 << 53),
    floor=st.integers(0, 1 << 53),
    day=st.integers(0, 100_000),
    ranges=st.lists(st.tuples(st.integers(1, 1 << 53), st.integers(1, 1 << 53)), max_size=64).map(tuple),
)


@given(marks)
def test_a_mark_is_read_as_it_was_packed(mark: Mark) -> None:
    assert unpack_mark(mark.packed().encode()) == mark


def test_a_mark_shows_the_cap_while_its_oldest_are_trimmed() -> None:
    mark = Mark(version=1, cursor=3, seen=3, count=10, first=0, floor=9)
    assert (mark.is_capped, mark.shown(10)) == (True, 10)
    read = Mark(version=1, cursor=9, seen=9, count=4, first=10, floor=9)
    assert (read.is_capped, read.shown(10)) == (False, 4)


def test_ranges_are_packed_in_pairs() -> None:
    assert pack_ranges(((3, 5), (7, 7))) == "[[3,5],[7,7]]" and pack_ranges(()) == "[]"
