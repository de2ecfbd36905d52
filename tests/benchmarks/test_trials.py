"""The stage of a trial and its outcome."""

from __future__ import annotations

import msgspec

from tests.benchmarks.samples import measured
from tidings.benchmarks.people import Keyed, Signed
from tidings.benchmarks.progress import Quiet
from tidings.benchmarks.target import Target
from tidings.benchmarks.trials import Found, Outcome, Stage, Wanted, outcome
from tidings.benchmarks.trials_table import TRIALS


def stage(people: Signed | Keyed) -> Stage:
    return Stage(Target("http://h", people), Wanted(seconds=1, clients=2, rate=5.0), Quiet())


def test_users_of_two_runs_are_not_the_same() -> None:
    one, other = stage(Signed("s")), stage(Signed("s"))
    assert not set(one.users("u", 3)) & set(other.users("u", 3))


def test_with_an_api_key_there_is_rest_alone() -> None:
    assert (stage(Signed("s")).transport, stage(Keyed("k")).transport) == ("ws", "http")


def test_an_outcome_says_with_what_it_was_made_and_survives_json() -> None:
    found = outcome("send", TRIALS["send"], stage(Signed("s")), Found({"a": measured()}, {"x": 1.23456}), False)
    assert found.settings == {"seconds": 1, "clients": 2, "in_flight": 4, "rate": 5.0}
    assert found.facts == {"x": 1.235}
    assert found.figures["a"]["p95_ms"] == 3.0
    assert msgspec.json.decode(msgspec.json.encode(found), type=Outcome) == found
