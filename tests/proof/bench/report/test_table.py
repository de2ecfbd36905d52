"""The table of a result."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.support.bench_figures import claim_result, trial_result
from tidings_proof.bench.report.table import show, table_of
from tidings_proof.bench.results import Check, Result


def text_of(found: Result) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(table_of(found))
    return out.getvalue()


def test_a_run_is_a_row_with_its_cpu_and_its_percentiles() -> None:
    text = text_of(trial_result())
    row = next(line for line in text.splitlines() if "4 in flight" in line)
    assert row.split() == ["4", "in", "flight", "500", "90", "60", "30", "1.50", "3", "4", "0.10"]
    assert "send: http://h, seconds 2, clients 4" in text


def test_without_the_servers_processes_there_is_no_cpu_and_the_reason_is_shown() -> None:
    text = text_of(trial_result(cpu_s={}))
    assert "Valkey us" not in text and "no CPU figures" in text


def test_each_figure_stands_beside_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    show(claim_result("send", Check("CPU", 90.5, "<=", 220, "us"), Check("ratio", 3.2, ">=", 4, "x")))
    out = capsys.readouterr().out
    assert "met  CPU: 90.5 (target <= 220 us)" in out and "missed  ratio: 3.20 (target >= 4 x)" in out
