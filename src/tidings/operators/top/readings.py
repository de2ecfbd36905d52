"""Readings: a page of /metrics as values, with the names and labels of Prometheus.

A sample that the page lacks counts as zero, so a newer `top` can watch an older node.
"""

from __future__ import annotations

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from tidings.operators.figures import Buckets

Labels = tuple[tuple[str, str], ...]


class Reading(msgspec.Struct, frozen=True):
    """The time of the page, and every sample by name and labels."""

    at_s: float
    samples: dict[str, dict[Labels, float]]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name that carry these labels."""
        wanted = set(labels.items())
        return sum(value for found, value in self.samples.get(name, {}).items() if wanted <= set(found))

    def by(self, name: str, label: str) -> dict[str, float]:
        """The sum of all samples of this name, by the value of one label."""
        sums: dict[str, float] = {}
        for labels, value in self.samples.get(name, {}).items():
            key = dict(labels).get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def buckets(self, name: str, **labels: str) -> Buckets:
        """The buckets of a histogram, from the smallest edge to infinity."""
        wanted = set(labels.items())
        found = self.samples.get(f"{name}_bucket", {}).items()
        edges = [(float(dict(each)["le"]), value) for each, value in found if wanted <= set(each)]
        return sorted(edges)


def read_page(text: str, at_s: float) -> Reading:
    """Raises ValueError when the text is not the /metrics of a node."""
    samples: dict[str, dict[Labels, float]] = {}
    if "tidings_" not in text:
        raise ValueError("it is not the /metrics of a Tidings node")
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            samples.setdefault(sample.name, {})[labels] = sample.value
    return Reading(at_s, samples)
