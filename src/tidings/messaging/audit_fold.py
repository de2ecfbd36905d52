"""Makes sums of the audit stream: how many per kind, class and user in each minute.

Every node has a worker in one consumer group. An entry is counted in the very step that takes it off the group's list,
so it is counted once, whoever dies when: what a dead worker had taken is taken over after AUDIT_IDLE_S, and a worker
that was only slow finds nothing left to count. An entry that nobody can read is a dead letter after five deliveries;
until then it may be of a newer version, which another node understands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from tidings import bounds
from tidings.errors import StoreError
from tidings.messaging.audit import Event
from tidings.stores.calls import Call, Keyspace, each_alone, plain
from tidings.stores.scripts_audit import GROUP, AuditScripts, minute_of

log = logging.getLogger("tidings.audit")

decode_event = msgspec.json.Decoder(Event).decode
Taken = Sequence[tuple[str, bytes]]


class AuditFold:
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
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work(), name="audit-fold")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        is_tidy = False
        while True:
            try:
                if await self.step():
                    continue
                if not is_tidy:
                    await self.tidy()
                    is_tidy = True
            except StoreError as error:
                log.debug("audit sums wait for the keyspace: %s", error)
            except Exception:
                log.exception("counting audit entries failed")  # and is tried again: nobody else would start it
            await asyncio.sleep(bounds.AUDIT_POLL_S)

    async def step(self, limit: int = bounds.AUDIT_TAKE_MAX) -> int:
        """Take and count what there is, about `limit` entries a shard; how many were counted. Raises StoreError."""
        taken = await self.take(limit)
        calls = [call for shard, entries in taken.items() for call in self._folds(shard, entries)]
        return sum((await each_alone(self._keyspace, calls)).values()) if calls else 0

    async def take(self, limit: int) -> dict[int, Taken]:
        """Shard -> entries that are this worker's from now on."""
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
        """Take workers off the list that are long gone and have nothing; how many."""
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
