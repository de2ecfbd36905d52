"""The pages of two workers as one: every kind of metric by its own rule."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tidings.telemetry.merging import counts_of, merge
from tidings.telemetry.metrics import Metrics


def page(messages: int, connections: int, keyspace_up: int, lag: int) -> str:
    metrics = Metrics()
    metrics.messages.inc(messages)
    metrics.connections.set(connections)
    metrics.store_up.labels("keyspace").set(keyspace_up)
    metrics.show_lag("audit", lag)
    for _ in range(messages):
        metrics.send_seconds.observe(0.001)
    metrics.push["apns", f"outcome {connections}"].inc()
    return metrics.render().decode()


def values(text: str) -> dict[str, float]:
    """Every sample, as a Prometheus reads the page."""
    return {
        sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counts_and_connections_are_added_stores_are_as_bad_as_the_worst_and_a_queue_counts_once() -> None:
    merged = values(merge([page(3, 1, 1, 5), page(4, 2, 0, 7)]))
    assert merged["tidings_messages_total"] == 7 and merged["tidings_connections"] == 3
    assert merged["tidings_store_up keyspace"] == 0 and merged["tidings_stream_lag audit"] == 7
    assert merged["tidings_send_seconds_count"] == merged["tidings_send_seconds_bucket +Inf"] == 7


def test_a_series_that_one_worker_alone_has_stays_in_its_family() -> None:
    merged = merge([page(0, 1, 1, 0), page(0, 2, 1, 0)])
    assert merged.count("# TYPE tidings_push_total") == 1
    assert {name: value for name, value in values(merged).items() if "outcome" in name} == {
        "tidings_push_total outcome 1 apns": 1,
        "tidings_push_total outcome 2 apns": 1,
    }


def test_one_page_stays_as_it_is() -> None:
    alone = page(3, 1, 1, 5)
    assert values(merge([alone])) == values(merge([alone, ""])) == values(alone)


def test_the_counts_of_a_worker_that_ended_are_kept_without_its_gauges() -> None:
    kept = counts_of(page(3, 1, 1, 5))
    assert values(kept)["tidings_messages_total"] == 3 and "tidings_connections" not in kept
    assert values(merge([page(4, 2, 1, 0), kept]))["tidings_connections"] == 2
    assert values(merge([page(4, 2, 1, 0), kept]))["tidings_messages_total"] == 7
