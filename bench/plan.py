"""What a benchmark asks of the generator, and what it gets back.

Three loads: pairs of users of whom one sends and the other receives (a message is done when it is acknowledged and
received), readers who ask and wait for the answer, and a channel with one sender and many listeners. `measure` runs a
plan in a process of its own (generator.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Literal

import msgspec

from bench.common import ROOT, Parts


class Pair(msgspec.Struct, frozen=True):
    sender_token: str
    recipient_token: str
    conversation_id: str


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


class Readers(msgspec.Struct, frozen=True, tag="readers"):
    """Each reader repeats its requests one after another. `is_once`: the window is one pass, without a warm-up."""

    readers: list[Reader]
    transport: Literal["ws", "http"] = "ws"
    items: int | None = None  # expected in each answer
    is_once: bool = False


class Channel(msgspec.Struct, frozen=True, tag="channel"):
    """One sender keeps `in_flight` posts under way. A post is done when it is acknowledged and every listener has it;
    its latency is the acknowledgement's."""

    conversation_id: str
    sender_token: str
    listeners: dict[int, list[str]]  # port -> tokens
    text: str
    run: str
    in_flight: int = 4


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    port: int
    parts: Parts
    load: Pairs | Readers | Channel
    seconds: float = 0.0
    warm_up_s: float = 0.0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    units: int  # messages done, answers, or posts done
    seconds: float
    cpu_s: dict[str, float]
    p50_ms: float
    p99_ms: float
    late_p99_ms: float  # how late the generator itself was with sends that had a time
    generator_share: float

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
        """For a result file."""
        parts = {f"{name}_cpu_us": round(self.part_us(name), 1) for name in self.cpu_s}
        return {
            "per_s": round(self.per_s, 1),
            "cpu_us": round(self.cpu_us, 1),
            **parts,
            "p50_ms": round(self.p50_ms, 3),
            "p99_ms": round(self.p99_ms, 3),
            "late_p99_ms": round(self.late_p99_ms, 3),
            "generator_share": round(self.generator_share, 3),
            "units": self.units,
            "seconds": round(self.seconds, 3),
        }


def measure(plan: Plan) -> Measured:
    """Runs the plan. What goes wrong there is on stderr and ends the benchmark."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "bench.generator"],
        input=msgspec.json.encode(plan),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode:
        raise SystemExit("the generator gave up, for the reason above")
    return msgspec.json.decode(done.stdout, type=Measured)
