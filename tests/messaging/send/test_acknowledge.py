"""Answers: everybody has one, and what is refused for now is held."""

from __future__ import annotations

from tests.support.messaging.drafts import draft, numbered, target
from tidings.clock import Clock
from tidings.errors import Forbidden, IdConflict, Problem, StoreUnavailable
from tidings.messaging.limits.held import Holds
from tidings.messaging.send.acknowledge import Acknowledge
from tidings.messaging.send.draft import Draft
from tidings.model import Content, Sent, digest_of
from tidings.telemetry.metrics import Metrics


def told(draft: Draft, into: list[Sent | Problem]) -> Draft:
    draft.reply = into.append
    return draft


def acknowledge() -> tuple[Acknowledge, Holds]:
    holds = Holds()
    return Acknowledge(holds, Clock(), Metrics()), holds


def test_an_answer_that_is_not_taken_keeps_nobody_else_from_theirs() -> None:
    """Not even those who came with the same id."""

    def gone(answer: object) -> None:
        raise RuntimeError("the socket is gone")

    answers: list[Sent | Problem] = []
    first, again, other = draft("m1"), told(draft("m1"), answers), told(draft("m2"), answers)
    first.reply, first.followers = gone, [again]
    group = numbered(first, other)
    for one in (first, other):
        group.stored(one, target(one.seq_no, digest=one.digest))
    assert acknowledge()[0].answer_group(group) == []
    assert [answer.entry.seq_no for answer in answers if isinstance(answer, Sent)] == [5, 6]


def test_after_a_conflict_the_follower_with_another_text_is_tried_again() -> None:
    """Its text may be the one that is stored."""
    answers: list[Sent | Problem] = []
    first, same, other = (told(draft("m1", content=Content(text)), answers) for text in ("new", "new", "stored"))
    first.followers = [same, other]
    group = numbered(first)
    group.found(first, target(2, digest=digest_of(Content("stored"))))
    assert acknowledge()[0].answer_group(group) == [other]
    assert [type(answer) for answer in answers] == [IdConflict, IdConflict]


def test_what_is_refused_for_now_is_held_and_what_is_refused_for_good_or_given_up_is_not() -> None:
    answers, holds = acknowledge()
    now, good, gone = draft("m1", origin="a"), draft("m2", origin="b"), draft("m3", origin="c")
    gone.is_abandoned = True
    group = numbered(now, good, gone)
    for one, problem in ((now, StoreUnavailable()), (good, Forbidden()), (gone, StoreUnavailable())):
        group.refuse(one, problem)
    answers.answer_group(group)
    answers.refuse([draft("m4", origin="d")], StoreUnavailable())
    assert [holds.is_held(origin, "c", "later", 99) for origin in "abcd"] == [True, False, False, True]


def test_a_send_that_came_twice_and_is_refused_keeps_the_place_of_the_first_time() -> None:
    """It was sent again before the answer came. The send after it has its old place too, and must not overtake it."""
    answers, holds = acknowledge()
    first, again, next_one = draft("m1", origin="a"), draft("m1", origin="a"), draft("m2", origin="a")
    first.place, again.place, next_one.place = 1, 9, 2
    first.followers = [again]
    group = numbered(first, next_one)
    for one in (first, next_one):
        group.refuse(one, StoreUnavailable())
    answers.answer_group(group)
    assert holds.is_held("a", "c", "m2", 12) and not holds.is_held("a", "c", "m1", 11)
