"""Findings: the results of checks, each with a stable name, an observation and a fix.

`wrong` means that a promise is broken or will be, and makes the exit code 1. `advice` is worth attention. `ok` means
checked and right. `unknown` means that the check could not be done. A finding never holds a secret or a text of users.
An adapter answers findings about its own store; operators/doctor/ adds those about the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Level = Literal["ok", "unknown", "advice", "wrong"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check. `name` is family.check, as docs/run/doctor.md lists it."""

    name: str
    level: Level
    says: str
    fix: str = ""
    where: str = ""  # the server, where there are several

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]


def ok(name: str, says: str, where: str = "") -> Finding:
    return Finding(name=name, level="ok", says=says, where=where)


def unknown(name: str, says: str, fix: str = "", where: str = "") -> Finding:
    return Finding(name=name, level="unknown", says=says, fix=fix, where=where)


def advice(name: str, says: str, fix: str, where: str = "") -> Finding:
    return Finding(name=name, level="advice", says=says, fix=fix, where=where)


def wrong(name: str, says: str, fix: str, where: str = "") -> Finding:
    return Finding(name=name, level="wrong", says=says, fix=fix, where=where)


def quantile(values: Iterable[float], share: float) -> float:
    """The nearest-rank quantile of at least one measured value."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def read_times(times_s: Iterable[float]) -> str:
    """Say how long a read takes, from measured times."""
    measured = list(times_s)
    p50_ms, p99_ms = (1000 * quantile(measured, share) for share in (0.5, 0.99))
    return f"a read takes {p50_ms:.2f} ms (p99 {p99_ms:.2f} ms)"


def human_bytes(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
