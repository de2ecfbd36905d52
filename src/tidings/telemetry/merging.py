"""Merging: the /metrics pages of several workers as one page.

Counts of all workers are added, so a reader sees one node. A count never falls: the counts of a worker that ended are
kept (`counts_of`) and added to the page of the living. Otherwise Prometheus would take the loss for a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

_HIGHEST = ("_lag", "_lag_seconds")  # every worker reports the same queue
_LOWEST = frozenset(("tidings_store_up", "process_start_time_seconds", "process_max_fds"))
_COUNTS = frozenset(("counter", "histogram"))


class _Family:
    """One metric: its comment lines, its type, and its series by name and labels."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.comments: list[str] = []
        self.type = ""
        self.series: dict[str, float] = {}

    def add(self, series: str, value: float) -> None:
        self.series[series] = self._rule()(self.series[series], value) if series in self.series else value

    def _rule(self) -> Callable[[float, float], float]:
        if self.type in _COUNTS:
            return float.__add__
        if self.name in _LOWEST:
            return min
        return max if self.name.endswith(_HIGHEST) else float.__add__

    def lines(self) -> list[str]:
        return self.comments + [f"{series} {value}" for series, value in self.series.items()]


def merge(pages: Iterable[str]) -> str:
    """Add the pages up."""
    return _text(_families(pages).values())


def counts_of(page: str) -> str:
    """The counters and histograms of a page alone: what remains true of a worker after its end."""
    families = _families([page]).values()
    return _text(family for family in families if family.type in _COUNTS)


def _text(families: Iterable[_Family]) -> str:
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _families(pages: Iterable[str]) -> dict[str, _Family]:
    families: dict[str, _Family] = {}
    for page in pages:
        family, is_new = _Family(""), False
        for line in page.splitlines():
            if line.startswith("# "):
                _, word, name, rest = [*line.split(" ", 3), ""][:4]
                if name != family.name:
                    is_new = name not in families
                    family = families.setdefault(name, _Family(name))
                family.comments += [line] if is_new else []
                family.type = rest if word == "TYPE" else family.type
            elif line:
                series, _, value = line.rpartition(" ")
                family.add(series, float(value))
    return families
