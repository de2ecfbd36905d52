"""Drafts: how they are gathered into batches and groups, and what a group stores."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from tidings.bounds import BATCH_ENTRIES_MAX, BATCH_FANOUT_MAX, GROUP_ENTRIES_MAX
from tidings.errors import Forbidden, IdConflict, NotFound, Problem, StoreUnavailable
from tidings.messaging.access import Access, Roster
from tidings.messaging.drafts import BatchGroup, Draft, check_change, gather, grouped, to_group
from tidings.model import Entry, Head, Member, MemberChange, Role, Sent, digest_of


class Lists(Access):
    """Member lists without a table below."""

    def __init__(self, sizes: dict[str, int] | None = None) -> None:
        self._sizes = sizes or {}

    def cached(self, conversation_id: str) -> Roster | None:
        size = self._sizes.get(conversation_id)
        return roster_of({f"u{i}": "member" for i in range(size)}) if size else None


def roster_of(roles: dict[str, Role], kind: Any = "group") -> Roster:
    members = {user_id: Member(conversation_id="c", user_id=user_id, role=role) for user_id, role in roles.items()}
    return Roster(Head(conversation_id="c", kind=kind, created_ms=1), members, 0)


def draft(message_id: str, conversation_id: str = "c", **fields: Any) -> Draft:
    given: dict[str, Any] = {"sender_id": "alice", "text": "hi", "reply": lambda result: None}
    made = Draft(conversation_id=conversation_id, message_id=message_id, **{**given, **fields})
    made.digest = made.digest or digest_of(made.text or "")
    return made


def ids(drafts: Any) -> list[str]:
    return [one.message_id for one in drafts]


def target(seq_no: int, **fields: Any) -> Entry:
    return Entry(conversation_id="c", seq_no=seq_no, kind="message", sent_ms=5, sender_id="alice", **fields)


# --- gathering ------------------------------------------------------------------------------------


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


def test_an_id_that_comes_twice_in_a_batch_follows_the_first() -> None:
    first, again, other = draft("m1"), draft("m1"), draft("m1", sender_id="bob")
    (group,) = grouped([first, again, other])
    assert group.drafts == [first, other]
    assert first.followers == [again] and other.followers is None


def test_a_follower_is_a_duplicate_or_a_conflict_or_shares_the_problem() -> None:
    first, same, other = draft("m1"), draft("m1"), draft("m1", text="else")
    first.entry = target(7, digest=first.digest)
    answer = first.answer_follower(same)
    assert isinstance(answer, Sent) and answer.is_duplicate and answer.entry.seq_no == 7
    assert isinstance(first.answer_follower(other), IdConflict)
    first.problem = StoreUnavailable()
    assert first.answer_follower(same) is first.problem
    assert first.answer_follower(other) is first.problem


# --- a group --------------------------------------------------------------------------------------


def numbered(*drafts: Draft, first: int = 5) -> BatchGroup:
    group = BatchGroup("c")
    group.roster = roster_of({"alice": "owner", "bob": "member"}, kind="direct")
    group.drafts = list(drafts)
    for seq_no, one in enumerate(drafts, start=first):
        one.seq_no, one.sent_ms = seq_no, 1_000 + seq_no
    return group


def test_a_refused_draft_gives_its_number_up_to_a_void() -> None:
    group = numbered(draft("m1"), draft("m2"))
    group.refuse(group.drafts[0], NotFound())
    stored, positions = to_group(group)
    assert [(entry.seq_no, entry.kind, entry.sent_ms) for entry in stored.entries] == [
        (5, "void", 1_005),
        (6, "message", 1_006),
    ]
    assert positions == [None, group.drafts[0]]


def test_a_number_that_somebody_else_may_still_use_is_not_voided() -> None:
    group = numbered(draft("m1"))
    group.drafts[0].is_known = True
    group.refuse(group.drafts[0], NotFound())
    assert group.voids == []


def test_a_draft_found_with_another_text_is_a_conflict() -> None:
    group = numbered(draft("m1"), draft("m2"))
    one, two = group.drafts
    group.found(one, target(2, digest=digest_of("else")))
    group.found(two, target(3, digest=two.digest))
    assert isinstance(one.problem, IdConflict) and two.is_duplicate
    assert (group.drafts, group.done, group.refused) == ([], [two], [one])


def test_what_a_group_leaves_undecided_spans_its_numbers() -> None:
    group = numbered(draft("m1"), draft("m2"), draft("m3"))
    group.stored(group.drafts[0], target(5))
    group.voids.append((9, 1_009))
    group.leave_undecided()
    assert group.undecided == (5, 9)
    untouched = BatchGroup("c")
    untouched.leave_undecided()
    assert untouched.undecided is None


def test_a_message_of_a_direct_conversation_names_its_receiver_and_its_time() -> None:
    group = numbered(draft("m1"), draft("m2", timestamp=3))
    entries = to_group(group)[0].entries
    assert [(entry.receiver_id, entry.timestamp) for entry in entries] == [("bob", 1_005), ("bob", 3)]


def test_numbers_noted_before_are_stored_in_the_order_of_the_log() -> None:
    group = numbered(draft("m1"), draft("m2"))
    group.drafts[1].seq_no, group.drafts[1].is_known = 2, True
    stored, positions = to_group(group)
    assert [entry.seq_no for entry in stored.entries] == [2, 5]
    assert ids(positions) == ["m2", "m1"]


def test_a_rewrite_of_a_deleted_message_matches_no_row() -> None:
    group = numbered(draft("e1", kind="edit", target=target(1, rev=3)), draft("e2", kind="edit", target=target(2)))
    group.drafts[1].target = target(2, rev=1, is_deleted=True)
    revs = [rewrite.expected_rev for rewrite in to_group(group)[0].rewrites]
    assert revs == [3, -1]


# --- member changes -------------------------------------------------------------------------------


def changing(change: MemberChange, roles: dict[str, Role], sender_id: str = "alice") -> BatchGroup:
    group = numbered(draft("x", kind="member", sender_id=sender_id, change=change))
    group.roster = roster_of(roles)
    return group


def test_a_change_keeps_what_is_left_to_do() -> None:
    group = changing(MemberChange("added", ("bob", "carol")), {"alice": "owner", "bob": "member"})
    check_change(group)
    assert group.drafts[0].change == MemberChange("added", ("carol",))


@pytest.mark.parametrize(
    ("change", "sender_id", "problem"),
    [
        (MemberChange("added", ("bob",)), "alice", NotFound),  # he came in meanwhile
        (MemberChange("removed", ("carol",)), "alice", NotFound),  # she is gone already
        (MemberChange("added", ("carol",)), "bob", Forbidden),  # he was an admin when he asked
        (MemberChange("role", ("bob",), "admin"), "bob", Forbidden),
        (MemberChange("removed", ("bob",)), "zoe", NotFound),  # she was removed meanwhile
    ],
)
def test_a_change_that_may_not_be_done_any_more_is_refused(
    change: MemberChange, sender_id: str, problem: type[Problem]
) -> None:
    group = changing(change, {"alice": "owner", "bob": "member"}, sender_id)
    check_change(group)
    assert isinstance(group.refused[0].problem, problem)
    assert group.voids == [(5, 1_005)]


def test_a_change_brings_members_and_rows_with_its_own_number() -> None:
    roles: dict[str, Role] = {"alice": "owner", "bob": "member"}
    added = to_group(changing(MemberChange("added", ("carol",)), roles))[0]
    assert [(member.user_id, member.joined_seq) for member in added.members] == [("carol", 5)]
    assert [(row.user_id, row.joined_seq, row.joined_ms) for row in added.rows_added] == [("carol", 5, 1_005)]
    removed = to_group(changing(MemberChange("removed", ("bob",)), roles))[0]
    assert [(member.user_id, member.left_seq) for member in removed.members] == [("bob", 5)]
    assert removed.rows_removed == ("bob",)
    raised = to_group(changing(MemberChange("role", ("bob",), "admin"), roles))[0]
    assert [(member.user_id, member.role) for member in raised.members] == [("bob", "admin")]
