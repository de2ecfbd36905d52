"""The trials that write, on a real node, with tiny sizes."""

from __future__ import annotations

import pytest

from tidings_proof.bench.load.plan import GeneratorFailed
from tidings_proof.bench.report.progress import Quiet
from tidings_proof.bench.target.own_node import folder, own_node
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.trials import sending as trials_sending
from tidings_proof.bench.trials.trials import Stage, Wanted


def stage(target: Target, **wanted: float) -> Stage:
    return Stage(target, Wanted(**{"seconds": 3.0, "clients": 2, **wanted}), Quiet())  # type: ignore[arg-type]


def test_connects_are_counted_with_what_they_cost(target: Target) -> None:
    one = trials_sending.connect(stage(target)).runs["connect"]
    assert one.units > 0 and 0 < one.p50_ms <= one.p95_ms <= one.p99_ms
    assert one.cpu_us > 0 and set(one.cpu_s) == {"node", "valkey"}


def test_messages_at_a_fixed_rate_come_through(target: Target) -> None:
    found = trials_sending.send(stage(target, rate=5.0, clients=4, seconds=3.0))
    assert found.runs["5/s"].units > 0


def test_a_load_that_the_server_refuses_is_no_figure(target: Target) -> None:
    with pytest.raises(GeneratorFailed, match="the server's limits refuse this load"):
        trials_sending.send(stage(target, seconds=5.0))


def test_a_post_reaches_those_who_are_online() -> None:
    with folder() as data, own_node(data) as server:
        found = trials_sending.fanout(stage(server, clients=3, members=5))
    assert found.facts["members"] == 5
    assert found.facts["deliveries_per_s"] == pytest.approx(found.runs["posts"].per_s * 3, rel=0.01)


def test_senders_past_their_limit_are_admitted_exactly_as_often_as_it_says() -> None:
    with folder() as data, own_node(data, TIDINGS_LIMITS_SEND="10/60s") as server:  # few: a slow machine manages them
        found = trials_sending.limiter(stage(server, seconds=2.0))
    assert found.facts["admitted"] == 2 * 10
    assert found.facts["refused"] == found.runs["decisions"].refused > 0
