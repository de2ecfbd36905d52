"""Figures: growth between two readings, and quantiles as Prometheus computes them."""

from __future__ import annotations

import pytest

from tests.support.metrics_pages import reading_of
from tidings.operators.figures import Latency, difference, gain, latency, quantile, rate
from tidings.telemetry.metrics import Metrics

INF = float("inf")


def test_a_counter_that_fell_belongs_to_a_node_that_started_again() -> None:
    assert (gain(5, 8), gain(8, 3)) == (3, 3)


def test_a_rate_is_per_second_and_summed_over_the_nodes() -> None:
    metrics = Metrics()
    before = reading_of(metrics, 1.0)
    metrics.messages.inc(10)
    pairs = [(before, reading_of(metrics, 3.0)), (before, reading_of(metrics, 2.0))]
    assert rate(pairs, lambda reading: reading.total("tidings_messages_total")) == pytest.approx(15)


def test_nothing_observed_has_no_latency() -> None:
    reading = reading_of(Metrics(), 1.0)
    assert latency([(reading, reading)], lambda one: one.buckets("tidings_send_seconds")) == Latency(None, None)


def test_quantiles_lie_between_the_edges() -> None:
    buckets = ((1.0, 50.0), (2.0, 100.0), (INF, 100.0))
    assert quantile(buckets, 0.5) == 1.0
    assert quantile(buckets, 0.75) == 1.5
    assert quantile(((1.0, 0.0), (INF, 4.0)), 0.99) == 1.0  # beyond the last edge nothing is known but that
    assert quantile(((1.0, 0.0), (INF, 0.0)), 0.5) is None and quantile((), 0.5) is None


def test_what_several_histograms_gained_is_added_up() -> None:
    before = [((1.0, 1.0), (INF, 2.0)), ((1.0, 5.0), (INF, 5.0))]
    after = [((1.0, 2.0), (INF, 4.0)), ((1.0, 5.0), (INF, 6.0))]
    assert difference(before, after) == [(1.0, 1.0), (INF, 3.0)]


def test_a_histogram_that_began_anew_gained_what_it_has() -> None:
    assert difference([((1.0, 9.0), (INF, 9.0))], [((1.0, 1.0), (INF, 2.0))]) == [(1.0, 1.0), (INF, 2.0)]
    assert difference([()], [((1.0, 1.0), (INF, 2.0))]) == [(1.0, 1.0), (INF, 2.0)]
