"""The plan of faults: from a seed alone, the same each time, every fault before any comes again."""

from __future__ import annotations

from collections import Counter

from tidings_proof.faults.faults import FAULTS
from tidings_proof.faults.schedule import SHORT_S, WARM_S, plan


def test_the_same_seed_makes_the_same_plan_and_another_one_another() -> None:
    assert plan(7, 60, list(FAULTS)) == plan(7, 60, list(reversed(FAULTS)))
    assert plan(7, 60, list(FAULTS)) != plan(8, 60, list(FAULTS))


def test_every_fault_comes_before_one_comes_again() -> None:
    counts = Counter(step.fault for step in plan(3, 600, list(FAULTS)))
    assert counts.keys() == FAULTS.keys() and max(counts.values()) - min(counts.values()) <= 1


def test_faults_come_after_a_while_and_end_before_the_run() -> None:
    for seconds in (SHORT_S - 1, SHORT_S + 1):
        steps = plan(5, seconds, ["a", "b"])
        assert steps[0].at_s == WARM_S and steps[-1].at_s < seconds - 1
        assert [step.at_s for step in steps] == sorted(step.at_s for step in steps)


def test_without_faults_there_is_no_plan() -> None:
    assert plan(1, 60, []) == []
