"""Traffic: messages, deliveries and connections of the last day, for the charts of the admin page.

Samples are only five minutes long and go with their node. So each node also adds what it has counted to slots of
TRAFFIC_SLOT_S, which all nodes share. A restart leaves no gap, and a node that dies loses at most the counts of its
last minute. Nothing else depends on these sums.
"""

from __future__ import annotations

import msgspec

from tidings.operators.bounds import TRAFFIC_ADD_S, TRAFFIC_SLOT_S, TRAFFIC_TTL_S
from tidings.operators.node_samples import Sample
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys

SLOT_MS = TRAFFIC_SLOT_S * 1000
HOUR_MS = 3_600_000
SLOTS = 24 * HOUR_MS // SLOT_MS


class TrafficSlot(msgspec.Struct, frozen=True):
    """Sums of the slot that begins at `at_ms`; `connections`: how many there were when it began."""

    at_ms: int
    messages: int
    deliveries: int
    connections: int


class TrafficDay(msgspec.Struct, frozen=True):
    slot_ms: int
    slots: list[TrafficSlot]


class Traffic:
    def __init__(self, keyspace: Keyspace, keys: Keys) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._added: Sample | None = None  # the sample up to which this node has added its counts

    async def add(self, sample: Sample) -> None:
        """Add what this node counted since the last time, at most once in TRAFFIC_ADD_S. Raises StoreError."""
        before = self._added
        slot = sample.at_ms // SLOT_MS
        is_new = before is None or before.at_ms // SLOT_MS != slot
        if before is not None and not is_new and sample.at_ms - before.at_ms < TRAFFIC_ADD_S * 1000:
            return
        counts = {
            "messages": sample.messages - (before.messages if before else 0),
            "deliveries": sample.deliveries - (before.deliveries if before else 0),
            "connections": sample.connections if is_new else 0,
        }
        key = self._keys.traffic(sample.at_ms // HOUR_MS)
        calls = [plain(key, b"HINCRBY", key, f"{slot} {what}", count) for what, count in counts.items() if count]
        await self._keyspace.run([*calls, plain(key, b"EXPIRE", key, TRAFFIC_TTL_S)])
        self._added = sample

    async def day(self, now_ms: int) -> TrafficDay:
        """The last day in slots, oldest first. Raises StoreError."""
        hours = range((now_ms - 24 * HOUR_MS) // HOUR_MS, now_ms // HOUR_MS + 1)
        keys = [self._keys.traffic(hour) for hour in hours]
        found = await self._keyspace.run([plain(key, b"HGETALL", key) for key in keys])
        sums = {name.decode(): int(count) for flat in found for name, count in zip(flat[::2], flat[1::2], strict=True)}
        last = now_ms // SLOT_MS
        return TrafficDay(SLOT_MS, [_slot(slot, sums) for slot in range(last - SLOTS + 1, last + 1)])


def _slot(slot: int, sums: dict[str, int]) -> TrafficSlot:
    what = ("messages", "deliveries", "connections")
    return TrafficSlot(slot * SLOT_MS, *(sums.get(f"{slot} {name}", 0) for name in what))
