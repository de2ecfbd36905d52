"""PromQL as far as a test needs it: which metrics a query names, with which labels and values."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(r"\b(tidings_\w+|process_\w+|up)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
FROM_PROMETHEUS = frozenset(("job", "instance", "le"))  # added by whoever scrapes, or by a histogram


class Use(NamedTuple):
    """One metric of a query, with the label matchers beside it."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


def uses(query: str) -> list[Use]:
    return [Use(found[1], tuple(_MATCHER.findall(found[2] or ""))) for found in _NAME.finditer(query)]


def groupings(query: str) -> set[str]:
    return {label.strip() for found in _GROUPING.findall(query) for label in found.split(",") if label.strip()}


class Exposed:
    """What a node's page has: metric -> label -> values."""

    def __init__(self, samples: dict[str, dict[tuple[tuple[str, str], ...], float]]) -> None:
        self._labels: dict[str, dict[str, set[str]]] = {}
        for metric, series in samples.items():
            labels = self._labels.setdefault(metric, {})
            for pairs in series:
                for label, value in pairs:
                    labels.setdefault(label, set()).add(value)

    def faults(self, query: str) -> list[str]:
        """What the query asks for and no node has."""
        found = uses(query)
        faults = [] if found else [f"no metric in {query!r}"]
        known: set[str] = set(FROM_PROMETHEUS)
        for use in found:
            if use.metric == "up":
                continue
            if use.metric not in self._labels:
                faults.append(f"no metric {use.metric}")
                continue
            labels = self._labels[use.metric]
            known |= labels.keys()
            faults += [fault for matcher in use.matchers for fault in self._matcher_faults(use.metric, labels, matcher)]
        return faults + [f"no label {label} in {query!r}" for label in groupings(query) - known]

    def _matcher_faults(self, metric: str, labels: dict[str, set[str]], matcher: tuple[str, str, str]) -> list[str]:
        label, operator, value = matcher
        if label in FROM_PROMETHEUS:
            return []
        if label not in labels:
            return [f"{metric} has no label {label}"]
        wanted = value.split("|") if operator in ("=~", "!~") else [value]
        return [f"{metric}{{{label}}} is never {one}" for one in wanted if one not in labels[label]]
