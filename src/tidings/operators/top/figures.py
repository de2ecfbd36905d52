"""Figures of `tidings top`: computed from two pages of /metrics of each node, shown on the screen or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidings.operators import figures
from tidings.operators.figures import gain, latency, rate
from tidings.operators.top.readings import Reading
from tidings.telemetry.metrics import STAGES

Pair = tuple[Reading, Reading]


class Figures(figures.Figures, frozen=True, kw_only=True):
    batch_mean: float | None
    batch_p99: float | None
    rejects: dict[str, float]
    rebuilds: float
    repairs: float
    pushes: dict[str, float]
    memory_bytes: int


def figures_of(pairs: Sequence[Pair]) -> Figures:
    """`pairs`: the reading before and the reading now of each node."""

    def per_second(name: str) -> float:
        return rate(pairs, lambda reading: reading.total(name))

    return Figures(
        connections=int(sum(now.total("tidings_connections") for _, now in pairs)),
        messages=per_second("tidings_messages_total"),
        deliveries=per_second("tidings_deliveries_total"),
        ack=latency(pairs, partial(Reading.buckets, name="tidings_send_seconds")),
        stages={stage: _stage(pairs, stage) for stage in STAGES},
        batch_mean=_mean(pairs, "tidings_batch_size"),
        batch_p99=_p99(pairs, "tidings_batch_size"),
        commands=per_second("tidings_keyspace_commands_total"),
        rejects=_by_label(pairs, "tidings_rate_limited_total", "class"),
        rebuilds=per_second("tidings_rebuilds_total"),
        repairs=per_second("tidings_repairs_total"),
        pushes=_by_label(pairs, "tidings_push_total", "outcome"),
        cpu=per_second("process_cpu_seconds_total"),
        memory_bytes=int(sum(now.total("process_resident_memory_bytes") for _, now in pairs)),
    )


def _stage(pairs: Sequence[Pair], stage: str) -> figures.Latency:
    return latency(pairs, partial(Reading.buckets, name="tidings_stage_seconds", stage=stage))


def _by_label(pairs: Sequence[Pair], name: str, label: str) -> dict[str, float]:
    def per_second(value: str) -> float:
        return rate(pairs, lambda reading: reading.by(name, label).get(value, 0.0))

    return {value: per_second(value) for value in dict.fromkeys(one for _, now in pairs for one in now.by(name, label))}


def _p99(pairs: Sequence[Pair], name: str) -> float | None:
    before, now = ([pair[at].buckets(name) for pair in pairs] for at in (0, 1))
    return figures.quantile(figures.difference(before, now), 0.99)


def _mean(pairs: Sequence[Pair], name: str) -> float | None:
    gains = [
        [gain(before.total(f"{name}_{part}"), now.total(f"{name}_{part}")) for before, now in pairs]
        for part in ("sum", "count")
    ]
    size, batches = map(sum, gains)
    return size / batches if batches else None
