"""Batches: an id that comes twice, the ways out of a group, and the time of each stage."""

from __future__ import annotations

from tests.support.messaging.drafts import draft, numbered, target
from tidings.errors import IdConflict, NotFound
from tidings.messaging.send.batch import Batch, BatchGroup, grouped
from tidings.model import Content, digest_of
from tidings.stores.keyspace.scripts.answers import Numbered
from tidings.telemetry.metrics import Metrics


def test_each_stage_gets_the_time_since_the_one_before() -> None:
    times = iter([10.0, 10.5, 12.5])
    metrics = Metrics()
    stages = metrics.stage_seconds
    batch = Batch(grouped([draft("m1")]), metrics, lambda: next(times))
    batch.lap("admit")
    batch.lap("store")
    assert (stages["admit"].sum, stages["store"].sum, stages["index"].sum) == (0.5, 2.0, 0.0)


def test_a_group_that_waits_leaves_the_batch_and_goes_on_by_itself() -> None:
    batch = Batch(grouped([draft("m1"), draft("m2", "d")]), Metrics(), lambda: 0.0)
    batch.live = list(batch.groups)
    waiting, other = batch.groups
    waiting.awaited = Numbered(3, 4, 1_000, b"", {})
    batch.put_aside()
    (part,) = batch.aside
    assert (batch.groups, batch.live, part.groups, part.live) == ([other], [other], [waiting], [waiting])
    assert (batch.ids, part.ids) == ([("d", "alice", "m2")], [("c", "alice", "m1")])


def test_an_id_that_comes_twice_in_a_batch_follows_the_first() -> None:
    first, again, other = draft("m1"), draft("m1"), draft("m1", sender_id="bob")
    (group,) = grouped([first, again, other])
    assert group.drafts == [first, other]
    assert first.followers == [again] and other.followers is None


def test_a_number_that_somebody_else_may_still_use_is_not_voided() -> None:
    group = numbered(draft("m1"))
    group.drafts[0].is_known = True
    group.refuse(group.drafts[0], NotFound())
    assert group.voids == []


def test_no_void_is_kept_of_a_counter_that_is_lost_nor_of_a_number_that_a_draft_holds() -> None:
    group = numbered(draft("m1"), draft("m2"), draft("m3"))
    group.take_counter(b"first")
    group.refuse(group.drafts[0], NotFound())
    ((seq_no, sent_ms),) = group.voids
    group.take_counter(b"first")
    assert group.voids == [(seq_no, sent_ms)]
    group.voids.append((group.drafts[0].seq_no, sent_ms))
    group.take_counter(b"first")
    assert group.voids == [(seq_no, sent_ms)]
    group.take_counter(b"second")
    assert group.voids == []


def test_a_draft_found_with_another_text_is_a_conflict() -> None:
    group = numbered(draft("m1"), draft("m2"))
    one, two = group.drafts
    group.found(one, target(2, digest=digest_of(Content("else"))))
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
