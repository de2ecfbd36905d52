"""The report: result files as rows of a table, with the figure, its target, the command and the machine.

`tidings bench report` prints all rows. With --write they go between the markers of README.md (the headlines) and of
docs/inside/benchmarks.md (all rows), and the pictures go to docs/pictures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tidings.config.values import SettingsError
from tidings_proof.bench.report.figures import shown
from tidings_proof.bench.report.pictures import growth_pictures, send_picture
from tidings_proof.bench.results import Result, read
from tidings_proof.bench.versus import picture as versus_picture
from tidings_proof.bench.versus import table as versus_table

HEAD = ("| measured | figure | target | command |", "|---|---|---|---|")
BEGIN, END = "<!-- bench: written by `tidings bench report --write` -->", "<!-- /bench -->"
HEADLINES = {"send": 4, "history": 2, "inbox": 2, "growth": 0}  # checks of a result in the README; else the first one


def load(folder: Path) -> list[Result]:
    """Read all result files of a folder. Raises SettingsError if there is none."""
    results = [read(file) for file in sorted(folder.glob("*.json"))]
    if not results:
        raise SettingsError(f"no results in {folder}: run `tidings bench all` first")
    return results


def rows(results: Iterable[Result], most: dict[str, int] | None = None) -> list[str]:
    """One row for each check. The row of a missed target says so."""
    found = []
    for one in results:
        for check in one.checks if most is None else one.checks[: most.get(one.name, 1)]:
            figure = f"{shown(check.value)} {check.unit}".rstrip()
            target = f"{check.sign} {shown(check.target)}" + ("" if check.is_met else ", missed")
            found.append(f"| {one.name}: {check.what} | {figure} | {target} | `{one.command}` |")
    return found


def sources(results: Iterable[Result]) -> list[str]:
    """Name each commit and machine once, with the results that are from there."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in results:
        found[_source(one)].append(one.name)
    everything = len(found) == 1
    return [source + ("" if everything else f": {', '.join(names)}") + "." for source, names in sorted(found.items())]


def _source(one: Result) -> str:
    machine = f"{one.machine['cores']} cores of {one.machine['cpu']}, {one.machine['memory_gib']:g} GiB"
    return f"Commit {one.commit}, {one.python}, {machine}, kernel {one.machine['kernel'].partition('-')[0]}"


def table(results: Sequence[Result], most: dict[str, int] | None = None) -> list[str]:
    lines = rows(results, most)
    return [*HEAD, *lines, "", *sources(results)]


def between(text: str, lines: Sequence[str], name: str) -> str:
    """Return the page with these lines between its markers. Raises SettingsError if a marker is missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SettingsError(f"{name} has no markers: put {BEGIN} and {END} where the figures belong")
    return "\n".join([before + BEGIN, "", *lines, "", END]) + after


def write_pages(results: Sequence[Result], root: Path) -> list[Path]:
    """Write README.md and docs/inside/benchmarks.md, both or none, and the pictures."""
    pictures = draw_pictures(results, root / "docs" / "pictures")
    shown_in_page = [f"![{file.stem.replace('-', ' ')}](../pictures/{file.name})" for file in pictures]
    beside = [line for one in results if one.name == "versus" for line in (*versus_table.markdown(one), "")]
    wanted = {
        root / "README.md": table(results, HEADLINES),
        root / "docs" / "inside" / "benchmarks.md": [*table(results), "", *beside, *shown_in_page],
    }
    pages = {file: between(file.read_text("utf-8"), lines, file.name) for file, lines in wanted.items()}
    for file, text in pages.items():
        file.write_text(text, "utf-8")
    return [*pages, *pictures]


def draw_pictures(results: Iterable[Result], folder: Path) -> list[Path]:
    drawn = {"growth": growth_pictures, "send": send_picture, "versus": versus_picture.drawn_in}
    return [file for one in results if one.name in drawn for file in drawn[one.name](one, folder)]
