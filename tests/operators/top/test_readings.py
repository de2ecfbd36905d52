"""A page of /metrics becomes values by name and label."""

from __future__ import annotations

import pytest

from tests.support.metrics_pages import page_of, reading_of
from tidings.operators.top.readings import read_page
from tidings.telemetry.metrics import Metrics

INF = float("inf")


def test_samples_are_found_by_name_and_label() -> None:
    metrics = Metrics()
    metrics.messages.inc(3)
    metrics.rate_limited["send"].inc(2)
    metrics.rate_limited["read"].inc(5)
    reading = reading_of(metrics, 1.0)
    assert reading.total("tidings_messages_total") == 3
    assert reading.total("tidings_rate_limited_total") == 7
    assert reading.total("tidings_rate_limited_total", **{"class": "send"}) == 2
    assert reading.by("tidings_rate_limited_total", "class")["read"] == 5
    assert reading.total("tidings_of_a_later_version") == 0


def test_a_histogram_is_read_with_its_edges_in_order() -> None:
    metrics = Metrics()
    metrics.stage_seconds["store"].observe(0.004)
    buckets = reading_of(metrics, 1.0).buckets("tidings_stage_seconds", stage="store")
    assert [edge for edge, _ in buckets] == sorted(edge for edge, _ in buckets) and buckets[-1] == (INF, 1)
    assert dict(buckets)[0.003] == 0 and dict(buckets)[0.005] == 1


@pytest.mark.parametrize("text", ["", "<html>hello</html>", "other_total 3\n"])
def test_another_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_page(text, 1.0)


def test_a_real_page_is_read_without_loss() -> None:
    page = page_of(Metrics())
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    assert sum(len(found) for found in read_page(page, 0.0).samples.values()) == len(lines)
