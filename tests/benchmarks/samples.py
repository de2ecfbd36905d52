"""Figures to show, as a run would bring them."""

from __future__ import annotations

from tidings.benchmarks.plan import Measured, Moment
from tidings.benchmarks.trials import Outcome


def measured(cpu_s: dict[str, float] | None = None) -> Measured:
    return Measured(
        units=1_000,
        seconds=2.0,
        cpu_s={"node": 0.06, "valkey": 0.03} if cpu_s is None else cpu_s,
        p50_ms=1.5,
        p95_ms=3.0,
        p99_ms=4.0,
        late_p99_ms=0.1,
        generator_share=0.1,
        quantiles_ms=[percent / 25 for percent in range(101)],
        moments=[Moment(1.0, 480.0, 1.5, 4.0), Moment(2.0, 520.0, 1.5, 4.0)],
    )


def outcome(cpu_s: dict[str, float] | None = None) -> Outcome:
    one = measured(cpu_s)
    return Outcome(
        name="send",
        unit="message",
        url="http://h",
        is_own_node=False,
        made_at="2000-01-01T00:00:00+00:00",
        version="1.0",
        python="CPython 3.11",
        settings={"seconds": 2.0, "clients": 4},
        figures={"4 in flight": one.figures()},
        facts={},
        runs={"4 in flight": one},
    )
