"""Pictures of figures, PNG or SVG, with matplotlib from the `peers` extra. The same figures give the same file.

`picture_of` draws one result: the latency of its operations, and their rate from moment to moment. `draw` takes any
panels; the report draws the growth curves with it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from tidings.config.values import SettingsError
from tidings_proof.bench.results import Result

SUFFIXES = (".png", ".svg")
COLOURS = ("#2f6f4f", "#c0562f", "#3b5b92", "#8a6d1d", "#7a3b69")
SHOWN_PERCENT = 99  # the last few are outliers, which would flatten all the rest; p99 is in the table


class Line(msgspec.Struct, frozen=True):
    label: str
    x: list[float]
    y: list[float]
    is_dashed: bool = False


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    x_label: str
    y_label: str
    lines: list[Line]
    is_log_x: bool = False
    has_marks: bool = False  # the points are few and measured each
    bars: dict[str, dict[str, float]] = {}  # instead of lines: server -> load -> figure


def check_plot(file: Path) -> None:
    """Raise SettingsError for a plot that cannot be drawn, before anything runs."""
    if file.suffix not in SUFFIXES:
        raise SettingsError(f"bad value for --plot: {file.name} ends neither in .png nor in .svg")
    if not has_matplotlib():
        raise SettingsError("--plot needs matplotlib, of the peers extra: pip install 'tidings-proof[peers]'")


def has_matplotlib() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def picture_of(found: Result, file: Path) -> None:
    note = f"tidings {found.version}, {found.made_at}, {found.python}"
    draw(panels_of(found), file, f"tidings bench {found.name}", note)


def panels_of(found: Result) -> list[Panel]:
    latencies, rates = [], []
    for name, one in found.runs.items():
        shown = one.quantiles_ms[: SHOWN_PERCENT + 1]
        latencies.append(Line(name, [float(percent) for percent in range(len(shown))], shown))
        rates.append(Line(name, [moment.at_s for moment in one.moments], [moment.per_s for moment in one.moments]))
    return [
        Panel(title="latency", x_label=f"% of {found.unit}s within", y_label="ms", lines=latencies),
        Panel(title="rate", x_label="seconds into the window", y_label=f"{found.unit}s a second", lines=rates),
    ]


def draw(panels: Sequence[Panel], file: Path, title: str, note: str) -> None:
    """Draw the panels side by side. The file has no date, and its ids do not change."""
    matplotlib: Any = import_module("matplotlib")  # not there without the extra, for a type checker neither
    with matplotlib.rc_context({"svg.hashsalt": "tidings", "svg.fonttype": "none", "font.size": 10}):
        figure = import_module("matplotlib.figure").Figure(figsize=(5.2 * len(panels), 3.6), layout="constrained")
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _fill(axes, panel)
        figure.supxlabel(note, x=0.01, ha="left", fontsize=7, color="#666666")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=144, metadata={"Date": None} if file.suffix == ".svg" else {})


def _fill(axes: Any, panel: Panel) -> None:
    for line, colour in zip(panel.lines, COLOURS * len(panel.lines), strict=False):
        style = "--" if line.is_dashed else "-"
        mark = "o" if panel.has_marks and not line.is_dashed else None
        axes.plot(line.x, line.y, style, color=colour, label=line.label, marker=mark, markersize=4, linewidth=1.6)
    for at, (label, heights) in enumerate(panel.bars.items()):
        width = 0.8 / len(panel.bars)
        places = [number + (at + 0.5) * width - 0.4 for number in range(len(heights))]
        axes.bar_label(
            axes.bar(places, list(heights.values()), width * 0.9, color=COLOURS[at], label=label), fmt="%.0f"
        )
        axes.set_xticks(range(len(heights)), list(heights))
    if panel.is_log_x:
        ticks = sorted({x for line in panel.lines for x in line.x})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
        axes.minorticks_off()
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if len(panel.lines) + len(panel.bars) > 1:
        axes.legend(frameon=False, fontsize=8)
