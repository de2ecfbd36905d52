"""The check of threads: counts by the log, lists with exactly their rows, and follows that were asked for."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.small_history import C, Story, claims_of
from tidings_proof.judge.checks_threads import Threads
from tidings_proof.judge.dump import Followed


@pytest.fixture
def story() -> Story:
    """A root of u0 with two replies. u0 has read none of them, and u1 wrote the second."""
    told = Story()
    told.said("u0", "root")
    for user_id, message_id in (("u2", "first"), ("u1", "second")):
        told.stored(user_id, message_id, thread_seq=1, is_uncounted=True)
    told.wrong["follows"] = {"u0": [Followed((C, 1), 0, ())], "u1": [Followed((C, 1), 0, ())], "u2": []}
    show(told, u0={(C, 1): 2}, u1={(C, 1): 1}, u2={})
    return told


def show(story: Story, **threads: dict[tuple[str, int], int]) -> None:
    shown = story.dump().shown
    story.wrong["shown"] = {
        user_id: msgspec.structs.replace(one, threads=threads[user_id], unread_threads=len(threads[user_id]))
        for user_id, one in shown.items()
    }


def test_counts_that_are_those_of_the_log_are_kept(story: Story) -> None:
    story.note("event", "threads", user_id="u0", value=[[2], 1])
    story.note("ok", "follow", user_id="u1", value=[1, True])
    finding = story.judged(Threads)
    assert finding.is_kept and finding.looked == 5, claims_of(finding)


@pytest.mark.parametrize("shown", [{}, {(C, 1): 1}, {(C, 1): 2, (C, 2): 1}])
def test_a_thread_that_is_missing_miscounted_or_too_many_is_noticed(
    story: Story, shown: dict[tuple[str, int], int]
) -> None:
    show(story, u0=shown, u1={(C, 1): 1}, u2={})
    assert story.judged(Threads).broken == 1


def test_what_is_read_deleted_or_of_a_blocked_person_does_not_count(story: Story) -> None:
    story.wrong["follows"] = {"u0": [Followed((C, 1), 0, ((2, 2),))], "u1": [Followed((C, 1), 2, ())], "u2": []}
    story.wrong["blocks"] = {"u0": frozenset({"u1"})}
    show(story, u0={}, u1={}, u2={})
    assert story.judged(Threads).is_kept


@pytest.mark.parametrize("value", [[[1], 2], [[1, 0], 2], [[], 1]])
def test_a_list_with_other_rows_than_its_number_is_noticed(story: Story, value: object) -> None:
    story.note("event", "threads", user_id="u0", value=value)
    assert story.judged(Threads).broken == 1


def test_a_follow_that_is_lost_is_noticed_and_one_that_was_taken_back_is_not(story: Story) -> None:
    story.note("ok", "follow", user_id="u2", value=[1, True])
    assert story.judged(Threads).broken == 1
    story.note("info", "follow", user_id="u2", value=[1, False])
    assert story.judged(Threads).is_kept
