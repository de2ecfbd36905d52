"""Lanes: which drafts make the next batch, and what becomes of those whose connection is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.messaging.drafts import draft, ids, member_list_of, target
from tests.support.messaging.faulty_stores import FaultyNode, Gate, code_of
from tidings.bounds import (
    BATCH_ENTRIES_MAX,
    BATCH_FANOUT_MAX,
    GROUP_ENTRIES_MAX,
    GROUP_FANOUT_MAX,
    HOLD_MESSAGES_MAX,
)
from tidings.messaging.access import Access, MemberList
from tidings.messaging.send import lanes
from tidings.messaging.send.draft import Draft, size_of
from tidings.messaging.send.lanes import Lane
from tidings.model import Content, Entry, MemberChange
from tidings.stores.tables.records import Put, RecordKey


class Lists(Access):
    """Member lists without a table below: two members each, unless a size says otherwise. Size 0: not in memory."""

    def __init__(self, sizes: dict[str, int] | None = None) -> None:
        self._sizes = sizes or {}

    def cached(self, conversation_id: str) -> MemberList | None:
        size = self._sizes.get(conversation_id, 2)
        return member_list_of({f"u{i}": "member" for i in range(size)}) if size else None


def lane_of(*drafts: Draft) -> Lane:
    lane = Lane()
    for one in drafts:
        assert lane.put(one)
    return lane


def gathered(lane: Lane, lists: Lists | None = None) -> list[str]:
    batch, heavy = lane.gather(lists or Lists())
    assert heavy == []
    return ids(batch)


def test_a_batch_takes_what_waits_each_conversation_in_its_order() -> None:
    lane = lane_of(draft("m1"), draft("m2", "d"), draft("m3"))
    assert gathered(lane) == ["m1", "m3", "m2"]
    assert not lane.queues and lane.size_bytes == 0 and gathered(lane) == []


def test_a_group_closes_at_45_and_the_rest_keeps_its_order() -> None:
    lane = lane_of(*(draft(f"m{i}") for i in range(100)), draft("other", "d"))
    assert GROUP_ENTRIES_MAX == 45
    assert gathered(lane) == [f"m{i}" for i in range(45)] + ["other"]
    assert gathered(lane) == [f"m{i}" for i in range(45, 90)]
    assert gathered(lane) == [f"m{i}" for i in range(90, 100)]


def test_a_member_change_is_alone_in_its_commit() -> None:
    change: dict[str, Any] = {"kind": "member", "change": MemberChange("added", ("bob",))}
    lane = lane_of(draft("m1"), draft("change", **change), draft("m2"), draft("m3"))
    assert gathered(lane) == ["m1"]
    assert gathered(lane) == ["change"]
    assert gathered(lane) == ["m2", "m3"]


def test_a_message_is_rewritten_once_in_a_commit() -> None:
    one, other = target(1), target(2)
    lane = lane_of(
        draft("delete", kind="delete", target=one),
        draft("edit", kind="edit", target=other),
        draft("again", kind="edit", target=one),
        draft("after"),
    )
    assert gathered(lane) == ["delete", "edit"]
    assert gathered(lane) == ["again", "after"]


class Keys:
    """A companion with these records."""

    def __init__(self, *names: str) -> None:
        self.keys = frozenset(RecordKey("c:c", "pins", name) for name in names)

        self.last_seq = 0

    async def read(self) -> None: ...

    def puts(self, entry: Entry) -> list[Put]:
        return []


def test_a_record_is_put_once_in_a_commit() -> None:
    lane = lane_of(
        draft("m1", companion=Keys("1", "2")),
        draft("m2"),
        draft("m3", companion=Keys("3")),
        draft("m4", companion=Keys("2")),
    )
    assert gathered(lane) == ["m1", "m2", "m3"]
    assert gathered(lane) == ["m4"]


def test_records_count_as_entries_of_the_group() -> None:
    lane = lane_of(*(draft(f"m{i}", companion=Keys(*(f"{i}-{at}" for at in range(10)))) for i in range(5)))
    assert gathered(lane) == ["m0", "m1", "m2", "m3"]


def test_a_batch_is_bounded_in_entries_and_in_fan_out() -> None:
    lane = lane_of(*(draft(f"m{i}", f"c{i}") for i in range(BATCH_ENTRIES_MAX + 5)))
    assert len(gathered(lane)) == BATCH_ENTRIES_MAX
    assert len(gathered(lane)) == 5
    groups = 2 * BATCH_FANOUT_MAX // GROUP_FANOUT_MAX
    lane = lane_of(*(draft(f"m{i}", f"c{i}") for i in range(groups)))
    assert len(gathered(lane, Lists({f"c{i}": GROUP_FANOUT_MAX for i in range(groups)}))) == groups // 2


# --- conversations take turns ------------------------------------------------------------------------


def test_a_busy_conversation_delays_another_by_one_batch_at_most() -> None:
    lane = lane_of(*(draft(f"m{i}", "busy") for i in range(5_000)))
    assert gathered(lane) == [f"m{i}" for i in range(45)]
    assert lane.put(draft("quiet", "d"))
    assert "quiet" in gathered(lane)


def test_busy_conversations_with_many_members_take_turns() -> None:
    names = ("x", "y", "z")
    lane = lane_of(*(draft(f"{name}{i}", name) for name in names for i in range(200)))
    lists = Lists(dict.fromkeys(names, BATCH_FANOUT_MAX))
    for start in (0, 45):
        batch, heavy = lane.gather(lists)
        assert batch == [] and [ids(group) for group in heavy] == [
            [f"{name}{i}" for i in range(start, start + GROUP_ENTRIES_MAX)] for name in names
        ]


def test_a_group_with_many_members_takes_a_batch_of_its_own_and_few_of_these_are_under_way() -> None:
    many = [f"channel{n}" for n in range(12)]
    lane = lane_of(*(draft("m1", name) for name in many), draft("small", "d"), draft("alone", "e"))
    lists = Lists({**dict.fromkeys(many, GROUP_FANOUT_MAX + 1), "d": GROUP_FANOUT_MAX})
    batch, heavy = lane.gather(lists)
    assert ids(batch) == ["small", "alone"] and [len(group) for group in heavy] == [1] * 8
    lane.heavy.update(group[0].conversation_id for group in heavy)
    assert lane.gather(lists) == ([], []) and len(lane.queues) == 4
    lane.heavy.clear()
    assert len(lane.gather(lists)[1]) == 4 and not lane.queues


def test_a_burst_into_a_conversation_whose_members_are_not_in_memory_takes_a_batch_of_its_own() -> None:
    """It may have hundreds of members, and the others of the lane would wait until all of them are indexed."""
    lane = lane_of(*(draft(f"m{i}", "unknown") for i in range(20)), draft("single", "new"), draft("other", "d"))
    batch, heavy = lane.gather(Lists({"unknown": 0, "new": 0}))
    assert ids(batch) == ["single", "other"] and [len(group) for group in heavy] == [20]


async def test_a_message_waits_for_no_large_group_of_its_lane(
    a: FaultyNode, direct: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of the large group is held up, and the other conversation goes on without it."""
    monkeypatch.setattr(lanes, "GROUP_FANOUT_MAX", 2)
    monkeypatch.setattr(a.core.sends, "_lanes", [Lane()])  # both conversations in one lane
    gate = Gate()
    a.faulty_log.faults.append(gate)
    large = [a.submit("alice", group, f"m{i}") for i in range(3)]
    await gate.reached.wait()
    assert code_of(await a.submit("bob", direct, "quiet")) == "stored"
    last = a.submit("alice", group, "last")
    assert not any(one.done() for one in (*large, last))
    gate.opened.set()
    assert [code_of(await one) for one in (*large, last)] == ["stored"] * 4
    entries = await a.core.history.page("alice", group)
    assert [entry.message_id for entry in entries.entries if entry.kind == "message"] == ["last", "m2", "m1", "m0"]


