"""The stage of a trial and its outcome."""

from __future__ import annotations

from tests.support.bench_figures import measured
from tidings_proof.bench.load.people import Keyed, Signed
from tidings_proof.bench.report.progress import Quiet
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.trials.trials import Found, Stage, Wanted, findings_of


def stage(people: Signed | Keyed) -> Stage:
    return Stage(Target("http://h", people), Wanted(seconds=1, clients=2, rate=5.0), Quiet())


def test_users_of_two_runs_are_not_the_same() -> None:
    one, other = stage(Signed("s")), stage(Signed("s"))
    assert not set(one.users("u", 3)) & set(other.users("u", 3))


def test_with_an_api_key_there_is_rest_alone() -> None:
    assert (stage(Signed("s")).transport, stage(Keyed("k")).transport) == ("ws", "http")


def test_the_findings_of_a_trial_have_its_sizes_and_its_figures() -> None:
    sizes = {"seconds": 1.0, "clients": 2, "in_flight": 4, "rate": None}
    found = findings_of("message", sizes, Found({"a": measured()}, {"x": 1.23456}), None)
    assert found.settings == {"seconds": 1.0, "clients": 2, "in_flight": 4}
    assert found.facts == {"x": 1.235}
    assert found.figures["a"]["p95_ms"] == 3.0
