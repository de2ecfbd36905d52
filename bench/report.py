"""Turns result files into rows for the README: what was measured, the figure, its target, the command.

python -m bench report                 the results of this machine (bench/results/local)
python -m bench report bench/results   those that are kept in the repository
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from bench.common import LOCAL, Result, shown

HEAD = ("| measured | figure | target | command |", "|---|---|---|---|")


def load(folder: Path) -> list[Result]:
    return [msgspec.json.decode(file.read_bytes(), type=Result) for file in sorted(folder.glob("*.json"))]


def rows(results: Iterable[Result]) -> list[str]:
    """A row per check. A target that was missed says so."""
    found = []
    for one in results:
        for check in one.checks:
            figure = f"{shown(check.value)} {check.unit}".rstrip()
            target = f"{check.sign} {shown(check.target)}" + ("" if check.is_met else ", missed")
            found.append(f"| {one.name}: {check.what} | {figure} | {target} | `{one.command}` |")
    return found


def sources(results: Iterable[Result]) -> list[str]:
    """Where the figures are from, each combination once."""
    return sorted({_source(one) for one in results})


def _source(one: Result) -> str:
    machine = f"{one.machine['cores']} cores of {one.machine['cpu']}, {one.machine['memory_gib']:g} GiB"
    return f"Commit {one.commit}, {one.python}, {machine}, kernel {one.machine['kernel']}."


def main(words: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if words is None else words)
    results = load(Path(given[0]) if given else LOCAL)
    if not results:
        raise SystemExit("no results there: run `python -m bench all` first")
    sys.stdout.write("\n".join([*HEAD, *rows(results), "", *sources(results)]) + "\n")


if __name__ == "__main__":
    main()
