"""A trial's outcome as a table for a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tidings.benchmarks.figures import shown
from tidings.benchmarks.plan import Measured
from tidings.benchmarks.trials import Outcome

NAMES = {"node": "node us", "valkey": "Valkey us"}


def table_of(found: Outcome) -> Table:
    where = "a node of its own" if found.is_own_node else found.url
    settings = ", ".join(f"{name} {shown(value)}" for name, value in found.settings.items())
    table = Table(title=f"{found.name} on {where}: {settings}", title_justify="left", box=SIMPLE_HEAD)
    parts = list(next(iter(found.runs.values())).cpu_s)
    cpu = ("CPU us", *(NAMES[part] for part in parts)) if parts else ()
    for at, column in enumerate(("", f"{found.unit}s/s", "p50 ms", "p95 ms", "p99 ms", *cpu)):
        table.add_column(column, justify="right" if at else "left", no_wrap=True)
    for name, one in found.runs.items():
        table.add_row(name, *map(shown, (one.per_s, one.p50_ms, one.p95_ms, one.p99_ms, *cpu_of(one))))
    if not parts:
        table.caption = "no CPU figures: the server's processes are not to be seen from here"
    return table


def cpu_of(one: Measured) -> tuple[float, ...]:
    """Per unit: of all parts, then of each; nothing of a server elsewhere."""
    if not one.cpu_s:
        return ()
    return one.cpu_us, *(one.part_us(name) for name in one.cpu_s)
