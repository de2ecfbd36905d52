"""Sampler: takes a sample of what this node has counted so far, for node_samples.py to write."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidings import __version__
from tidings.clock import Clock
from tidings.messaging.archive.schedule import Archiving
from tidings.operators.node_samples import Sample
from tidings.routing.hub import Hub
from tidings.telemetry.metrics import Metrics, Tally


@dataclass(eq=False, repr=False)
class Sampler:
    hub: Hub
    metrics: Metrics
    archiving: Archiving
    clock: Clock
    node_id: str
    is_draining: Callable[[], bool]

    def __post_init__(self) -> None:
        self._started_ms = self.clock.now_ms()

    def take(self) -> Sample:
        metrics, last = self.metrics, self.archiving.last
        return Sample(
            at_ms=self.clock.now_ms(),
            node_id=self.node_id,
            version=__version__,
            started_ms=self._started_ms,
            connections=len(self.hub),
            users=self.hub.users_count,
            is_draining=self.is_draining(),
            messages=int(metrics.messages.value),
            deliveries=int(metrics.deliveries.value),
            commands=int(metrics.keyspace_commands.value),
            rejects={name: int(count.value) for name, count in metrics.rate_limited.items()},
            pushes={" ".join(names): int(count.value) for names, count in metrics.push.items()},
            archive={name: int(count.value) for name, count in metrics.archive.items()},
            archive_last_ms=last[0] if last is not None else 0,
            ack=_buckets(metrics.send_seconds),
            stages={stage: _buckets(tally) for stage, tally in metrics.stage_seconds.items()},
            cpu_s=round(sum(os.times()[:2]), 3),
            memory_bytes=_resident_bytes(),
        )


def _resident_bytes() -> int:
    """The memory of this process; 0 where the system does not tell. One small file: the collector of /metrics also
    lists every open socket, which is too much for every two seconds."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _buckets(tally: Tally) -> list[int]:
    return [int(count) for _, count in tally.buckets()]
