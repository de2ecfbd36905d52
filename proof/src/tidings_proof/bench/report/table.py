"""The table of a result for a terminal, with its facts and the verdict on each target."""

from __future__ import annotations

import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tidings_proof.bench.load.plan import Measured
from tidings_proof.bench.report.figures import shown
from tidings_proof.bench.results import Check, Result

PARTS = {"node": "node us", "valkey": "Valkey us", "postgresql": "PostgreSQL us"}
WIDTH = 130  # where the output is no terminal


def console() -> Console:
    return Console(width=max(Console().width, WIDTH) if sys.stdout.isatty() else WIDTH)


def show(found: Result) -> None:
    """Print the table, then the facts, then each figure beside its target."""
    screen = console()
    screen.print(table_of(found))
    for name, value in found.facts.items():
        screen.print(f"  {name}: {value:,.10g}", highlight=False)
    for check in found.checks:
        screen.print(f"  {'[green]met[/]' if check.is_met else '[red]missed[/]'}  {verdict(check)}", highlight=False)


def verdict(check: Check) -> str:
    target = f"{check.sign} {shown(check.target)} {check.unit}".rstrip()
    return f"{check.what}: {shown(check.value)} (target {target})"


def table_of(found: Result) -> Table:
    table = Table(title=f"{found.name}: {found.claim}", title_justify="left", box=SIMPLE_HEAD)
    for at, column in enumerate(found.columns):
        table.add_column(column, justify="right" if at else "left", no_wrap=not at)
    for row in found.rows:
        table.add_row(*map(shown, row))
    if any(not one.cpu_s for one in found.runs.values()):
        table.caption = "no CPU figures: the processes of the server are not visible from here"
    return table


def columns_of(unit: str, one: Measured) -> list[str]:
    """The columns of a table of runs. There is no CPU column for a server on another machine."""
    cpu = ["CPU us", *(PARTS[part] for part in one.cpu_s)] if one.cpu_s else []
    return ["", f"{unit}s/s", *cpu, "p50 ms", "p95 ms", "p99 ms", "generator"]


def row_of(name: str, one: Measured) -> list[str | float]:
    cpu = [one.cpu_us, *(one.part_us(part) for part in one.cpu_s)] if one.cpu_s else []
    return [name, one.per_s, *cpu, one.p50_ms, one.p95_ms, one.p99_ms, one.generator_share]
