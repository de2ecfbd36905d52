"""The trials that read, on a real node, with tiny sizes."""

from __future__ import annotations

import pytest

from tidings_proof.bench.load.plan import GeneratorFailed
from tidings_proof.bench.report.progress import Quiet
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.trials import reading as trials_reading
from tidings_proof.bench.trials.trials import Stage, Wanted


def stage(target: Target, **wanted: float) -> Stage:
    return Stage(target, Wanted(**{"seconds": 3.0, "clients": 2, **wanted}), Quiet())  # type: ignore[arg-type]


def test_an_inbox_is_opened_with_all_its_rows(target: Target) -> None:
    found = trials_reading.inbox(stage(target, conversations=3))
    assert found.runs["opens"].units > 0 and found.facts == {"conversations": 3}


def test_pages_of_history_are_whole(target: Target) -> None:
    assert trials_reading.history(stage(target, messages=20)).runs["pages"].units > 0


def test_everyone_who_comes_back_has_what_was_missed(target: Target) -> None:
    found = trials_reading.resume(stage(target, clients=4))
    assert found.runs["comebacks"].units == 4
    assert found.facts["entries"] == 4 * 3 * 3


def test_pages_of_the_cold_tier_need_a_conversation_that_is_archived(target: Target) -> None:
    with pytest.raises(GeneratorFailed, match="needs --conversation and --user"):
        trials_reading.archive(stage(target))


def test_pages_of_a_named_conversation_are_read_and_the_objects_counted(target: Target) -> None:
    made = trials_reading.history(one := stage(target, messages=20))
    assert made.runs["pages"].units > 0
    (row,) = target.call("GET", "/v1/inbox", user_id=one.user("u0"))["conversations"]
    wanted = Wanted(seconds=3.0, clients=2, conversation_id=row["conversation_id"], user_id=one.user("u0"))
    found = trials_reading.archive(Stage(target, wanted, Quiet()))
    assert found.runs["cold"].units > 0 and found.facts == {"objects_read": 0}
