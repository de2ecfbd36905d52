"""Metrics under their promised names."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidings.telemetry.metrics import STAGES, TABLES, Metrics, Tally

PROMISED = {
    "tidings_messages": "counter",
    "tidings_deliveries": "counter",
    "tidings_connections": "gauge",
    "tidings_send_seconds": "histogram",
    "tidings_stage_seconds": "histogram",
    "tidings_batch_size": "histogram",
    "tidings_table_rows_read": "counter",
    "tidings_table_writes": "counter",
    "tidings_keyspace_commands": "counter",
    "tidings_rate_limited": "counter",
    "tidings_push": "counter",
    "tidings_rebuilds": "counter",
    "tidings_repairs": "counter",
}


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_every_promised_metric_exists_before_anything_happened() -> None:
    found = {family.name: family.type for family in text_string_to_metric_families(Metrics().render().decode())}
    assert PROMISED.items() <= found.items()


def test_counters_carry_the_total_suffix_and_their_label() -> None:
    metrics = Metrics()
    metrics.messages.inc(3)
    metrics.rows_read["messages"].inc(20)
    metrics.writes["conversations"].inc()
    metrics.rate_limited["send"].inc(2)
    metrics.push["fcm", "sent"].inc()
    metrics.rebuilds["inbox"].inc()
    metrics.repairs["row"].inc()
    found = samples(metrics)
    assert found["tidings_messages_total", ()] == 3
    assert found["tidings_table_rows_read_total", (("table", "messages"),)] == 20
    assert found["tidings_table_writes_total", (("table", "conversations"),)] == 1
    assert found["tidings_rate_limited_total", (("class", "send"),)] == 2
    assert found["tidings_push_total", (("outcome", "sent"), ("provider", "fcm"))] == 1
    assert found["tidings_rebuilds_total", (("what", "inbox"),)] == 1
    assert found["tidings_repairs_total", (("what", "row"),)] == 1


def test_connections_go_up_and_down() -> None:
    metrics = Metrics()
    metrics.connections.inc()
    metrics.connections.inc()
    metrics.connections.dec()
    assert samples(metrics)["tidings_connections", ()] == 1


def test_every_table_and_stage_is_there_at_zero() -> None:
    found = samples(Metrics())
    assert {table for table in TABLES if found["tidings_table_rows_read_total", (("table", table),)] == 0} == set(
        TABLES
    )
    assert {stage for stage in STAGES if found["tidings_stage_seconds_count", (("stage", stage),)] == 0} == set(STAGES)


def test_a_histogram_counts_into_cumulative_buckets() -> None:
    metrics = Metrics()
    metrics.send_seconds.observe(0.0015)
    for _ in range(3):
        metrics.send_seconds.observe(0.004)
    metrics.send_seconds.observe(99.0)
    found = samples(metrics)
    assert found["tidings_send_seconds_bucket", (("le", "0.001"),)] == 0
    assert found["tidings_send_seconds_bucket", (("le", "0.002"),)] == 1
    assert found["tidings_send_seconds_bucket", (("le", "0.005"),)] == 4
    assert found["tidings_send_seconds_bucket", (("le", "10.0"),)] == 4
    assert found["tidings_send_seconds_bucket", (("le", "+Inf"),)] == found["tidings_send_seconds_count", ()] == 5
    assert found["tidings_send_seconds_sum", ()] == pytest.approx(0.0015 + 3 * 0.004 + 99.0)


def test_a_value_on_an_edge_belongs_below_it() -> None:
    tally = Tally((1, 2))
    tally.observe(1)
    assert tally.buckets() == [("1.0", 1), ("2.0", 1), ("+Inf", 1)]


def test_stages_and_batches_are_measured() -> None:
    metrics = Metrics()
    metrics.stage_seconds["store"].observe(0.01)
    metrics.batch_size.observe(64)
    found = samples(metrics)
    assert found["tidings_stage_seconds_count", (("stage", "store"),)] == 1
    assert found["tidings_batch_size_bucket", (("le", "64.0"),)] == 1
    assert found["tidings_batch_size_bucket", (("le", "32.0"),)] == 0


def test_two_nodes_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.messages.inc()
    assert samples(other)["tidings_messages_total", ()] == 0
