"""Commits: what a group of drafts stores, and which member changes are still to be done."""

from __future__ import annotations

import pytest

from tests.messaging.drafting import draft, ids, numbered, roster_of, target
from tidings.errors import Forbidden, NotFound, Problem
from tidings.messaging.commits import check_change, to_group
from tidings.messaging.drafts import BatchGroup
from tidings.model import MemberChange, Role


def test_a_refused_draft_gives_its_number_up_to_a_void() -> None:
    group = numbered(draft("m1"), draft("m2"))
    group.refuse(group.drafts[0], NotFound())
    stored, positions = to_group(group)
    assert [(entry.seq_no, entry.kind, entry.sent_ms) for entry in stored.entries] == [
        (5, "void", 1_005),
        (6, "message", 1_006),
    ]
    assert positions == [None, group.drafts[0]]


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