async def test_a_burst_of_one_conversation_is_not_sent_before_a_message_of_another(
    a: FaultyNode, direct: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a.core.sends, "_lanes", [Lane()])  # both conversations in one lane
    gate = Gate()
    a.faulty_log.faults.append(gate)
    burst = [a.submit("alice", group, f"m{i}") for i in range(2_000)]
    await gate.reached.wait()
    other = a.submit("bob", direct, "quiet")
    gate.opened.set()
    assert code_of(await other) == "stored"
    assert sum(one.done() for one in burst) <= 3 * GROUP_ENTRIES_MAX
    await asyncio.gather(*burst)


# --- what waits is bounded in bytes --------------------------------------------------------------------


def test_what_waits_is_bounded_in_bytes_of_a_conversation_and_of_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    one = size_of(draft("m"))
    monkeypatch.setattr(lanes, "CONVERSATION_QUEUE_BYTES_MAX", 3 * one)
    monkeypatch.setattr(lanes, "LANE_QUEUE_BYTES_MAX", 5 * one)
    lane = Lane()
    assert [lane.put(draft(f"m{i}")) for i in range(4)] == [True, True, True, False]
    assert [lane.put(draft(f"m{i}", "d")) for i in range(3)] == [True, True, False]
    assert not lane.put(draft("m", "e")) and "e" not in lane.queues
    gathered(lane)
    assert lane.size_bytes == 0 and lane.put(draft("m"))


