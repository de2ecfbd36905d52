"""Node samples: each node writes its counters to the keyspace every SAMPLE_S, for the charts of the admin page.

A sample holds sums since the node started. Figures are differences of two samples, so a missed sample costs nothing and
a restart is noticed. The samples of a node are a short stream in the keyspace: any node can show all nodes, and a page
that was just opened shows the minutes before. Nothing else depends on samples.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.operators.figures import Figures, Latency, latency, rate
from tidings.stores.keyspace.call import Keyspace, each_alone, plain
from tidings.stores.keyspace.keys import Keys
from tidings.tasks import Loop

STEP_MS = int(bounds.SAMPLE_S * 1000)
_STALE_MS = 3 * STEP_MS  # an older sample says nothing about now


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node at one moment. Counts are sums since the node started; `ack` and `stages` are cumulative buckets."""

    at_ms: int
    node_id: str
    version: str
    started_ms: int
    connections: int = 0
    users: int = 0
    is_draining: bool = False
    messages: int = 0
    deliveries: int = 0
    commands: int = 0
    rejects: dict[str, int] = {}
    pushes: dict[str, int] = {}  # `provider outcome`
    archive: dict[str, int] = {}
    archive_last_ms: int = 0  # the end of the last archive pass of this node; 0: none yet
    ack: list[int] = []
    stages: dict[str, list[int]] = {}
    cpu_s: float = 0.0
    memory_bytes: int = 0

    @property
    def at_s(self) -> float:
        return self.at_ms / 1000


class Point(Figures, frozen=True, kw_only=True):
    """The figures of one step of the charts."""

    at_ms: int
    rejects: float


Pair = tuple[Sample, Sample]  # before and now
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Sample).decode


@dataclass(eq=False, repr=False)
class Samples:
    """`take` reads the counters of this node; `others` lists the other live nodes; `hear` gets each sample written."""

    keyspace: Keyspace
    keys: Keys
    clock: Clock
    node_id: str
    others: Callable[[], Iterable[str]]
    take: Callable[[], Sample]
    hear: Callable[[Sample], Awaitable[None]]

    def __post_init__(self) -> None:
        self.loop = Loop("samples", lambda: bounds.SAMPLE_S, self.write, is_eager=True)

    # --- writing ----------------------------------------------------------------------------------

    async def write(self) -> None:
        """Raises StoreError."""
        key, sample = self.keys.samples(self.node_id), self.take()
        added = plain(key, b"XADD", key, b"MAXLEN", b"~", bounds.SAMPLES_MAX, b"*", b"sample", _encode(sample))
        await self.keyspace.run([added, plain(key, b"EXPIRE", key, bounds.SAMPLES_TTL_S)])
        await self.hear(sample)

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, since_ms: int = 0) -> dict[str, list[Sample]]:
        """The samples of each live node from a little before `since_ms` on, oldest first. Raises StoreError."""
        node_ids = sorted({self.node_id, *self.others()})
        start = max(since_ms - _STALE_MS - STEP_MS, 0)
        keys = [self.keys.samples(node_id) for node_id in node_ids]
        newest = [plain(key, b"XREVRANGE", key, b"+", start, b"COUNT", bounds.SAMPLES_MAX) for key in keys]
        found = await each_alone(self.keyspace, newest)
        return {node_id: _samples(found.get(at, ())) for at, node_id in enumerate(node_ids)}


def _samples(rows: Sequence[Sequence[Sequence[bytes]]]) -> list[Sample]:
    samples = []
    for _, fields in reversed(rows):
        try:
            samples.append(_decode(fields[1]))
        except msgspec.DecodeError:
            continue  # a node of another version wrote it
    return samples


def points(found: Mapping[str, Sequence[Sample]], edges_s: Sequence[float], since_ms: int) -> list[Point]:
    """All nodes together at every STEP_MS after `since_ms`; steps without any sample are left out."""
    ends = [samples[-1].at_ms for samples in found.values() if samples]
    starts = [samples[0].at_ms for samples in found.values() if samples]
    if not ends:
        return []
    first = max(min(starts), since_ms) // STEP_MS + 1
    steps = range(first, max(ends) // STEP_MS + 1)
    times = {node_id: [sample.at_ms for sample in samples] for node_id, samples in found.items()}
    shown = []
    for at_ms in (step * STEP_MS for step in steps):
        pairs = [pair for node_id, samples in found.items() if (pair := _pair(samples, times[node_id], at_ms))]
        if pairs:
            shown.append(point_of(pairs, edges_s, at_ms))
    return shown


def _pair(samples: Sequence[Sample], times: Sequence[int], at_ms: int) -> Pair | None:
    """The last two samples of the node before this time; None when the last one is stale or the node restarted."""
    at = bisect_right(times, at_ms) - 1
    if at < 1 or times[at] < at_ms - _STALE_MS or samples[at - 1].started_ms != samples[at].started_ms:
        return None
    return samples[at - 1], samples[at]


def point_of(pairs: Sequence[Pair], edges_s: Sequence[float], at_ms: int) -> Point:
    edges = (*edges_s, float("inf"))
    stages = dict.fromkeys(stage for _, now in pairs for stage in now.stages)

    def latency_of(buckets: Callable[[Sample], Sequence[int]]) -> Latency:
        return latency(pairs, lambda sample: list(zip(edges, buckets(sample), strict=False)))

    return Point(
        at_ms=at_ms,
        connections=sum(now.connections for _, now in pairs),
        messages=rate(pairs, lambda sample: sample.messages),
        deliveries=rate(pairs, lambda sample: sample.deliveries),
        commands=rate(pairs, lambda sample: sample.commands),
        rejects=rate(pairs, lambda sample: sum(sample.rejects.values())),
        cpu=rate(pairs, lambda sample: sample.cpu_s),
        ack=latency_of(lambda sample: sample.ack),
        stages={stage: latency_of(partial(_stage, stage)) for stage in stages},
    )


def _stage(stage: str, sample: Sample) -> Sequence[int]:
    return sample.stages.get(stage, ())
