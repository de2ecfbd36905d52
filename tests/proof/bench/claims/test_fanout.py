"""Fan-out: the cost of a delivery is the difference between a post with listeners and one without."""

from __future__ import annotations

from types import SimpleNamespace

from tests.support.bench_figures import measured
from tidings_proof.bench.claims.fanout import ALONE, EVERYBODY, FULL, MARKS, ONE, RECEIPTS, checks_of, figures_of

GIVEN = SimpleNamespace(clients=10, members=100)


def test_a_delivery_costs_what_listeners_add_to_a_post() -> None:
    found = {
        ALONE: measured({"node": 0.5, "valkey": 0.5}),
        ONE: measured({"node": 0.6, "valkey": 0.5}),
        FULL: measured({"node": 0.6, "valkey": 0.5}),
        EVERYBODY: measured({"node": 0.2, "valkey": 0.1}),
        RECEIPTS: measured({"node": 0.4, "valkey": 0.2}),
        MARKS: measured({"node": 0.4, "valkey": 0.2}),
    }
    figures = figures_of(found, GIVEN)
    assert figures["node_us_per_delivery"] == 10.0 and figures["cpu_us_per_indexed_member"] == 10.0
    assert all(check.is_met for check in checks_of(figures))
    assert not checks_of({**figures, "node_us_per_delivery": 15.1})[0].is_met
    assert figures["node_cpu_with_receipts_over_without"] == 2.0
    assert not checks_of({**figures, "node_cpu_with_receipts_over_without": 2.01})[-2].is_met
    assert not checks_of({**figures, "node_cpu_with_reads_over_without": 2.01})[-1].is_met
    part = {name: one for name, one in found.items() if name in (EVERYBODY, RECEIPTS, MARKS)}
    assert [check.is_met for check in checks_of(figures_of(part, GIVEN))] == [True, True]
