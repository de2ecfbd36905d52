"""The turns: all servers run at once, and for each work every round measures one server after another.

Idle connections come first, while the memory of each server is fresh. The order of the servers moves on with each
round, so that none is always the first. A figure is the median of its rounds. A server that gives a wrong answer has no
figure for that work, and the outcome says why.
"""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from tidings.gateway.server import loop_factory
from tidings_proof.bench.target.own_node import folder
from tidings_proof.bench.versus import idle
from tidings_proof.bench.versus.rivals import Rival, Server, Sizes
from tidings_proof.bench.versus.works import Turn, prepared

Found = dict[str, dict[str, list[float]]]  # row -> server -> a figure for each round
Tell = Callable[[str], None]

SIGN_IN_PARTS = 4


@dataclass(frozen=True)
class Outcome:
    found: Found
    failed: dict[str, str]  # work and server -> why there is no figure


def run(rivals: Sequence[Rival], works: Sequence[str], rounds: int, sizes: Sizes, tell: Tell) -> Outcome:
    found: Found = {}
    failed: dict[str, str] = {}
    idle.allow_files(len(rivals) * sizes.connections)
    with ExitStack() as stack:
        stack.enter_context(ends_on_sigterm())
        servers: dict[str, Server] = {}
        for rival in rivals:
            tell(f"{rival.name}: starting")
            servers[rival.key] = stack.enter_context(rival.start(stack.enter_context(folder()), sizes))
        for work in sorted(works, key=lambda one: one != "idle"):
            tell(work)
            if work == "idle":
                found |= _idle(servers, failed)
            else:
                found |= _rounds(work, servers, rounds, failed, tell)
    return Outcome(found, failed)


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """A run that is told to end stops its servers first, as with Ctrl-C. `timeout` sends this signal."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _idle(servers: dict[str, Server], failed: dict[str, str]) -> Found:
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(idle.measure(servers, SIGN_IN_PARTS))
    except (RuntimeError, OSError) as error:
        failed["idle"] = _line(error)
        return {}


def _rounds(work: str, servers: dict[str, Server], rounds: int, failed: dict[str, str], tell: Tell) -> Found:
    found: Found = defaultdict(lambda: defaultdict(list))
    turns = _prepared(work, servers, failed)
    for number in range(rounds):
        names = list(turns)
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            tell(f"{work}, round {number + 1} of {rounds}: {name}")
            try:
                for turn in turns[name]:
                    for row, figure in turn(number).items():
                        found[row][name].append(figure)
            except RuntimeError as error:
                failed[f"{work}: {name}"] = _line(error)
                del turns[name]
    return {row: {name: one for name, one in cells.items() if name in turns} for row, cells in found.items()}


def _prepared(work: str, servers: dict[str, Server], failed: dict[str, str]) -> dict[str, list[Turn]]:
    """The measurements of each server that has the work."""
    turns = {}
    for name, server in servers.items():
        try:
            turns[name] = prepared(work, server)
        except RuntimeError as error:
            failed[f"{work}: {name}"] = _line(error)
    return {name: one for name, one in turns.items() if one}


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def medians(found: Found) -> dict[str, dict[str, float]]:
    return {row: {name: median(figures) for name, figures in cells.items()} for row, cells in found.items()}


def spread_percent(found: Found) -> float:
    """The largest difference between two rounds of one figure. A busy machine makes it large."""
    cells = [figures for row in found.values() for figures in row.values() if len(figures) > 1 and median(figures)]
    return max(((max(one) - min(one)) * 100 / median(one) for one in cells), default=0.0)


def figures_of(found: Found) -> dict[str, Any]:
    """For the result file: each figure with all of its rounds."""
    return {
        row: {
            name: {"median": median(one), "rounds": [round(figure, 3) for figure in one]} for name, one in cells.items()
        }
        for row, cells in found.items()
    }
