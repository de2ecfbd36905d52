"""A trial on a server that is there, and on a node of its own."""

from __future__ import annotations

from tidings_proof.bench.report.progress import Quiet
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.trials.table import run_alone, run_on


def test_a_trial_on_a_server_that_is_there_names_it(target: Target) -> None:
    found = run_on("connect", target, {"seconds": 3.0, "clients": 1}, Quiet())
    assert (found.url, found.unit, found.checks) == (target.url, "connect", [])


def test_a_trial_on_a_node_of_its_own_measures_its_cpu() -> None:
    found = run_alone("fanout", {"seconds": 3.0, "clients": 3, "members": 5, "in_flight": 1}, Quiet())
    assert found.url is None and found.facts["members"] == 5 and found.figures["posts"]["cpu_us"] > 0
