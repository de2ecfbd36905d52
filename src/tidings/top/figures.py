"""What happened between two readings: rates, latencies by stage, sizes of batches; for one node or for all together.

Figures are differences, so they are of now and not since the start. A node that began anew in between gives what it has
counted since. screen.py shows them, `tidings top --json` prints them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidings.top.readings import Reading, difference, quantile

STAGES = ("admit", "number", "store", "index", "acknowledge", "route")
Pair = tuple[Reading, Reading]


class Latency(msgspec.Struct, frozen=True):
    """None: nothing was observed."""

    p50_ms: float | None
    p99_ms: float | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node, or of several as if they were one. Rates are per second."""

    connections: int
    messages: float
    deliveries: float
    ack: Latency
    stages: dict[str, Latency]
    batch_mean: float | None
    batch_p99: float | None
    commands: float
    rejects: dict[str, float]
    rebuilds: float
    repairs: float
    pushes: dict[str, float]
    cpu: float  # cores
    memory_bytes: int


def figures_of(pairs: Sequence[Pair]) -> Figures:
    """`pairs`: for each node its reading before and now."""
    return Figures(
        connections=int(sum(now.total("tidings_connections") for _, now in pairs)),
        messages=_rate(pairs, "tidings_messages_total"),
        deliveries=_rate(pairs, "tidings_deliveries_total"),
        ack=_latency(pairs, "tidings_send_seconds"),
        stages={stage: _latency(pairs, "tidings_stage_seconds", stage=stage) for stage in STAGES},
        batch_mean=_mean(pairs, "tidings_batch_size"),
        batch_p99=_quantile(pairs, 0.99, "tidings_batch_size"),
        commands=_rate(pairs, "tidings_keyspace_commands_total"),
        rejects=_rates(pairs, "tidings_rate_limited_total", "class"),
        rebuilds=_rate(pairs, "tidings_rebuilds_total"),
        repairs=_rate(pairs, "tidings_repairs_total"),
        pushes=_rates(pairs, "tidings_push_total", "outcome"),
        cpu=_rate(pairs, "process_cpu_seconds_total"),
        memory_bytes=int(sum(now.total("process_resident_memory_bytes") for _, now in pairs)),
    )


def _gain(before: float, now: float) -> float:
    return now if now < before else now - before


def _seconds(pair: Pair) -> float:
    return max(pair[1].at_s - pair[0].at_s, 0.001)


def _rate(pairs: Sequence[Pair], name: str) -> float:
    return sum(_gain(pair[0].total(name), pair[1].total(name)) / _seconds(pair) for pair in pairs)


def _rates(pairs: Sequence[Pair], name: str, label: str) -> dict[str, float]:
    rates: dict[str, float] = {}
    for pair in pairs:
        before = pair[0].by(name, label)
        for value, now in pair[1].by(name, label).items():
            rates[value] = rates.get(value, 0.0) + _gain(before.get(value, 0.0), now) / _seconds(pair)
    return rates


def _quantile(pairs: Sequence[Pair], share: float, name: str, **labels: str) -> float | None:
    before = [pair[0].buckets(name, **labels) for pair in pairs]
    return quantile(difference(before, [pair[1].buckets(name, **labels) for pair in pairs]), share)


def _latency(pairs: Sequence[Pair], name: str, **labels: str) -> Latency:
    p50_s, p99_s = (_quantile(pairs, share, name, **labels) for share in (0.5, 0.99))
    return Latency(*(None if each_s is None else 1000 * each_s for each_s in (p50_s, p99_s)))


def _mean(pairs: Sequence[Pair], name: str) -> float | None:
    gains = [
        [_gain(before.total(f"{name}_{part}"), now.total(f"{name}_{part}")) for before, now in pairs]
        for part in ("sum", "count")
    ]
    size, batches = map(sum, gains)
    return size / batches if batches else None
