"""`tidings bench all`: every benchmark with targets, one after another, then the targets that were met and missed.

With the default sizes it takes under 15 minutes on two cores. A benchmark that would begin after --minutes is left out
and named. A benchmark with a wrong answer ends itself and no other one, and the exit code is 1. A missed target is a
result, not an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.bench import cli
from tidings_proof.bench.names import BENCHMARKS, WITH_TARGETS
from tidings_proof.bench.report.table import console, show, verdict
from tidings_proof.bench.results import Result, result_of, write


def run_all(out: Path, *, is_quick: bool, minutes: float) -> int:
    clock, screen = Clock(), console()
    began_s = clock.monotonic_s()
    results, wrong = list[Result](), list[str]()
    for name in WITH_TARGETS:
        since_s = clock.monotonic_s()
        if since_s - began_s > minutes * 60:
            wrong.append(f"{name}: left out, {minutes:g} minutes had passed")
            continue
        found = run_one(name, is_quick=is_quick)
        if isinstance(found, str):
            wrong.append(f"{name}: {found}")
        else:
            results.append(found)
            write(found, out / f"{name}.json")
            show(found)
        screen.print(f"  {name}: {clock.monotonic_s() - since_s:.0f} s\n", style="dim", highlight=False)
    lines = [*summary(results), *(f"[red]failed[/]  {fault}" for fault in wrong)]
    screen.print("\n".join([*lines, f"{(clock.monotonic_s() - began_s) / 60:.1f} minutes"]), highlight=False)
    return 1 if wrong else 0


def run_one(name: str, *, is_quick: bool) -> Result | str:
    """Its result, or why it failed. Any failure is caught, so that the next benchmark runs."""
    given = BENCHMARKS[name].quick if is_quick else {}
    try:
        return result_of(name, given, cli.run(name, given))
    except (Exception, SystemExit) as error:
        return " ".join(str(error).split()) or type(error).__name__


def summary(results: Sequence[Result]) -> list[str]:
    """How many targets were met, and each that was missed."""
    checks = [(one, check) for one in results for check in one.checks]
    missed = [(one, check) for one, check in checks if not check.is_met]
    lines = [f"[green]met[/]     {len(checks) - len(missed)} of {len(checks)} targets"]
    return lines + [f"[red]missed[/]  {one.name}: {verdict(check)}" for one, check in missed]
