"""What a check answers: findings, each with a name that stays, what was seen and what to do about it.

`wrong` means that a promise is broken or will be, and makes the exit code 1; `advice` is worth a look; `ok` was looked
at and is as it should be; `unknown` could not be looked at. A finding never holds a secret, nor what people wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Level = Literal["ok", "unknown", "advice", "wrong"]
LEVELS: tuple[Level, ...] = ("ok", "unknown", "advice", "wrong")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at. `name` is family.what, as docs/doctor.md explains it."""

    name: str
    level: Level
    says: str
    fix: str = ""
    where: str = ""  # which of several servers

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All findings, worst last, with what the keyspace is made of."""

    findings: tuple[Finding, ...]
    keyspace: tuple[Any, ...] = ()  # one census.Census per server

    @property
    def is_healthy(self) -> bool:
        return not any(finding.level == "wrong" for finding in self.findings)


def ok(name: str, says: str, where: str = "") -> Finding:
    return Finding(name=name, level="ok", says=says, where=where)


def unknown(name: str, says: str, fix: str = "", where: str = "") -> Finding:
    return Finding(name=name, level="unknown", says=says, fix=fix, where=where)


def advice(name: str, says: str, fix: str, where: str = "") -> Finding:
    return Finding(name=name, level="advice", says=says, fix=fix, where=where)


def wrong(name: str, says: str, fix: str, where: str = "") -> Finding:
    return Finding(name=name, level="wrong", says=says, fix=fix, where=where)


def worst_last(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """In their order, but what is wrong at the end: it is what a terminal shows last."""
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def quantile(values: Iterable[float], share: float) -> float:
    """The nearest-rank quantile of measured values; there is at least one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def human_bytes(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
