"""A view as lines of text: 80 columns and 24 rows hold everything; nodes that do not fit are told in a line.

Pure: a view goes in, rich's text comes out, so a test can read the screen. cli_top.py puts it on a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from rich.text import Text

from tidings.doctor.slow import Slow
from tidings.top.figures import STAGES, Figures, Latency
from tidings.top.watch import NodeView, View

WIDTH = 80
ROWS = 24
SLOW_SHOWN = 3
_ROWS_BESIDE = 20  # what all but the nodes takes
_NOTHING = "-"


def lines(view: View, rows: int = ROWS, hint: str = "") -> list[Text]:
    """At most `rows`, but for a terminal lower than 24; none wider than WIDTH."""
    found = [*_title(view, hint), *_nodes(view, max(rows, ROWS) - _ROWS_BESIDE)]
    if view.all is not None:
        found += [*_stages(view.all), *_rest(view.all)]
    found += _slow_commands(view.slow)
    for line in found:
        line.truncate(WIDTH, overflow="ellipsis")
    return found


def _title(view: View, hint: str) -> Iterator[Text]:
    lost = sum(bool(node.lost) for node in view.nodes)
    at = datetime.fromtimestamp(view.at_ms / 1000, UTC).strftime("%H:%M:%S UTC")
    title = Text(f"tidings top  {len(view.nodes) - lost} of {len(view.nodes)} nodes  {at}", style="bold")
    if lost:
        title.append(f"  {lost} LOST", style="bold red")
    title.append(f"  {hint}", style="dim")
    yield title
    yield Text()


def _nodes(view: View, shown: int) -> Iterator[Text]:
    yield _heading(f"{'node':<26}{'conns':>8}{'msg/s':>8}{'deliv/s':>9}{'ack p50':>9}{'p99 ms':>8}{'cpu':>5}{'MiB':>6}")
    first = sorted(view.nodes, key=lambda node: not node.lost)  # who is lost is never among those left out
    for node in first[:shown]:
        yield _node(node)
    if len(first) > shown:
        yield Text(f"and {len(first) - shown} more", style="dim")
    if len(view.nodes) > 1 and view.all is not None:
        yield _figures_row("together", view.all, "bold")


def _node(node: NodeView) -> Text:
    name = node.url.partition("://")[2][:25]
    if node.lost:
        return Text(f"{name:<26}LOST: {node.lost}", style="bold red")
    if node.figures is None:
        return Text(f"{name:<26}just met", style="dim")
    return _figures_row(name, node.figures)


def _figures_row(name: str, figures: Figures, style: str = "") -> Text:
    rates = f"{figures.connections:>8}{_rate(figures.messages):>8}{_rate(figures.deliveries):>9}"
    ack = f"{_ms(figures.ack.p50_ms):>9}{_ms(figures.ack.p99_ms):>8}"
    use = f"{figures.cpu * 100:>4.0f}%{figures.memory_bytes / 1024**2:>6.0f}"
    return Text(f"{name:<26}{rates}{ack}{use}", style=style)


def _stages(figures: Figures) -> Iterator[Text]:
    yield Text()
    yield _heading(f"{'ms':<8}" + "".join(f"{stage:>12}" for stage in STAGES))
    for title, pick in (("p50", _p50), ("p99", _p99)):
        yield Text(f"{title:<8}" + "".join(f"{_ms(pick(figures.stages[stage])):>12}" for stage in STAGES))


def _p50(latency: Latency) -> float | None:
    return latency.p50_ms


def _p99(latency: Latency) -> float | None:
    return latency.p99_ms


def _rest(figures: Figures) -> Iterator[Text]:
    yield Text()
    batch = f"{_number(figures.batch_mean)} (p99 {_number(figures.batch_p99)})"
    yield Text(f"{'batch size':<12}{batch:<24}{'keyspace commands/s':<22}{_rate(figures.commands)}")
    yield Text(f"{'rebuilds/s':<12}{_rate(figures.rebuilds):<24}{'repairs/s':<22}{_rate(figures.repairs)}")
    yield _named("rejects/s", figures.rejects, "yellow")
    yield _named("pushes/s", figures.pushes)


def _named(title: str, rates: Mapping[str, float], style: str = "") -> Text:
    said = "  ".join(f"{name} {_rate(rate)}" for name, rate in sorted(rates.items()) if rate)
    return Text(f"{title:<12}{said or 'none'}", style=style if said else "")


def _slow_commands(slow: tuple[Slow, ...] | None) -> Iterator[Text]:
    yield Text()
    if slow is None:
        yield Text("slow commands: the keyspace is not reached from here", style="dim")
        return
    yield _heading(f"slow commands since top was started: {len(slow)}")
    for entry in slow[:SLOW_SHOWN]:
        yield Text(f"{entry.us / 1000:>8.1f} ms  {entry.command} {entry.key}")


def _heading(text: str) -> Text:
    return Text(text, style="cyan")


def _ms(value_ms: float | None) -> str:
    return _NOTHING if value_ms is None else f"{value_ms:.1f}" if value_ms < 1000 else f"{value_ms:.0f}"


def _number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.1f}"


def _rate(value: float) -> str:
    if value >= 100_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}"
