"""The picture of a comparison: one small group of bars for each row, as SVG without any library.

Each group has a scale of its own, because the rows have different units. Shorter is better everywhere. A bar that would
make the others invisible is cut, and a gap in it shows that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from tidings_proof.bench.report.figures import shown
from tidings_proof.bench.report.pictures import note_of
from tidings_proof.bench.results import Result

COLOURS = {"tidings": "#2f6f4f", "textbook": "#c0562f", "socketio": "#3b5b92", "ejabberd": "#8a6d1d"}
DRAWN = ("send", "rate", "history", "inbox", "fanout_200", "fanout_1000", "connect", "memory")
COLUMNS, WIDTH, LEFT, BAR, LINE = 2, 440, 16, 190, 18
NAME = 180  # where the bars begin, after the names
MEANING = "CPU of all processes of each server; shorter is better"
CUT = 4.0  # a bar may be so many times the next one


def write(found: Result, file: Path) -> None:
    """Draw the rows of DRAWN that were measured."""
    words, names = found.settings["rows"], found.settings["servers"]
    shown_rows = [row for row in DRAWN if row in found.figures] or list(found.figures)
    groups = {words[row]: {key: one["median"] for key, one in found.figures[row].items()} for row in shown_rows}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(svg(groups, names, f"{MEANING}. {note_of(found)}"), "utf-8")


def drawn_in(found: Result, folder: Path) -> list[Path]:
    """Draw the picture of the pages."""
    file = folder / "bench-versus.svg"
    write(found, file)
    return [file]


def svg(groups: Mapping[str, Mapping[str, float]], names: Mapping[str, str], note: str) -> str:
    height = LINE * (len(names) + 2)
    lines = -(-len(groups) // COLUMNS)
    size = (COLUMNS * WIDTH + LEFT, lines * height + 2 * LINE)
    drawn = []
    for at, (title, figures) in enumerate(groups.items()):
        drawn += _group(title, figures, names, LEFT + at % COLUMNS * WIDTH, at // COLUMNS * height + LINE)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{size[0]}" height="{size[1]}" fill="#ffffff"/>',
            *drawn,
            _text(LEFT, size[1] - 8, note, "#666666", "9"),
            "</svg>\n",
        ]
    )


def _group(title: str, figures: Mapping[str, float], names: Mapping[str, str], x: int, y: int) -> list[str]:
    longest = scale_of(list(figures.values()))
    drawn = [_text(x, y, title, "#222222", "12", "bold")]
    for number, (key, name) in enumerate(names.items(), start=1):
        bottom = y + number * LINE
        drawn.append(_text(x, bottom, name, "#222222"))
        if key not in figures:
            drawn.append(_text(x + NAME, bottom, "-", "#666666"))
            continue
        length = max(1.0, BAR * min(1.0, figures[key] / longest))
        drawn.append(_bar(x + NAME, bottom - 11, length, COLOURS[key]))
        if figures[key] > longest:
            drawn.append(_bar(x + NAME + length - 20, bottom - 11, 4, "#ffffff"))
        drawn.append(_text(x + NAME + length + 5, bottom, shown(figures[key]), "#222222"))
    return drawn


def scale_of(figures: Sequence[float]) -> float:
    """The figure of the longest bar."""
    *others, most = sorted(figures)
    return min(most, CUT * others[-1]) if others and others[-1] > 0 else max(most, 1e-9)


def _bar(x: float, y: float, length: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="13" fill="{colour}"/>'


def _text(x: float, y: float, text: str, colour: str, size: str = "12", weight: str = "normal") -> str:
    style = f'fill="{colour}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(text)}</text>'
