"""Turns result files into tables and pictures: what was measured, the figure, its target, the command, and where.

python -m bench report                 print all rows of this machine's results (bench/results/local)
python -m bench report FOLDER          those of another folder
python -m bench report --write         put them between the markers of README.md (the headlines) and of
                                       docs/benchmarks.md (all), and draw docs/pictures/bench-*.svg
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bench.common import LOCAL, ROOT, Result
from bench.pictures import growth_pictures, send_picture
from tidings.benchmarks.figures import shown

HEAD = ("| measured | figure | target | command |", "|---|---|---|---|")
BEGIN, END = "<!-- bench: written by `python -m bench report --write` -->", "<!-- /bench -->"
HEADLINES = {"send": 4, "history": 2, "inbox": 2, "growth": 0}  # checks of a result in the README; else the first one


def load(folder: Path) -> list[Result]:
    return [msgspec.json.decode(file.read_bytes(), type=Result) for file in sorted(folder.glob("*.json"))]


def rows(results: Iterable[Result], most: dict[str, int] | None = None) -> list[str]:
    """A row per check. A target that was missed says so."""
    found = []
    for one in results:
        for check in one.checks if most is None else one.checks[: most.get(one.name, 1)]:
            figure = f"{shown(check.value)} {check.unit}".rstrip()
            target = f"{check.sign} {shown(check.target)}" + ("" if check.is_met else ", missed")
            found.append(f"| {one.name}: {check.what} | {figure} | {target} | `{one.command}` |")
    return found


def sources(results: Iterable[Result]) -> list[str]:
    """Where the figures are from, each combination once, with the results that are from there."""
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
    """The page with these lines between its markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{name} has no markers: put {BEGIN} and {END} where the figures belong")
    return "\n".join([before + BEGIN, "", *lines, "", END]) + after


def write_pages(results: Sequence[Result], root: Path) -> list[Path]:
    """README.md and docs/benchmarks.md, both or none, and the pictures."""
    pictures = draw_pictures(results, root / "docs" / "pictures")
    shown_in_page = [f"![{file.stem.replace('-', ' ')}](pictures/{file.name})" for file in pictures]
    wanted = {
        root / "README.md": table(results, HEADLINES),
        root / "docs" / "benchmarks.md": [*table(results), "", *shown_in_page],
    }
    pages = {file: between(file.read_text("utf-8"), lines, file.name) for file, lines in wanted.items()}
    for file, text in pages.items():
        file.write_text(text, "utf-8")
    return [*pages, *pictures]


def draw_pictures(results: Iterable[Result], folder: Path) -> list[Path]:
    drawn = {"growth": growth_pictures, "send": send_picture}
    return [file for one in results if one.name in drawn for file in drawn[one.name](one, folder)]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench report", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=LOCAL)
    parser.add_argument("--write", action="store_true", help="into README.md, docs/benchmarks.md and docs/pictures")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    results = load(given.folder)
    if not results:
        raise SystemExit("no results there: run `python -m bench all` first")
    if given.write:
        sys.stdout.write(
            "".join(f"wrote {file.relative_to(given.root)}\n" for file in write_pages(results, given.root))
        )
    else:
        sys.stdout.write("\n".join(table(results)) + "\n")


if __name__ == "__main__":
    main()
