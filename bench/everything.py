"""`python -m bench all`: every benchmark one after another, then which targets were met and which were missed.

With default sizes it takes under 15 minutes on two cores. What would begin after --minutes is left out and named. A
benchmark that gives a wrong answer ends itself and not the others, and the exit code is 1. A missed target is a result.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import msgspec
from rich.console import Console

from bench.common import LOCAL, Result
from tidings.benchmarks.figures import shown

NAMES = (
    "send",
    "history",
    "inbox",
    "unread",
    "limiter",
    "flood",
    "fanout",
    "scale",
    "memory",
    "connections",
    "resume",
    "archive",
    "growth",
)
MINUTES = 15.0
QUICK = {  # sizes at which every benchmark runs to its end in seconds, and says nothing about a server
    "send": "--seconds 0.5 --pairs 4",
    "history": "--seconds 0.5 --messages 100 --readers 2",
    "inbox": "--seconds 0.5",
    "unread": "",
    "limiter": "--seconds 0.1",
    "flood": "--seconds 1 --users 4 --per-s 500",
    "fanout": "--seconds 0.5 --members 20 --online 4",
    "scale": "--seconds 0.5 --rate 20 --pairs 4",
    "memory": "--small",
    "connections": "--seconds 1 --connections 50",
    "resume": "--seconds 0.5 --clients 20",
    "archive": "--seconds 0.5 --conversations 4 --messages 100 --readers 2",
    "growth": "--seconds 0.5 --most 20 --pairs 4",
}


def run_all(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench all", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: that each one runs, not what it measures")
    parser.add_argument("--out", type=Path, default=LOCAL, metavar="FOLDER", help="where the results go")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin nothing after these (%(default)g)")
    given = parser.parse_args(words)
    console, began_s = Console(width=max(Console().width, 110)), time.monotonic()
    done, wrong = list[str](), list[str]()
    for name in NAMES:
        if time.monotonic() - began_s > given.minutes * 60:
            wrong.append(f"{name}: left out, {given.minutes:g} minutes had passed")
            continue
        since_s = time.monotonic()
        fault = run_one(name, [*(QUICK[name].split() if given.quick else ()), "--out", str(given.out / f"{name}.json")])
        console.print(f"  {name}: {time.monotonic() - since_s:.0f} s\n", style="dim", highlight=False)
        (done.append(name) if fault is None else wrong.append(f"{name}: {fault}"))
    results = [msgspec.json.decode((given.out / f"{name}.json").read_bytes(), type=Result) for name in done]
    lines = [*summary(results), *(f"[red]failed[/]  {fault}" for fault in wrong)]
    console.print("\n".join([*lines, f"{(time.monotonic() - began_s) / 60:.1f} minutes"]), highlight=False)
    return 1 if wrong else 0


def run_one(name: str, words: Sequence[str]) -> str | None:
    """Why it failed, if it did. Whatever it was, the next one runs."""
    try:
        import_module(f"bench.{name}").main(list(words))
    except (Exception, SystemExit) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def summary(results: Sequence[Result]) -> list[str]:
    """How many targets were met, and each that was missed."""
    checks = [(one, check) for one in results for check in one.checks]
    missed = [(one, check) for one, check in checks if not check.is_met]
    lines = [f"[green]met[/]     {len(checks) - len(missed)} of {len(checks)} targets"]
    for one, check in missed:
        target = f"{check.sign} {shown(check.target)} {check.unit}".rstrip()
        lines.append(f"[red]missed[/]  {one.name}: {check.what}: {shown(check.value)} (target {target})")
    return lines
