"""A page of /metrics as values: what a node had counted at one moment.

Names and labels are Prometheus'; whoever reads knows neither. What a page does not have counts as nothing, so a newer
`top` can watch an older node. Used by figures.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]
Buckets = tuple[tuple[float, float], ...]  # upper edge -> how many in all up to it


class Reading(msgspec.Struct, frozen=True):
    """When it was taken, and every sample by its name and labels."""

    at_s: float
    samples: dict[str, dict[Labels, float]]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name that carry these labels."""
        wanted = set(labels.items())
        return sum(value for found, value in self.samples.get(name, {}).items() if wanted <= set(found))

    def by(self, name: str, label: str) -> dict[str, float]:
        """The same by the value of one label."""
        sums: dict[str, float] = {}
        for labels, value in self.samples.get(name, {}).items():
            key = dict(labels).get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def buckets(self, name: str, **labels: str) -> Buckets:
        """A histogram's buckets, from the smallest edge to infinity."""
        wanted = set(labels.items())
        found = self.samples.get(f"{name}_bucket", {}).items()
        edges = [(float(dict(each)["le"]), value) for each, value in found if wanted <= set(each)]
        return tuple(sorted(edges))


def read_page(text: str, at_s: float) -> Reading:
    """Raises ValueError when it is no such page."""
    samples: dict[str, dict[Labels, float]] = {}
    if "tidings_" not in text:
        raise ValueError("it is not the /metrics of a Tidings node")
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            samples.setdefault(sample.name, {})[labels] = sample.value
    return Reading(at_s, samples)


def difference(before: Iterable[Buckets], after: Iterable[Buckets]) -> Buckets:
    """What several histograms gained together; one that began anew gained what it has."""
    gained: dict[float, float] = {}
    for old, new in zip(before, after, strict=True):
        known = dict(old)
        is_new_life = bool(new) and new[-1][1] < known.get(new[-1][0], 0.0)
        for edge, count in new:
            gained[edge] = gained.get(edge, 0.0) + count - (0.0 if is_new_life else known.get(edge, 0.0))
    return tuple(sorted(gained.items()))


def quantile(buckets: Buckets, share: float) -> float | None:
    """Between the edges of the bucket it falls in, as Prometheus computes it; None: nothing was observed."""
    total = buckets[-1][1] if buckets else 0.0
    if total <= 0:
        return None
    wanted, low, below = share * total, 0.0, 0.0
    for edge, count in buckets:
        if count >= wanted:
            if edge == float("inf"):
                return low
            return low + (edge - low) * ((wanted - below) / (count - below) if count > below else 1.0)
        low, below = edge, count
    return low
