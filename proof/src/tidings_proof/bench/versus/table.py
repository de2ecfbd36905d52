"""The table of a comparison: a figure for each server, with its ratio to ours, and the targets that are ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from tidings_proof.bench.report.figures import shown
from tidings_proof.bench.results import Check, Result
from tidings_proof.bench.versus.rivals import Rival, Sizes
from tidings_proof.bench.versus.works import rows_of

NONE = "-"

Medians = Mapping[str, Mapping[str, float]]  # row -> server -> figure
Sign = Literal["<=", ">=", "=="]

# what, (row, server) over (row, server), and the target of that ratio
_RATIOS: list[tuple[str, tuple[str, str], tuple[str, str], Sign, float]] = [
    ("1:1, saturated: over Socket.IO", ("send", "tidings"), ("send", "socketio"), "<=", 2),
    ("1:1, saturated: textbook over ours", ("send", "textbook"), ("send", "tidings"), ">=", 6),
    ("1:1, saturated: ejabberd over ours", ("send", "ejabberd"), ("send", "tidings"), ">=", 8),
    ("1:1 at a fixed rate: over the textbook", ("rate", "tidings"), ("rate", "textbook"), "<=", 0.8),
    ("history: REST over WebSocket", ("history", "tidings"), ("history_ws", "tidings"), "<=", 1.4),
    ("history over REST: over the textbook", ("history", "tidings"), ("history", "textbook"), "<=", 0.5),
    ("inbox over REST: over the textbook", ("inbox", "tidings"), ("inbox", "textbook"), "<=", 0.35),
    ("fan-out, 200 members: over Socket.IO", ("fanout_200", "tidings"), ("fanout_200", "socketio"), "<=", 1.5),
    ("fan-out, 1,000 members: over Socket.IO", ("fanout_1000", "tidings"), ("fanout_1000", "socketio"), "<=", 1.0),
]
_FIGURES: list[tuple[str, str, float, str]] = [
    ("1:1 at a fixed rate: p50", "rate_p50", 3, "ms"),
    ("inbox over REST: size", "inbox_bytes", 4_096, "bytes"),
    ("sign-in", "connect", 0.8, "ms"),
    ("CPU of idle connections, of one core", "idle", 1, "%"),
]


def rows(found: Medians, rivals: Sequence[Rival], sizes: Sizes) -> list[list[str | float]]:
    """One row for each figure that was measured. A server without the work has a dash."""
    words = rows_of(sizes)
    return [[words[row], *(cell(found[row], rival.key) for rival in rivals)] for row in words if row in found]


def markdown(found: Result) -> list[str]:
    """The table of a result file for a page."""
    rule = ["---"] * len(found.columns)
    return [_line(found.columns), _line(rule), *(_line([str(one) for one in row]) for row in found.rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cell(figures: Mapping[str, float], key: str) -> str:
    """The figure, and how many times ours it is."""
    figure, ours = figures.get(key), figures.get("tidings")
    if figure is None:
        return NONE
    if key == "tidings" or not ours:
        return shown(figure)
    return f"{shown(figure)} ({shown(figure / ours)}x)"


def checks(found: Medians) -> list[Check]:
    """The targets whose servers were measured."""

    def figure(place: tuple[str, str]) -> float:
        return found.get(place[0], {}).get(place[1], 0.0)

    ratios = [
        Check(what, figure(one) / figure(other), sign, target, "x")
        for what, one, other, sign, target in _RATIOS
        if figure(one) and figure(other)
    ]
    plain = [
        Check(what, found[row]["tidings"], "<=", target, unit)
        for what, row, target, unit in _FIGURES
        if "tidings" in found.get(row, {})
    ]
    return ratios + plain
