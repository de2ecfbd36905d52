"""Screen: turns a view into lines of text. 80 columns and 24 rows hold everything; one line counts the nodes left out.

It is pure: a view goes in and text of rich comes out, so a test can read the screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.text import Text

from tidings.operators.doctor.server_load import ServerLoad
from tidings.operators.doctor.slow_commands import SlowCommand
from tidings.operators.figures import Latency
from tidings.operators.top.figures import Figures
from tidings.operators.top.watch import NodeView, View
from tidings.stores.findings import human_bytes
from tidings.telemetry.metrics import STAGES

WIDTH = 80
ROWS = 24
SLOW_SHOWN = 3
_ROWS_BESIDE = 21  # rows of everything except the nodes
_NOTHING = "-"


def lines(view: View, rows: int = ROWS, hint: str = "") -> list[Text]:
    """At most `rows` lines, but at least 24; no line is wider than WIDTH."""
    found = [*_title(view, hint), *_nodes(view, max(rows, ROWS) - _ROWS_BESIDE)]
    if view.all is not None:
        found += [*_stages(view.all), *_rest(view.all)]
    found += [*_servers(view.servers), *_slow_commands(view.slow)]
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
    first = sorted(view.nodes, key=lambda node: not node.lost)  # a lost node is never left out
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
        return Text(f"{name:<26}first reading", style="dim")
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
    largest = sorted(rates.items(), key=lambda pair: (-pair[1], pair[0]))  # a narrow screen cuts off the smallest
    said = "  ".join(f"{name} {_rate(rate)}" for name, rate in largest if rate)
    return Text(f"{title:<12}{said or 'none'}", style=style if said else "")


def _servers(loads: Sequence[ServerLoad]) -> Iterator[Text]:
    """The busiest server of the keyspace, whose one thread is the limit of them all."""
    if not loads:
        return
    load = loads[0]
    network = f"in {human_bytes(int(load.in_bytes_s))}/s  out {human_bytes(int(load.out_bytes_s))}/s"
    says = f"{load.cpu * 100:.0f}% cpu  {network}  io-threads {load.io_threads or '?'}  {load.verdict}"
    yield Text(f"{'keyspace':<12}{says}", style="" if load.verdict == "neither" else "yellow")


def _slow_commands(slow: tuple[SlowCommand, ...] | None) -> Iterator[Text]:
    yield Text()
    if slow is None:
        yield Text("slow commands: the keyspace cannot be reached from here", style="dim")
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
