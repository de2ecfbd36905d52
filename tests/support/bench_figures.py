"""Figures to show, as a run would bring them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidings_proof.bench.load.plan import Measured, Moment
from tidings_proof.bench.results import Check, Findings, Result, result_of
from tidings_proof.bench.trials.trials import Found, findings_of


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


def trial_result(cpu_s: dict[str, float] | None = None) -> Result:
    """The result of a trial on a server that was there already."""
    sizes = {"seconds": 2.0, "clients": 4, "rate": None}
    found = Found({"4 in flight": measured(cpu_s)}, {"x": 1.23456})
    return result_of("send", {"clients": 4}, findings_of("message", sizes, found, "http://h"))


def claim_findings(*checks: Check, figures: Mapping[str, Any] | None = None) -> Findings:
    return Findings(
        claim="a claim",
        settings={"pairs": 100},
        figures=dict(figures) if figures else {"tidings": {"cpu_us": 90.5}},
        columns=["", "CPU us"],
        rows=[["tidings", 90.5]],
        checks=list(checks),
    )


def claim_result(name: str, *checks: Check, figures: Mapping[str, Any] | None = None) -> Result:
    return result_of(name, {}, claim_findings(*checks, figures=figures))
