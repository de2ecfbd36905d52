"""A lap ends one stage and begins the next."""

from __future__ import annotations

from tidings.messaging.stopwatch import Stopwatch
from tidings.telemetry import Metrics


def test_each_stage_gets_the_time_since_the_one_before() -> None:
    times = iter([10.0, 10.5, 12.5])
    stages = Metrics().stage_seconds
    watch = Stopwatch(lambda: next(times), stages)
    watch.lap("admit")
    watch.lap("store")
    assert (stages["admit"].sum, stages["store"].sum, stages["index"].sum) == (0.5, 2.0, 0.0)
