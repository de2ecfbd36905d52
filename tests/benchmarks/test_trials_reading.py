"""The trials that read, on a real node, with tiny sizes; the cold tier on a node of its own."""

from __future__ import annotations

import pytest

from tidings.benchmarks import trials_reading
from tidings.benchmarks.plan import GeneratorFailed
from tidings.benchmarks.progress import Quiet
from tidings.benchmarks.target import Target
from tidings.benchmarks.trials import Stage, Wanted
from tidings.benchmarks.trials_table import run_alone


def stage(target: Target, **wanted: float) -> Stage:
    return Stage(target, Wanted(**{"seconds": 0.3, "clients": 2, **wanted}), Quiet())  # type: ignore[arg-type]


def test_an_inbox_is_opened_with_all_its_rows(target: Target) -> None:
    found = trials_reading.inbox(stage(target, conversations=3))
    assert found.runs["opens"].units > 0 and found.facts == {"conversations": 3}


def test_pages_of_history_are_whole(target: Target) -> None:
    assert trials_reading.history(stage(target, messages=20)).runs["pages"].units > 0


def test_everyone_who_comes_back_has_what_was_missed(target: Target) -> None:
    found = trials_reading.resume(stage(target, clients=4))
    assert found.runs["comebacks"].units == 4
    assert found.facts["entries"] == 4 * 3 * 3


def test_a_server_that_is_there_needs_a_conversation_that_is_archived(target: Target) -> None:
    with pytest.raises(GeneratorFailed, match="needs --conversation and --user"):
        trials_reading.archive(stage(target))


def test_pages_of_the_cold_tier_stand_beside_those_that_are_not_there() -> None:
    found = run_alone("archive", Wanted(seconds=0.2, clients=2, messages=40), Quiet())
    assert set(found.figures) == {"hot", "cold"} and found.is_own_node
    assert (found.facts["archived"], found.facts["objects"]) == (40, 1)
    assert found.facts["objects_read"] >= 1, "the pages came out of the blobs"
