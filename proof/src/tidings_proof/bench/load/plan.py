"""Plans: what a benchmark asks of the generator, and what the generator answers.

A load is pairs of users of whom one sends and the other receives, readers who ask and wait for the answer, a channel
with one sender and many listeners, users who come and go, who come back to what they missed, or who send more than they
may. `measure` runs a plan in a process of its own (generator.py) and passes on how far it is.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Literal

import msgspec

from tidings_proof.bench.target.own_node import environment
from tidings_proof.bench.target.processes import Parts


class Pair(msgspec.Struct, frozen=True):
    sender_token: str
    recipient_token: str
    conversation_id: str
    sender_url: str = ""  # empty: the plan's
    recipient_url: str = ""  # the same


class Pairs(msgspec.Struct, frozen=True, tag="pairs"):
    """Each sender keeps `in_flight` messages under way. With a `rate`, that many a second in all are sent on time."""

    pairs: list[Pair]
    text: str
    run: str  # makes the message ids of this run unique
    in_flight: int = 4
    rate: float | None = None


class Reader(msgspec.Struct, frozen=True):
    token: str
    requests: list[str]  # frames, or the paths of GET requests
    headers: dict[str, str] = {}  # of the GET requests, instead of the token


class Readers(msgspec.Struct, frozen=True, tag="readers"):
    """Each reader repeats its requests one after another. `is_once`: the window is one pass, without a warm-up."""

    readers: list[Reader]
    transport: Literal["ws", "http"] = "ws"
    items: int | None = None  # expected in each answer
    is_once: bool = False


Receipts = Literal["none", "delivered", "read"]  # what a listener says of a post


class Channel(msgspec.Struct, frozen=True, tag="channel"):
    """One sender keeps `in_flight` posts under way. A post is done when it is acknowledged and every listener has it;
    its latency is the acknowledgement's. The next post follows the acknowledgement, or with `waits_for_all` the end.
    With `receipts` each listener says `message.delivered` for every post, and with `read` also `message.read`."""

    conversation_id: str
    sender_token: str
    listeners: dict[str, list[str]]  # url -> tokens
    text: str
    run: str
    in_flight: int = 4
    waits_for_all: bool = False
    receipts: Receipts = "none"


class Connects(msgspec.Struct, frozen=True, tag="connects"):
    """Each user connects, hears the hello, leaves, and connects again. `at_once` of them are on their way."""

    tokens: list[str]
    at_once: int


class Comeback(msgspec.Struct, frozen=True):
    token: str
    resume: dict[str, int]  # conversation -> the last seq it has
    entries: int  # that it has missed


class Comebacks(msgspec.Struct, frozen=True, tag="comebacks"):
    """All connect at once; each is done when everything it missed is there. The window is until the last one is."""

    clients: list[Comeback]


class Excess(msgspec.Struct, frozen=True, tag="excess"):
    """Each sender keeps `in_flight` messages under way, whether they are stored or refused as rate_limited."""

    senders: list[Pair]
    text: str
    run: str
    in_flight: int = 4


AnyLoad = Pairs | Readers | Channel | Connects | Comebacks | Excess


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    load: AnyLoad
    parts: Parts = {}
    seconds: float = 0.0
    warm_up_s: float = 0.0
    dialect: str = "tidings"  # a name in DIALECTS

    @property
    def is_once(self) -> bool:
        """Whether the load has an end of its own, which is the window's."""
        return isinstance(self.load, Comebacks) or (isinstance(self.load, Readers) and self.load.is_once)


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """How far a run is. `share` is of the whole run, warm-up included; a load with an end of its own has none."""

    phase: Literal["opening", "warm-up", "measuring", "finishing"]
    units: int = 0
    share: float | None = None


class Moment(msgspec.Struct, frozen=True):
    """A slice of the window, which ended `at_s` after its beginning."""

    at_s: float
    per_s: float
    p50_ms: float
    p99_ms: float


class Measured(msgspec.Struct, frozen=True, kw_only=True, tag="measured"):
    units: int  # messages done, answers, posts done, connects, clients caught up, or decisions
    seconds: float
    cpu_s: dict[str, float]  # empty: the server is not on this machine
    p50_ms: float
    p95_ms: float
    p99_ms: float
    late_p99_ms: float  # how late the generator itself was with sends that had a time
    generator_share: float
    refused: int = 0  # of the units
    quantiles_ms: list[float] = []  # latency at 0, 1, … 100 % of the units
    moments: list[Moment] = []

    @property
    def per_s(self) -> float:
        return self.units / self.seconds

    @property
    def cpu_us(self) -> float:
        """All parts of the server together, per unit."""
        return self.part_us(*self.cpu_s)

    def part_us(self, *names: str) -> float:
        return sum(self.cpu_s[name] for name in names) * 1e6 / max(self.units, 1)

    def figures(self) -> dict[str, float]:
        """For a result file. No CPU figure where none was read."""
        parts = {f"{name}_cpu_us": round(self.part_us(name), 1) for name in self.cpu_s}
        cpu = {"cpu_us": round(self.cpu_us, 1), **parts} if parts else {}
        return {
            "per_s": round(self.per_s, 1),
            **cpu,
            "p50_ms": round(self.p50_ms, 3),
            "p95_ms": round(self.p95_ms, 3),
            "p99_ms": round(self.p99_ms, 3),
            "late_p99_ms": round(self.late_p99_ms, 3),
            "generator_share": round(self.generator_share, 3),
            "units": self.units,
            **({"refused": self.refused} if self.refused else {}),
            "seconds": round(self.seconds, 3),
        }


class GeneratorFailed(RuntimeError):
    """A run that counts for nothing, and why."""


def measure(plan: Plan, on_progress: Callable[[Progress], None] = lambda progress: None) -> Measured:
    """Runs the plan; raises GeneratorFailed."""
    words = [sys.executable, "-m", "tidings_proof.bench.load.generator"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None and process.stdout is not None
        with process.stdin:
            process.stdin.write(msgspec.json.encode(plan))
        for line in process.stdout:
            said = msgspec.json.decode(line, type=Progress | Measured | Failure)
            if isinstance(said, Measured):
                return said
            if isinstance(said, Failure):
                raise GeneratorFailed(said.why)
            on_progress(said)
    raise GeneratorFailed(f"the load generator ended with {process.returncode} and no result")


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """The generator's last line when a run failed."""

    why: str
