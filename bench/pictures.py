"""Pictures of results, as SVG: the growth curves, and what a message costs beside the textbook server.

They are drawn from the result files alone, so `python -m bench report --write` draws them again wherever they are from.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.common import Result
from tidings.benchmarks.plots import Line, Panel, draw, has_matplotlib


def growth_pictures(found: Result, folder: Path) -> list[Path]:
    """One for each curve of the result: bench-growth-<curve>.svg. None without matplotlib, which is said."""
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
    sys.stderr.write("bench: no pictures without matplotlib, of the bench extra\n")
    return False
