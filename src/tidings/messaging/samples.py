"""What each node has counted, written down every SAMPLE_S for whoever looks at all of them together.

A sample holds sums since the node began; figures are differences of two, so a missed sample costs nothing and a node
that began anew is noticed. Samples of a node are a short stream in the keyspace: any node can show all of them, and the
charts of a page that was just opened have a past. Nothing depends on it. Written by every node, read by the admin page.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.stores.calls import Keyspace, each_alone, plain
from tidings.stores.keys import Keys

log = logging.getLogger("tidings.samples")

STEP_MS = int(bounds.SAMPLE_S * 1000)
_STALE_MS = 3 * STEP_MS  # a node whose last sample is older says nothing about now


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node at one moment. Counts are since it began; `ack` and `stages` are buckets that include those below."""

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
    archive_last_ms: int = 0  # when the last pass of this node ended; 0: none yet
    ack: list[int] = []
    stages: dict[str, list[int]] = {}
    cpu_s: float = 0.0
    memory_bytes: int = 0


class Latency(msgspec.Struct, frozen=True):
    """None: nothing was observed."""

    p50_ms: float | None
    p99_ms: float | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node or of several together, between two samples. Rates are per second."""

    at_ms: int
    connections: int
    messages: float
    deliveries: float
    commands: float
    rejects: float
    cpu: float  # cores
    ack: Latency
    stages: dict[str, Latency]


Pair = tuple[Sample, Sample]  # before and now
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Sample).decode


class Samples:
    """`take` answers what this node has counted by now, `others` which nodes there are beside it."""

    def __init__(
        self,
        keyspace: Keyspace,
        keys: Keys,
        clock: Clock,
        node_id: str,
        others: Callable[[], Iterable[str]],
        take: Callable[[], Sample],
    ) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._clock = clock
        self._node_id = node_id
        self._others = others
        self._take = take
        self._task: asyncio.Task[None] | None = None

    # --- writing ----------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._write(), name="samples")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self) -> None:
        while True:
            try:
                await self.write()
            except StoreError as error:
                log.debug("a sample is left out: %s", error)
            except Exception:
                log.exception("writing a sample failed")
            await asyncio.sleep(bounds.SAMPLE_S)

    async def write(self) -> None:
        """Raises StoreError."""
        key, sample = self._keys.samples(self._node_id), _encode(self._take())
        added = plain(key, b"XADD", key, b"MAXLEN", b"~", bounds.SAMPLES_MAX, b"*", b"sample", sample)
        await self._keyspace.run([added, plain(key, b"EXPIRE", key, bounds.SAMPLES_TTL_S)])

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, since_ms: int = 0) -> dict[str, list[Sample]]:
        """Each live node's samples from a little before `since_ms` on, oldest first. Raises StoreError."""
        node_ids = sorted({self._node_id, *self._others()})
        start = max(since_ms - _STALE_MS - STEP_MS, 0)
        keys = [self._keys.samples(node_id) for node_id in node_ids]
        newest = [plain(key, b"XREVRANGE", key, b"+", start, b"COUNT", bounds.SAMPLES_MAX) for key in keys]
        found = await each_alone(self._keyspace, newest)
        return {node_id: _samples(found.get(at, ())) for at, node_id in enumerate(node_ids)}


def _samples(rows: Sequence[Sequence[Sequence[bytes]]]) -> list[Sample]:
    samples = []
    for _, fields in reversed(rows):
        try:
            samples.append(_decode(fields[1]))
        except msgspec.DecodeError:
            continue  # of another version
    return samples


def points(found: Mapping[str, Sequence[Sample]], edges_s: Sequence[float], since_ms: int) -> list[Figures]:
    """All nodes together at every STEP_MS after `since_ms`, as far as anybody said something about it."""
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
            shown.append(figures_of(pairs, edges_s, at_ms))
    return shown


def _pair(samples: Sequence[Sample], times: Sequence[int], at_ms: int) -> Pair | None:
    """What the node last said before this time, with what it had said before that."""
    at = bisect_right(times, at_ms) - 1
    if at < 1 or times[at] < at_ms - _STALE_MS or samples[at - 1].started_ms != samples[at].started_ms:
        return None
    return samples[at - 1], samples[at]


def figures_of(pairs: Sequence[Pair], edges_s: Sequence[float], at_ms: int) -> Figures:
    stages = dict.fromkeys(stage for _, now in pairs for stage in now.stages)
    return Figures(
        at_ms=at_ms,
        connections=sum(now.connections for _, now in pairs),
        messages=_rate(pairs, lambda sample: sample.messages),
        deliveries=_rate(pairs, lambda sample: sample.deliveries),
        commands=_rate(pairs, lambda sample: sample.commands),
        rejects=_rate(pairs, lambda sample: sum(sample.rejects.values())),
        cpu=_rate(pairs, lambda sample: sample.cpu_s),
        ack=_latency(pairs, lambda sample: sample.ack, edges_s),
        stages={stage: _latency(pairs, partial(_stage, stage), edges_s) for stage in stages},
    )


def _stage(stage: str, sample: Sample) -> Sequence[int]:
    return sample.stages.get(stage, ())


def _rate(pairs: Sequence[Pair], count: Callable[[Sample], float]) -> float:
    rates = ((count(now) - count(before)) * 1000 / max(now.at_ms - before.at_ms, 1) for before, now in pairs)
    return round(sum(rates), 2)


def _latency(pairs: Sequence[Pair], buckets: Callable[[Sample], Sequence[int]], edges_s: Sequence[float]) -> Latency:
    gained = [0] * (len(edges_s) + 1)
    for before, now in pairs:
        old = buckets(before) or [0] * len(gained)
        for at, (earlier, later) in enumerate(zip(old, buckets(now), strict=False)):
            gained[at] += later - earlier
    return Latency(*(_quantile_ms(gained, edges_s, share) for share in (0.5, 0.99)))


def _quantile_ms(gained: Sequence[int], edges_s: Sequence[float], share: float) -> float | None:
    """Between the edges of the bucket it falls in; above the last edge, that edge."""
    if gained[-1] <= 0:
        return None
    wanted, low_s, below = share * gained[-1], 0.0, 0
    for edge_s, count in zip(edges_s, gained, strict=False):
        if count >= wanted:
            return round(1000 * (low_s + (edge_s - low_s) * (wanted - below) / max(count - below, 1)), 3)
        low_s, below = edge_s, count
    return 1000 * edges_s[-1]
