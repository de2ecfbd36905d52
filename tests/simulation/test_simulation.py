"""Promises 1-4 hold in every schedule that a seed makes: nodes die at any await, answers get lost, the keyspace is
flushed or falls back, devices come and go. And the simulation is worth something: mistakes put into the code are found.

A seed that goes wrong is played again with `pytest tests/simulation/test_simulation.py --sim-seed N`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import PYTHONPATH
from tidings_proof.simulation.mutations import LOSING_MUTATIONS, MUTATIONS, ODD_MUTATIONS
from tidings_proof.simulation.oddities import KINDS

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 150
SEEDS_UNTIL_FOUND = 600  # within so many a planted mistake shows
# Mistakes that show seldom are looked for from a seed on that showed them: the search is as long, and ends sooner.
LIKELY = {
    "receipts_are_answered_early": 122,
    "a_lost_inbox_is_warm": 17,
    "holds_are_off": 104,
    "inbox_moves_back": 51,
    "known_means_stored": 23,
    "gaps_are_skipped": 18,
    "any_list_decides": 210,
    "numbers_of_two_tries_are_kept": 160,
}
CRASHES = 150  # the first node takes 138 steps in the quiet world, from the first deed to the last
# Seeds that once went wrong stay, whatever the others are.
FOUND = (
    *(311, 2068, 2461, 5497, 6751, 7215, 102713, 105872, 105978, 106286, 108634, 202174, 202538, 208147),
    *(102190, 300000, 301637, 301653, 302503, 403437, 403633, 702036, 711952, 716934, 721279, 755119, 776967),
    *(503861, 310357, 512601),
)


LARGE_SEEDS = 30
LOSING_SEEDS = 40
ODD_SEEDS = 12  # of each kind of oddity
FOUND_ODD = {"removals": (101010, 300682, 302568), "slices": (25, 32, 466)}
FOUND_LARGE = (300309,)
FOUND_LOSING = (35, 49, 99, 154, 163, 199, 232, 285, 361, 448)  # the same, of worlds in which counters are lost


def play(first: int, count: int, *options: str) -> tuple[list[Any], Any, str]:
    """(what went wrong, the summary, the story) of some seeds, in a process of their own."""
    command = [sys.executable, "-m", "tidings_proof.simulation.run", str(first), str(count), *options]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    *wrong, summary = [json.loads(line) for line in done.stdout.splitlines()]
    return wrong, summary, done.stderr


def play_on_two_cores(first: int, count: int, *options: str) -> list[Any]:
    half = count // 2
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda part: play(*part, *options), ((first, half), (first + half, count - half)))
        return [fault for wrong, _, _ in parts for fault in wrong]


def told(wrong: list[Any]) -> str:
    lines = [f"seed {one['seed']} (dies_at {one['dies_at']}): {one['faults']}" for one in wrong]
    return "\n".join([*lines, "play one again: pytest tests/simulation/test_simulation.py --sim-seed N"])


def test_the_promises_hold_in_every_schedule(sim_seed: int | None) -> None:
    if sim_seed is not None:
        wrong, _, story = play(sim_seed, 1, "--story")
        assert not wrong, f"{story}\n{told(wrong)}"
        return
    wrong = play_on_two_cores(0, SEEDS)
    assert not wrong, told(wrong)


def test_seeds_that_once_went_wrong_go_well() -> None:
    wrong, _, _ = play(0, 0, "--also", *map(str, FOUND))
    assert not wrong, told(wrong)


def test_the_promises_hold_where_counters_are_lost_between_any_two_steps() -> None:
    wrong, _, _ = play(0, LOSING_SEEDS, "--losing")
    assert not wrong, told(wrong)


def test_seeds_with_lost_counters_that_once_went_wrong_go_well() -> None:
    wrong, _, _ = play(0, 0, "--losing", "--also", *map(str, FOUND_LOSING))
    assert not wrong, told(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_the_promises_hold_under_an_oddity(kind: str) -> None:
    wrong, _, _ = play(0, ODD_SEEDS, "--odd", kind, "--also", *map(str, FOUND_ODD.get(kind, ())))
    assert not wrong, told(wrong)


@pytest.mark.parametrize("name", ODD_MUTATIONS)
def test_a_mistake_that_shows_under_an_oddity_is_found(name: str) -> None:
    kind, _ = ODD_MUTATIONS[name]
    first = LIKELY.get(name, 0)
    wrong, summary, _ = play(first, SEEDS_UNTIL_FOUND, "--odd", kind, "--until-found", "--mutation", name)
    assert wrong, f"{name} passed {summary['played']} schedules"


def test_the_promises_hold_where_groups_are_large_or_cross_the_line() -> None:
    wrong, _, _ = play(0, LARGE_SEEDS, "--large", "--also", *map(str, FOUND_LARGE))
    assert not wrong, told(wrong)


def test_a_node_may_die_at_every_step_of_its_work() -> None:
    wrong = play_on_two_cores(0, CRASHES, "--crash")
    assert not wrong, told(wrong)


def test_a_seed_is_played_the_same_way_every_time() -> None:
    summaries = [play(11, 4)[1] for _ in range(2)]
    assert summaries[0] == summaries[1]
    assert play(12, 4)[1]["story"] != summaries[0]["story"]


@pytest.mark.parametrize("name", ["inbox_moves_back", "known_means_stored", "holds_are_off", "gaps_are_skipped"])
def test_a_mistake_is_found(name: str) -> None:
    wrong, summary, _ = play(LIKELY[name], SEEDS_UNTIL_FOUND, "--until-found", "--mutation", name)
    assert wrong, f"{name} passed {summary['played']} schedules"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_every_mistake_we_thought_of_is_found(name: str) -> None:
    wrong, summary, _ = play(0, SEEDS_UNTIL_FOUND, "--until-found", "--mutation", name)
    assert wrong, f"{name} passed {summary['played']} schedules"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(LOSING_MUTATIONS))
def test_every_mistake_about_lost_counters_is_found(name: str) -> None:
    wrong, summary, _ = play(0, SEEDS_UNTIL_FOUND, "--losing", "--until-found", "--mutation", name)
    assert wrong, f"{name} passed {summary['played']} schedules"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("count", "options"),
    [(10_000, ()), (3_000, ("--losing",)), (3_000, ("--large",)), *((2_000, ("--odd", kind)) for kind in KINDS)],
)
def test_the_promises_hold_in_many_more_schedules(count: int, options: tuple[str, ...]) -> None:
    wrong = play_on_two_cores(100_000, count, *options)
    assert not wrong, told(wrong)
