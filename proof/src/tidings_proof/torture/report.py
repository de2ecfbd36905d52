"""A verdict that a person can read: what was done, what was suffered, how each promise stood, and how to play it again.

The same as JSON for programs; as a page with a picture in report_html.py. Printed by cli_torture.py.
"""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

import msgspec

from tidings_proof.judge.checker import Finding
from tidings_proof.torture.run import Options, Outcome

_MARKS = {"kept": "kept", "broken": "BROKEN", "not looked at": "-"}
SHOWN = 5  # violations of one promise in words; the JSON has more


def as_text(outcome: Outcome) -> str:
    options = outcome.options
    lines = [
        f"torture · seed {options.seed} · {options.seconds:.0f} s of faults, {outcome.took_s:.0f} s in all · "
        f"{len(options.addresses) or options.nodes} nodes · {'running' if options.addresses else options.stores}",
        "",
        *_wrapped("did", [f"{name} {count:,}" for name, count in outcome.counts.items()]),
        *_wrapped("suffered", [f"{name} x{count}" for name, count in _faults(outcome).items()] or ["nothing"]),
        *(f"  left out   {name}: {why}" for name, why in outcome.left_out.items()),
        "",
        *(line for finding in outcome.findings for line in _finding(finding)),
        "",
        f"VERDICT: {verdict(outcome)}.",
        f"  again: {again(options)}",
    ]
    if outcome.history:
        lines.append(f"  history: {outcome.history}")
    return "\n".join(lines)


def as_json(outcome: Outcome) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(outcome)
    fields["findings"] = [{**msgspec.to_builtins(one), "state": one.state} for one in outcome.findings]
    own = {"held": outcome.is_kept, "not_looked_at": outcome.not_looked_at, "again": again(outcome.options)}
    return {**own, **fields}


def again(options: Options) -> str:
    """The command that plays the same plan once more."""
    words = ["tidings", "torture", "--seed", str(options.seed), "--seconds", f"{options.seconds:g}"]
    if options.faults is not None:
        words += ["--faults", ",".join(options.faults) or "none"]
    fresh = Options(seed=0)
    is_usual = options.stores.startswith("sqlite") and not options.addresses  # elsewhere the usual rate is another
    for flag, value, usual in (
        ("--nodes", options.nodes, fresh.nodes),
        ("--users", options.users, fresh.users),
        ("--rate", f"{options.rate:g}", f"{fresh.rate:g}" if is_usual else ""),
        ("--stores", options.stores, fresh.stores),
        ("--plant", ",".join(options.plants), ""),
        ("--at", ",".join(options.addresses), ""),
    ):
        words += [flag, str(value)] if value != usual else []
    return shlex.join(words) + (" --auth-secret …" if options.addresses else "")


def verdict(outcome: Outcome) -> str:
    """In a sentence, which claims nothing that was not looked at."""
    broken = [finding for finding in outcome.findings if finding.is_broken]
    if broken:
        total = sum(finding.broken for finding in broken)
        names = ", ".join(finding.id for finding in broken)
        return f"BROKEN. {total} violation{'s' if total > 1 else ''} of {names}"
    if outcome.not_looked_at:
        return f"every promise that was looked at was kept; not looked at: {', '.join(outcome.not_looked_at)}"
    return "every promise was kept"


def _finding(finding: Finding) -> list[str]:
    looked = "not" if finding.state == "not looked at" else f"{finding.looked:,}"
    lines = [f"  {finding.id:<3} {_MARKS[finding.state]:<6} {finding.about} ({looked} looked at)"]
    for violation in finding.violations[:SHOWN]:
        when = f"{violation.at_s:.2f} s: " if violation.at_s is not None else ""
        lines.append(f"        {when}{violation.what}")
    if finding.broken > SHOWN:
        lines.append(f"        ... {finding.broken:,} in all")
    return lines


def _faults(outcome: Outcome) -> Counter[str]:
    return Counter(done.fault for done in outcome.done)


def _wrapped(title: str, words: list[str], width: int = 100) -> list[str]:
    """A paragraph with its title in the margin."""
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line += f"{', ' if line else ''}{word}"
    lines.append(line)
    return [f"  {title if not at else '':<10} {text}" for at, text in enumerate(lines)]
