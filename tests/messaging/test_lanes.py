"""Lanes: which drafts make the next batch, and what becomes of those whose connection is gone."""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.messaging.drafting import draft, ids, roster_of, target
from tidings.bounds import BATCH_ENTRIES_MAX, BATCH_FANOUT_MAX, GROUP_ENTRIES_MAX
from tidings.messaging.access import Access, Roster
from tidings.messaging.lanes import Lane, gather
from tidings.model import MemberChange


class Lists(Access):
    """Member lists without a table below."""

    def __init__(self, sizes: dict[str, int] | None = None) -> None:
        self._sizes = sizes or {}

    def cached(self, conversation_id: str) -> Roster | None:
        size = self._sizes.get(conversation_id)
        return roster_of({f"u{i}": "member" for i in range(size)}) if size else None


def test_a_batch_takes_what_waits_in_its_order() -> None:
    waiting = deque([draft("m1"), draft("m2", "d"), draft("m3")])
    assert ids(gather(waiting, Lists())) == ["m1", "m2", "m3"]
    assert not waiting


def test_a_group_closes_at_45_and_the_rest_keeps_its_order() -> None:
    waiting = deque(draft(f"m{i}") for i in range(100))
    waiting.append(draft("other", "d"))
    batch = gather(waiting, Lists())
    assert GROUP_ENTRIES_MAX == 45
    assert ids(batch) == [f"m{i}" for i in range(45)] + ["other"]
    assert ids(gather(waiting, Lists())) == [f"m{i}" for i in range(45, 90)]
    assert ids(gather(waiting, Lists())) == [f"m{i}" for i in range(90, 100)]


def test_a_member_change_is_alone_in_its_commit() -> None:
    change: dict[str, Any] = {"kind": "member", "change": MemberChange("added", ("bob",))}
    waiting = deque([draft("m1"), draft("change", **change), draft("m2"), draft("m3")])
    assert ids(gather(waiting, Lists())) == ["m1"]
    assert ids(gather(waiting, Lists())) == ["change"]
    assert ids(gather(waiting, Lists())) == ["m2", "m3"]


def test_a_message_is_rewritten_once_in_a_commit() -> None:
    one, other = target(1), target(2)
    waiting = deque(
        [
            draft("delete", kind="delete", target=one),
            draft("edit", kind="edit", target=other),
            draft("again", kind="edit", target=one),
            draft("after"),
        ]
    )
    assert ids(gather(waiting, Lists())) == ["delete", "edit"]
    assert ids(gather(waiting, Lists())) == ["again", "after"]


def test_a_batch_is_bounded_in_entries_and_in_fan_out() -> None:
    waiting = deque(draft(f"m{i}", f"c{i}") for i in range(BATCH_ENTRIES_MAX + 5))
    assert len(gather(waiting, Lists())) == BATCH_ENTRIES_MAX
    big = {f"c{i}": 1_000 for i in range(5)}
    waiting = deque(draft(f"m{i}", f"c{i}") for i in range(5))
    assert len(gather(waiting, Lists(big))) == -(-BATCH_FANOUT_MAX // 1_000)


def test_a_flood_of_one_conversation_is_not_walked_for_every_batch() -> None:
    waiting = deque(draft(f"m{i}") for i in range(20_000))
    waiting.append(draft("other", "d"))
    first = waiting[45]
    assert ids(gather(waiting, Lists())) == [f"m{i}" for i in range(45)]
    assert waiting[0] is first and len(waiting) == 20_001 - 45


def test_what_is_given_up_or_lost_is_marked_and_what_a_lost_connection_queued_is_taken_out() -> None:
    lane = Lane()
    first, follower = draft("m1", origin="phone"), draft("m1", origin="laptop")
    first.followers = [follower]
    lane.under_way = [first]
    lane.waiting.extend([draft("m2", origin="phone"), draft("m3", origin="tablet"), draft("m4", origin="phone")])
    lane.abandon("laptop", "c", "m1")
    lane.abandon("tablet", "another", "m3")
    assert (first.is_abandoned, follower.is_abandoned, lane.waiting[1].is_abandoned) == (False, True, False)
    assert ids(lane.forget({"phone", "laptop"})) == ["m2", "m4"]
    assert ids(lane.waiting) == ["m3"] and first.is_abandoned
