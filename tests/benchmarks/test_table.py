"""The table of a trial."""

from __future__ import annotations

import io

from rich.console import Console

from tests.benchmarks.samples import outcome
from tidings.benchmarks.table import table_of
from tidings.benchmarks.trials import Outcome


def text_of(found: Outcome) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(table_of(found))
    return out.getvalue()


def test_a_run_is_a_row_with_its_percentiles_and_its_cpu() -> None:
    text = text_of(outcome())
    row = next(line for line in text.splitlines() if "4 in flight" in line)
    assert row.split() == ["4", "in", "flight", "500", "1.50", "3", "4", "90", "60", "30"]
    assert "send on http://h: seconds 2, clients 4" in text


def test_without_the_servers_processes_there_is_no_cpu_and_the_reason_is_said() -> None:
    text = text_of(outcome(cpu_s={}))
    assert "Valkey us" not in text and "no CPU figures" in text
