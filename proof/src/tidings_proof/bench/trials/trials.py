"""Trials: load on any server through its public API. A trial has a stage on which it runs, and returns what it found.

A trial prepares users and conversations of its own and then runs plans, so it can be pointed at any server. The users
and conversations that it made stay there.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidings.clock import Clock
from tidings_proof.bench.load.people import Keyed
from tidings_proof.bench.load.plan import AnyLoad, Measured, Plan, Progress, measure
from tidings_proof.bench.names import Sizes
from tidings_proof.bench.report.figures import shown
from tidings_proof.bench.report.progress import Bars, Quiet
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Findings
from tidings_proof.bench.target.target import Target

WARM_UP_SHARE = 0.2  # of the window, before it
WARM_UP_S_MAX = 3.0
TEXT = "x" * 64


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of one trial. A trial reads those that it knows."""

    seconds: float
    clients: int
    in_flight: int = 4
    rate: float | None = None
    members: int = 200
    conversations: int = 200
    messages: int = 500
    conversation_id: str | None = None  # an archived one of a server that is there already
    user_id: str | None = None  # a member of that conversation


class Found(msgspec.Struct, frozen=True):
    """The measurements of a trial by name, and figures of the whole."""

    runs: dict[str, Measured]
    facts: dict[str, float] = {}


class Stage:
    """The place where a trial runs: the server, and the bars that show how far it is."""

    def __init__(self, target: Target, wanted: Wanted, bars: Bars | Quiet) -> None:
        self.target = target
        self.wanted = wanted
        self.run_id = Clock().random_id(4)  # no other run has these users and message ids
        self._bars = bars

    def user(self, name: str) -> str:
        return f"bench-{self.run_id}-{name}"

    def users(self, name: str, count: int) -> list[str]:
        return [self.user(f"{name}{number}") for number in range(count)]

    @property
    def transport(self) -> str:
        """A socket needs a user's token; with an API key there is REST alone."""
        return "http" if isinstance(self.target.people, Keyed) else "ws"

    def preparing(self, what: str) -> None:
        self._bars.preparing(what)

    def measure(self, name: str, load: AnyLoad, *, has_warm_up: bool = True) -> Measured:
        seconds = self.wanted.seconds
        warm_up_s = min(WARM_UP_S_MAX, WARM_UP_SHARE * seconds) if has_warm_up else 0.0
        plan = Plan(url=self.target.url, parts=self.target.parts, load=load, seconds=seconds, warm_up_s=warm_up_s)
        return measure(plan, self._progress_of(name))

    def _progress_of(self, name: str) -> Callable[[Progress], None]:
        return lambda progress: self._bars.progressed(name, progress)


def findings_of(unit: str, sizes: Sizes, found: Found, url: str | None) -> Findings:
    settings = {size: value for size, value in sizes.items() if value is not None}
    sizes_shown = ", ".join(f"{size} {shown(value)}" for size, value in settings.items())
    return Findings(
        claim=f"{url or 'a node of its own'}, {sizes_shown}",
        settings=settings,
        figures={run: one.figures() for run, one in found.runs.items()},
        facts={fact: round(value, 3) for fact, value in found.facts.items()},
        columns=columns_of(unit, next(iter(found.runs.values()))),
        rows=[row_of(name, one) for name, one in found.runs.items()],
        runs=found.runs,
        unit=unit,
        url=url,
    )