def test_a_long_text_counts_with_the_bytes_that_it_takes() -> None:
    short, long, wide = (size_of(draft("m", content=Content(text))) for text in ("x", "x" * 16_000, "\u2713" * 16_000))
    assert long - short == 15_999 and wide - short > 31_000
    assert size_of(draft("m", content=None)) < short


# --- given up, or lost ---------------------------------------------------------------------------------


def test_giving_up_a_message_reaches_it_where_it_waits_and_not_its_next_try() -> None:
    first, other, again = (draft("m1", origin="phone"), draft("m1", origin="laptop"), draft("m1", origin="phone"))
    first.place, other.place = 1, 2
    lane = lane_of(first, other)
    lane.abandon("phone", "c", "m1", 3)
    lane.abandon("phone", "another", "m1", 3)
    again.place = 4
    assert lane.put(again)
    gathered(lane)
    assert [one.is_abandoned for one in (first, other, again)] == [True, False, False]


def test_giving_up_messages_walks_nothing_that_waits_and_remembers_a_bounded_number() -> None:
    lane = lane_of(*(draft(f"m{i}", origin="phone") for i in range(10)))

    class Unwalked(lanes.Queue):
        def __iter__(self) -> Any:
            raise AssertionError("walked")

    queue = Unwalked()
    queue.extend(lane.queues["c"])
    lane.queues["c"] = queue
    for i in range(5_000):
        lane.abandon("phone", "c", f"x{i}", i)
    assert queue.abandoned is not None and len(queue.abandoned) <= HOLD_MESSAGES_MAX


def test_what_is_given_up_or_lost_is_marked_and_what_a_lost_connection_queued_is_taken_out() -> None:
    first, follower = draft("m1", origin="phone"), draft("m1", origin="laptop")
    first.followers = [follower]
    lane = lane_of(draft("m2", origin="phone"), draft("m3", origin="tablet"), draft("m4", origin="phone"))
    lane.under_way = [first]
    aside = draft("m5", "d", origin="phone")
    lane.aside["d"] = [aside]
    lane.abandon("laptop", "c", "m1", 9)
    assert (first.is_abandoned, follower.is_abandoned) == (False, True)
    assert ids(lane.forget({"phone", "laptop"})) == ["m2", "m4"]
    assert gathered(lane) == ["m3"] and first.is_abandoned and aside.is_abandoned and lane.size_bytes == 0
