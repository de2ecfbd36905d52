"""What every benchmark of the repository needs: tokens, checks against targets, a result file and a table.

A result names the commit, the machine, the interpreter and the settings it is from.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from tidings.benchmarks.figures import shown
from tidings.benchmarks.own_node import SECRET
from tidings.benchmarks.people import Signed

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT / "bench" / "results" / "local"

token = Signed(SECRET).token  # of a user, for every server that is started here


# --- figures --------------------------------------------------------------------------------------


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


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a benchmark leaves behind. `report.py` turns it into rows of the README."""

    name: str
    claim: str
    command: str
    made_at: str
    commit: str
    machine: dict[str, Any]
    python: str
    settings: dict[str, Any]
    figures: dict[str, Any]
    checks: list[Check]


def result(command: str, claim: str, settings: dict[str, Any], figures: dict[str, Any], checks: list[Check]) -> Result:
    """Stamped with where and on what it was measured. `command` is `send` with the options given, if any."""
    return Result(
        name=command.split()[0],
        claim=claim,
        command=f"python -m bench {command}",
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit(),
        machine=machine(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        settings=settings,
        figures=figures,
        checks=checks,
    )


def write(found: Result, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def commit() -> str:
    """The commit of the tree, with `+` when files differ from it; `unknown` without git."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "load_before": round(os.getloadavg()[0], 2),
    }


# --- the command line and what it shows -----------------------------------------------------------


def options(name: str, about: str | None, *, seconds: float) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=(about or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=seconds, help="length of each measurement (%(default)s)")
    parser.add_argument("--out", type=Path, default=LOCAL / f"{name}.json", help="where the result goes")
    return parser


def command_of(name: str, parser: argparse.ArgumentParser, given: argparse.Namespace) -> str:
    """The name with every option that is not its default, as it would be typed."""
    words = [name]
    for option, value in vars(given).items():
        if option != "out" and value != parser.get_default(option):
            flag = "--" + option.replace("_", "-")
            words.append(flag if value is True else f"{flag} {value}")
    return " ".join(words)


def show(found: Result, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """One table, then each check against its target."""
    from rich.console import Console  # of the bench extra, which the tests of this module do without
    from rich.table import Table

    console = Console(width=max(Console().width, 110))
    table = Table(title=f"{found.name}: {found.claim}", title_justify="left")
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left", no_wrap=not at)
    for row in rows:
        table.add_row(*(shown(value) for value in row))
    console.print(table)
    for check in found.checks:
        verdict = "[green]met[/]" if check.is_met else "[red]missed[/]"
        target = f"{check.sign} {shown(check.target)} {check.unit}".rstrip()
        console.print(f"  {verdict}  {check.what}: {shown(check.value)} (target {target})", highlight=False)
