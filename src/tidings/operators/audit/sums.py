"""Audit sums: counts the audit stream by kind, class and user for each minute.

Every node has a worker in one consumer group. One script counts an entry and takes it off the group's list, so the
entry is counted once whenever a worker dies: other workers take over its entries after AUDIT_IDLE_S, and a worker that
was only slow finds nothing left to count. An entry that no worker can decode is a dead letter after five deliveries;
until then it may be of a newer version, which another node understands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tidings import bounds
from tidings.operators.audit.events import Event
from tidings.stores.keyspace.call import Call, Keyspace, each_alone, plain
from tidings.stores.keyspace.scripts.audit import GROUP, AuditScripts, minute_of
from tidings.tasks import Loop

decode_event = msgspec.json.Decoder(Event).decode
Taken = Sequence[tuple[str, bytes]]


class AuditSums:
    def __init__(
        self,
        keyspace: Keyspace,
        scripts: AuditScripts,
        node_id: str,
        *,
        idle_s: float = bounds.AUDIT_IDLE_S,
        consumer_idle_s: float = bounds.AUDIT_CONSUMER_IDLE_S,
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._node_id = node_id
        self._idle_ms = int(idle_s * 1000)
        self._consumer_idle_ms = int(consumer_idle_s * 1000)
        self._is_tidy = False
        self.loop = Loop("audit sums", bounds.AUDIT_POLL_S, self._work, is_eager=True)

    async def _work(self) -> bool:
        is_more = bool(await self.step())
        if not is_more and not self._is_tidy:
            await self.tidy()
            self._is_tidy = True
        return is_more

    async def step(self, limit: int = bounds.AUDIT_TAKE_MAX) -> int:
        """Take and count about `limit` entries of each shard; returns the number counted. Raises StoreError."""
        taken = await self.take(limit)
        calls = [call for shard, entries in taken.items() for call in self._folds(shard, entries)]
        return sum((await each_alone(self._keyspace, calls)).values()) if calls else 0

    async def take(self, limit: int) -> dict[int, Taken]:
        """Take entries for this worker: shard -> entries."""
        take = self._scripts.audit_take
        shards = range(bounds.AUDIT_SHARDS)
        calls = [take(shard, self._node_id, limit=limit, idle_ms=self._idle_ms) for shard in shards]
        found = await each_alone(self._keyspace, calls)
        return {shard: entries for shard, entries in found.items() if entries}

    def _folds(self, shard: int, entries: Taken) -> list[Call[int]]:
        minutes: dict[int, list[tuple[str, str, int]]] = {}
        for entry_id, raw in entries:
            try:
                event = decode_event(raw)
            except msgspec.DecodeError:
                continue  # it stays on the group's list
            minutes.setdefault(minute_of(entry_id), []).append((entry_id, event.field, event.count))
        return [self._scripts.audit_fold(shard, minute, counted) for minute, counted in minutes.items()]

    async def tidy(self) -> int:
        """Remove workers from the list that are long gone and have no entries; returns their number."""
        gone = []
        for shard in range(bounds.AUDIT_SHARDS):
            key = self._scripts.keys.audit(shard)
            for worker in await self._workers(key):
                if not worker[b"pending"] and worker[b"idle"] >= self._consumer_idle_ms:
                    gone.append(plain(key, b"XGROUP", b"DELCONSUMER", key, GROUP, worker[b"name"]))
        await each_alone(self._keyspace, gone)
        return len(gone)

    async def _workers(self, key: str) -> list[dict[bytes, Any]]:
        ask = self._keyspace.one
        is_there = await ask(plain(key, b"EXISTS", key)) and await ask(plain(key, b"XINFO", b"GROUPS", key))
        rows = await ask(plain(key, b"XINFO", b"CONSUMERS", key, GROUP)) if is_there else ()
        return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
