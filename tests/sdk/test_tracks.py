from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk.scripted import message_new
from tidings.bounds import RESUME_CONVERSATIONS_MAX
from tidings.sdk.events import MessageNew
from tidings.sdk.tracks import Track, Tracks


def event(seq: int) -> MessageNew:
    return msgspec.convert(message_new(seq), MessageNew)


def seqs(events: list[MessageNew]) -> list[int]:
    return [event.message.seq for event in events]


def test_the_next_entry_is_told_and_a_known_one_is_not() -> None:
    track = Track(0)
    assert seqs(track.take(event(1))) == [1]
    assert seqs(track.take(event(1))) == []
    assert track.last == 1 and not track.is_broken


def test_an_early_entry_waits_for_its_predecessors() -> None:
    track = Track(0)
    assert seqs(track.take(event(3))) == []
    assert seqs(track.take(event(2))) == []
    assert track.is_broken
    assert seqs(track.take(event(1))) == [1, 2, 3]
    assert not track.is_broken


def test_a_track_without_a_beginning_tells_nothing_until_it_has_one() -> None:
    track = Track(None)
    assert seqs(track.take(event(7))) == []
    assert seqs(track.begin(6)) == [7]
    assert seqs(track.begin(10)) == [] and track.last == 10


@given(st.permutations(range(1, 9)), st.lists(st.integers(1, 8)))
def test_whatever_the_order_and_the_repeats_each_is_told_once_in_order(order: list[int], repeats: list[int]) -> None:
    track, told = Track(0), []
    for seq in [*repeats, *order, *repeats]:
        told += seqs(track.take(event(seq)))
    assert told == list(range(1, 9))


def test_a_resume_names_the_liveliest_and_no_more_than_may_be_named() -> None:
    tracks = Tracks({f"c{n}": n for n in range(RESUME_CONVERSATIONS_MAX + 10)})
    tracks.touch("c0")
    named = tracks.resume()
    assert len(named) == RESUME_CONVERSATIONS_MAX and named["c0"] == 0 and "c1" not in named
    tracks.start("new", None)
    assert "new" not in tracks.resume() and tracks.unlocated() == ["new"]
    tracks.forget("new")
    tracks.clear()
    assert tracks.seqs() == {} and tracks.get("c0") is None
