"""Results: the figures of a benchmark, their targets, and the commit, the machine and the interpreter they are from.

A benchmark returns `Findings`. `result_of` stamps them, and the result file has all that the tables, the pictures and
the pages are made of.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidings import __version__
from tidings_proof.bench.load.plan import Measured
from tidings_proof.bench.names import FLAGS

FOLDER = Path("bench-results")  # of the current folder


class Check(msgspec.Struct, frozen=True):
    """A figure against its target."""

    what: str
    value: float
    sign: Literal["<=", ">=", "=="]
    target: float
    unit: str = ""

    @property
    def is_met(self) -> bool:
        comparisons = {"<=": self.value <= self.target, ">=": self.value >= self.target}
        return comparisons.get(self.sign, self.value == self.target)


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one benchmark. `columns` and `rows` are its table, `runs` the measurements that a plot draws."""

    claim: str
    settings: dict[str, Any]
    figures: dict[str, Any]
    columns: list[str]
    rows: list[list[str | float]]
    checks: list[Check] = []
    facts: dict[str, float] = {}
    runs: dict[str, Measured] = {}
    unit: str = "operation"
    url: str | None = None  # None: nodes of its own


class Result(Findings, frozen=True, kw_only=True):
    """Findings, with the place and the time they are from."""

    name: str
    command: str
    made_at: str
    commit: str
    version: str
    machine: dict[str, Any]
    python: str


def result_of(name: str, given: Mapping[str, Any], findings: Findings) -> Result:
    """Stamp the findings. `given` has the sizes that the command line named."""
    return Result(
        **{field: getattr(findings, field) for field in Findings.__struct_fields__},
        name=name,
        command=command_of(name, given, findings.url),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit(),
        version=__version__,
        machine=machine(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
    )


def command_of(name: str, given: Mapping[str, Any], url: str | None = None) -> str:
    """The command as it would be typed."""
    sizes = [
        f"{FLAGS[size][0]} {value:g}" if isinstance(value, float) else f"{FLAGS[size][0]} {value}"
        for size, value in given.items()
    ]
    return " ".join(["tidings bench", name, *([url] if url else []), *sizes])


def write(found: Result, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def read(file: Path) -> Result:
    return msgspec.json.decode(file.read_bytes(), type=Result)


def commit() -> str:
    """The commit of the source tree, with `+` when files differ from it; `unknown` outside a repository."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    here = Path(__file__).resolve().parent
    return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "load_before": round(os.getloadavg()[0], 2),
    }
