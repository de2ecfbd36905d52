"""Pictures of results, as SVG: the growth curves, and the cost of a message beside the textbook server.

They are drawn from the result files alone, so `tidings bench report --write` can draw results of another machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidings_proof.bench.report.plots import Line, Panel, draw, has_matplotlib
from tidings_proof.bench.results import Result


def growth_pictures(found: Result, folder: Path) -> list[Path]:
    """Draw each curve into bench-growth-<curve>.svg. Without matplotlib there is a warning and no picture."""
    if not _can_draw():
        return []
    files = []
    for name, curve in found.figures.items():
        lines = [Line(label, *_columns(points)) for label, points in curve["lines"].items()]
        panel = Panel(
            title=curve["title"],
            x_label=curve["x_label"],
            y_label=curve["y_label"],
            lines=lines,
            is_log_x=True,
            has_marks=True,
        )
        files.append(folder / f"bench-growth-{name}.svg")
        draw([panel], files[-1], "", note_of(found))
    return files


def _columns(points: list[list[float]]) -> tuple[list[float], list[float]]:
    return [float(size) for size, _ in points], [float(us) for _, us in points]


def send_picture(found: Result, folder: Path) -> list[Path]:
    """CPU per message under each load, ours and the textbook's; nothing when only one of them was measured."""
    servers: list[str] = [name for name in ("tidings", "textbook") if name in found.figures]
    if len(servers) < 2 or not _can_draw():
        return []
    bars = {name: {load: one["cpu_us"] for load, one in found.figures[name].items()} for name in servers}
    panel = Panel(title="A durable message", x_label="", y_label="CPU us", lines=[], bars=bars)
    file = folder / "bench-send.svg"
    draw([panel], file, "", note_of(found))
    return [file]


def note_of(found: Result) -> str:
    machine = found.machine
    return f"{found.command}, commit {found.commit}, {found.python}, {machine['cores']} cores of {machine['cpu']}"


def _can_draw() -> bool:
    if has_matplotlib():
        return True
    sys.stderr.write("bench: no pictures without matplotlib, of the peers extra\n")
    return False
