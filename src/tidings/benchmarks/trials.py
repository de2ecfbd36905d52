"""What a trial of `tidings bench` is: what is wanted of it, what it finds, and the stage on which it runs.

A trial prepares what it needs through the public API, with users and conversations of its own, and then runs plans. So
it can be pointed at any server; what it made there stays there. The trials are in trials_sending.py and
trials_reading.py, their table in trials_table.py.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tidings import __version__
from tidings.benchmarks.people import Keyed
from tidings.benchmarks.plan import AnyLoad, Measured, Plan, Progress, measure
from tidings.benchmarks.progress import Bars, Quiet
from tidings.benchmarks.target import Target
from tidings.clock import Clock

WARM_UP_SHARE = 0.2  # of the window, before it
WARM_UP_S_MAX = 3.0
TEXT = "x" * 64


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for. A trial takes from it what it knows."""

    seconds: float
    clients: int
    in_flight: int = 4
    rate: float | None = None
    members: int = 200
    conversations: int = 200
    messages: int = 500
    conversation_id: str | None = None  # archive, of a server that is there already
    user_id: str | None = None  # its member


class Found(msgspec.Struct, frozen=True):
    """What a trial measured: its runs by name, and figures of the whole."""

    runs: dict[str, Measured]
    facts: dict[str, float] = {}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A finished trial, for the table, for --json and for the plot."""

    name: str
    unit: str
    url: str
    is_own_node: bool
    made_at: str
    version: str
    python: str
    settings: dict[str, Any]
    figures: dict[str, dict[str, float]]
    facts: dict[str, float]
    runs: dict[str, Measured]


class Stage:
    """Where a trial runs: the server, and whoever is told how far it is."""

    def __init__(self, target: Target, wanted: Wanted, bars: Bars | Quiet) -> None:
        self.target = target
        self.wanted = wanted
        self.run_id = Clock().random_id(4)  # users and message ids of one run are nobody else's
        self._bars = bars

    def user(self, name: str) -> str:
        return f"bench-{self.run_id}-{name}"

    def users(self, name: str, count: int) -> list[str]:
        return [self.user(f"{name}{number}") for number in range(count)]

    @property
    def transport(self) -> str:
        """A socket where a user's token is to be had; with an API key there is REST alone."""
        return "http" if isinstance(self.target.people, Keyed) else "ws"

    def preparing(self, what: str) -> None:
        self._bars.preparing(what)

    def measure(self, name: str, load: AnyLoad, *, has_warm_up: bool = True) -> Measured:
        seconds = self.wanted.seconds
        warm_up_s = min(WARM_UP_S_MAX, WARM_UP_SHARE * seconds) if has_warm_up else 0.0
        plan = Plan(url=self.target.url, parts=self.target.parts, load=load, seconds=seconds, warm_up_s=warm_up_s)
        return measure(plan, self._told(name))

    def _told(self, name: str) -> Callable[[Progress], None]:
        return lambda progress: self._bars.told(name, progress)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of trials."""

    about: str
    unit: str
    run: Callable[[Stage], Found]
    clients: int  # unless the command line says otherwise
    options: tuple[str, ...] = ()  # of Wanted, beyond seconds and clients
    node: dict[str, str] = {}  # settings of its own node
    seed: Callable[[Path, Wanted], dict[str, float]] | None = None  # its own node's data, and facts about that


def outcome(name: str, trial: Trial, stage: Stage, found: Found, is_own_node: bool) -> Outcome:
    given = msgspec.to_builtins(stage.wanted)
    kept = ("seconds", "clients", *trial.options)
    return Outcome(
        name=name,
        unit=trial.unit,
        url=stage.target.url,
        is_own_node=is_own_node,
        made_at=datetime.fromtimestamp(Clock().now_ms() / 1000, UTC).isoformat(timespec="seconds"),
        version=__version__,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        settings={option: given[option] for option in kept if given[option] is not None},
        figures={run: measured.figures() for run, measured in found.runs.items()},
        facts={fact: round(value, 3) for fact, value in found.facts.items()},
        runs=found.runs,
    )
