"""Plans: a seed makes the same world each time."""

from __future__ import annotations

import random

from tidings_proof.simulation.oddities import KINDS
from tidings_proof.simulation.plans import Plan


def test_a_seed_makes_the_same_plan_each_time() -> None:
    assert vars(Plan(random.Random(3))) == vars(Plan(random.Random(3)))
    assert vars(Plan.losing(3)) == vars(Plan.losing(3)) and vars(Plan.odd(3, "evict")) == vars(Plan.odd(3, "evict"))
    assert len({str(vars(Plan(random.Random(seed)))) for seed in range(20)}) > 10


def test_an_odd_world_has_one_oddity_and_no_lossy_wires() -> None:
    for kind in KINDS:
        plan = Plan.odd(1, kind)
        assert plan.oddities == (kind,) and plan.nodes >= 2 and set(plan.trouble.values()) == {0.0}


def test_in_a_large_world_the_line_is_low_enough_for_its_groups() -> None:
    assert {Plan.large(seed).members_large for seed in range(20)} == {1, 2}
    assert vars(Plan.large(3)) == vars(Plan.large(3)) and Plan.quiet(None).members_large == 500


def test_only_the_first_node_of_a_quiet_world_dies() -> None:
    plan = Plan.quiet(dies_at=7)
    assert (plan.dies_at, plan.mischief, plan.slowness) == (7, 0, 0.0) and not plan.oddities
