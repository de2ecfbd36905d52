"""Report: all findings of an examination, the worst last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from tidings.stores.findings import Finding, Level

LEVELS: tuple[Level, ...] = get_args(Level)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All findings, the worst last, and a census of the keyspace."""

    findings: tuple[Finding, ...]
    keyspace: tuple[Any, ...] = ()  # one census.Census per server

    @property
    def is_healthy(self) -> bool:
        return not any(finding.level == "wrong" for finding in self.findings)


def worst_last(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort by level: the worst findings come last, where a terminal shows them."""
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))
