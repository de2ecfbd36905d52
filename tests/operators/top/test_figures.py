"""Figures are what happened between two readings: of one node, of several, and of one that was restarted."""

from __future__ import annotations

from tests.support.metrics_pages import reading_of, work
from tidings.operators.top.figures import figures_of
from tidings.telemetry.metrics import STAGES, Metrics


def test_rates_and_latencies_are_of_the_time_between() -> None:
    metrics = Metrics()
    work(metrics, 800, ack_s=5.0)  # long ago, and slow: none of it may show
    before = reading_of(metrics, 100.0)
    metrics.connections.set(42)
    work(metrics, 400)
    figures = figures_of([(before, reading_of(metrics, 104.0))])
    assert (figures.connections, figures.messages, figures.deliveries, figures.commands) == (42, 100, 200, 500)
    assert figures.ack.p50_ms is not None and 1 < figures.ack.p50_ms <= 2
    assert figures.ack.p99_ms is not None and figures.ack.p99_ms <= 2
    assert figures.batch_mean == 8 and figures.batch_p99 is not None and 4 < figures.batch_p99 <= 8
    assert set(figures.stages) == set(STAGES)
    assert all(latency.p50_ms is not None and latency.p50_ms <= 0.5 for latency in figures.stages.values())


def test_a_quiet_node_has_no_latency() -> None:
    metrics = Metrics()
    figures = figures_of([(reading_of(metrics, 1.0), reading_of(metrics, 2.0))])
    assert figures.ack.p50_ms is None and figures.batch_mean is None and figures.messages == 0


def test_nodes_are_added_up_as_if_they_were_one() -> None:
    slow, fast = Metrics(), Metrics()
    before = [reading_of(slow, 0.0), reading_of(fast, 0.0)]
    work(slow, 8, ack_s=0.9)
    work(fast, 792)
    figures = figures_of(list(zip(before, [reading_of(slow, 1.0), reading_of(fast, 1.0)], strict=True)))
    assert figures.messages == 800
    assert figures.ack.p50_ms is not None and figures.ack.p50_ms < 3
    assert figures.ack.p99_ms is not None and figures.ack.p99_ms < 600  # one in a hundred, not one in two


def test_a_restarted_node_counts_from_nothing() -> None:
    old, new = Metrics(), Metrics()
    work(old, 8_000)
    work(new, 80)
    figures = figures_of([(reading_of(old, 0.0), reading_of(new, 2.0))])
    assert figures.messages == 40 and figures.batch_mean == 8


def test_rejects_pushes_rebuilds_and_repairs_are_told_by_name() -> None:
    metrics = Metrics()
    before = reading_of(metrics, 0.0)
    metrics.rate_limited["send"].inc(20)
    metrics.push["fcm", "sent"].inc(4)
    metrics.push["apns", "sent"].inc(4)
    metrics.push["apns", "gone"].inc(2)
    metrics.rebuilds["inbox"].inc(6)
    metrics.repairs["row"].inc(8)
    figures = figures_of([(before, reading_of(metrics, 2.0))])
    assert figures.rejects["send"] == 10 and figures.rejects["read"] == 0
    assert figures.pushes == {"sent": 4, "gone": 1} and (figures.rebuilds, figures.repairs) == (3, 4)
