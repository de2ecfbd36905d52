"""Drafts: an id that comes twice, and how a draft leaves its group."""

from __future__ import annotations

from tests.messaging.drafting import draft, numbered, target
from tidings.errors import IdConflict, NotFound, StoreUnavailable
from tidings.messaging.drafts import BatchGroup, grouped
from tidings.model import Sent, digest_of


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
