"""Isolation: one whole run with tiny sizes, and verdicts that can be missed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidings_proof.bench.claims import isolation
from tidings_proof.bench.claims.isolation import (
    GIVEN_UP_S,
    NO_WITNESS,
    PARTS,
    RATIO_MAX,
    Returns,
    checks_of,
    default_limits,
    figures_of,
    ratio_of,
)
from tidings_proof.bench.load.senders import Ack, Witness
from tidings_proof.bench.names import BENCHMARKS

GIVEN = SimpleNamespace(**{**BENCHMARKS["isolation"].sizes, **BENCHMARKS["isolation"].quick})


@pytest.mark.long
def test_every_nuisance_is_measured_in_one_run() -> None:
    found = isolation.run(GIVEN)
    assert [row[0] for row in found.rows] == ["quiet", *PARTS]
    assert [len(row) for row in found.rows] == [len(found.columns)] * len(found.rows)
    assert len(found.checks) == len(PARTS) + 1
    assert found.figures["returns"]["connected_s"] < GIVEN_UP_S


def test_big_inboxes_come_back_to_a_cold_keyspace() -> None:
    given = SimpleNamespace(**{**vars(GIVEN), "only": "rebuild"})
    found = isolation.run(given)
    assert [row[0] for row in found.rows] == ["quiet", "rebuild"]
    assert found.figures["returns"]["tries"] >= given.inboxes
    assert found.figures["returns"]["counted_s"] < GIVEN_UP_S


def test_a_stretch_that_is_twice_as_slow_is_a_missed_target() -> None:
    figures: dict[str, Any] = {"quiet": {"over_quiet": 1.0}, "burst": {"over_quiet": 2.1}, "creates": {"over_quiet": 2}}
    figures["returns"] = {"connected_s": 20.1}
    assert [(check.what, check.is_met) for check in checks_of(figures)] == [
        ("ack p99 over quiet: burst", False),
        ("ack p99 over quiet: creates", True),
        ("big inboxes connected", False),
    ]


def test_a_stretch_without_a_witness_is_a_missed_target() -> None:
    some, none = {"ack_p99_ms": 4.0, "acks": 10}, {"ack_p99_ms": 0.0, "acks": 0}
    assert ratio_of({"ack_p99_ms": 6.0, "acks": 9}, some) == 1.5
    assert ratio_of(none, some) == ratio_of(some, none) == NO_WITNESS > RATIO_MAX


def test_a_nuisance_is_compared_with_the_quiet_on_both_sides_and_with_the_neighbour() -> None:
    witness, control = Witness(), Witness()
    witness.acks = [Ack(at_s, took_s) for at_s, took_s in ((1, 0.001), (11, 0.008), (21, 0.003), (31, 0.5))]
    control.acks = [Ack(11, 0.004)]
    found = figures_of([(10, 20)], [(0, 10), (20, 30)], witness, control)
    assert found["ack_p99_ms"] == 8.0 and found["acks"] == 1
    assert found["over_quiet"] == pytest.approx(8 / 2.98, abs=0.02)
    assert found["over_neighbour"] == 2.0


def test_users_who_do_not_come_back_are_as_late_as_can_be() -> None:
    returns = Returns("http://127.0.0.1:1")
    returns.connected_s = {"big0": 1.0, "big1": 2.0}
    returns.counted_s = {"big0": 1.5}
    assert returns.figures(2) == {"tries": 0, "connected_s": 2.0, "counted_s": GIVEN_UP_S}


def test_the_limits_are_those_of_a_node_that_nobody_has_set_up() -> None:
    limits = default_limits()
    assert limits["TIDINGS_LIMITS_SEND"] == "100/60s" and len(limits) >= 6
