"""Figures: rates and latencies of one node, or of several together, from two readings of their counters.

A reading holds sums since the node started. Figures are differences of two readings, so they describe the time between
them. A counter that is lower than before belongs to a node that has restarted: its whole value counts as growth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

Buckets = Sequence[tuple[float, float]]  # upper edge, count of all observations up to it; smallest edge first


class Reading(Protocol):
    """The counters of one node at one moment."""

    @property
    def at_s(self) -> float: ...


R = TypeVar("R", bound=Reading)
Pairs = Sequence[tuple[R, R]]  # of each node: the reading before, and the reading now


class Latency(msgspec.Struct, frozen=True):
    """None: nothing was observed."""

    p50_ms: float | None
    p99_ms: float | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Rates are per second."""

    connections: int
    messages: float
    deliveries: float
    commands: float
    cpu: float  # cores
    ack: Latency
    stages: dict[str, Latency]


def gain(before: float, now: float) -> float:
    return now if now < before else now - before


def rate(pairs: Pairs[R], count: Callable[[R], float]) -> float:
    """The growth of a counter per second, summed over the nodes."""
    rates = (gain(count(before), count(now)) / max(now.at_s - before.at_s, 0.001) for before, now in pairs)
    return round(sum(rates), 2)


def latency(pairs: Pairs[R], buckets: Callable[[R], Buckets]) -> Latency:
    gained = difference([buckets(before) for before, _ in pairs], [buckets(now) for _, now in pairs])
    p50_s, p99_s = quantile(gained, 0.5), quantile(gained, 0.99)
    return Latency(*(None if each_s is None else round(1000 * each_s, 3) for each_s in (p50_s, p99_s)))


def difference(before: Sequence[Buckets], after: Sequence[Buckets]) -> Buckets:
    """The growth of several histograms together."""
    gained: dict[float, float] = {}
    for old, new in zip(before, after, strict=True):
        known = dict(old)
        is_restarted = bool(new) and new[-1][1] < known.get(new[-1][0], 0.0)
        for edge, count in new:
            gained[edge] = gained.get(edge, 0.0) + count - (0.0 if is_restarted else known.get(edge, 0.0))
    return sorted(gained.items())


def quantile(buckets: Buckets, share: float) -> float | None:
    """Interpolate inside the bucket, as Prometheus does. Above the last edge the answer is that edge."""
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
