"""Where `scale` puts its users, and how its figures become a verdict."""

from __future__ import annotations

from collections import Counter

import pytest

from tidings_proof.bench import cli
from tidings_proof.bench.claims.scale import FLAT_MAX, checks_of, crossing, places, steps_of
from tidings_proof.bench.load.plan import Measured


def measured(cpu_s: float) -> Measured:
    return Measured(
        units=1_000,
        seconds=1.0,
        cpu_s={"node": cpu_s, "valkey": 0.0},
        p50_ms=1.0,
        p95_ms=1.5,
        p99_ms=2.0,
        late_p99_ms=0.0,
        generator_share=0.1,
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_combination_of_nodes_is_as_frequent_as_any_other(count: int) -> None:
    found = Counter(places(count, 36 * count))
    assert len(found) == count * count and len(set(found.values())) == 1
    senders = Counter(sender for sender, _ in places(count, 36 * count))
    assert set(senders.values()) == {36}, "the same load for each node"


def test_of_n_nodes_one_message_in_n_stays_where_it_is() -> None:
    assert [crossing(count, 36 * count) for count in (1, 2, 3)] == [0.0, 0.5, pytest.approx(2 / 3)]


def test_the_step_from_two_to_three_is_judged_and_the_one_before_is_only_shown() -> None:
    steps = steps_of({1: measured(0.1), 2: measured(0.2), 3: measured(0.22)})
    assert steps == {"1_to_2": pytest.approx(2.0), "2_to_3": pytest.approx(1.1)}
    (check,) = checks_of(steps)
    assert (check.is_met, check.target) == (True, FLAT_MAX)
    assert not checks_of({"2_to_3": 1.2})[0].is_met
    assert checks_of({"1_to_2": 2.0}) == []


@pytest.mark.long
def test_a_short_run_measures_two_nodes() -> None:
    found = cli.run("scale", {"seconds": 1.0, "rate": 20.0, "clients": 8, "nodes": 2})
    assert [found.figures[f"{count} nodes"]["crossing"] for count in (1, 2)] == [0.0, 0.5]
    assert all(found.figures[f"{count} nodes"]["units"] > 0 for count in (1, 2))
    assert found.figures["cpu_step"]["1_to_2"] > 0
