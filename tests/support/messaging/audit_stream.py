"""An audit stream under a prefix of its own: its writer, its workers and its reader on a keyspace that may fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.messaging.faulty_stores import FaultyKeyspace, TurnedClock
from tidings.operators.audit.events import Audit
from tidings.operators.audit.reader import AuditEntry, AuditReader
from tidings.operators.audit.recount import AuditRecount
from tidings.operators.audit.sums import AuditSums
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.audit import SOURCES, AuditScripts
from tidings.stores.keyspace.server import open_keyspace
from tidings_proof.world.valkey import ValkeyProcess


class Auditing:
    def __init__(self, keyspace: FaultyKeyspace, prefix: str) -> None:
        self.keyspace = keyspace
        self.clock = TurnedClock()
        self.scripts = AuditScripts(Keys(prefix))
        self.rejects: Counter[str] = Counter()  # as the metrics would have them
        self.audit = self.writer("n1")
        self.fold = self.worker("n1")
        self.reader = AuditReader(keyspace, self.scripts.keys, self.clock)
        self.replay = AuditRecount(keyspace, self.scripts)

    def writer(self, node_id: str) -> Audit:
        return Audit(self.keyspace, self.scripts, self.clock, node_id, self._count)

    def worker(self, node_id: str, idle_s: float = 60.0) -> AuditSums:
        return AuditSums(self.keyspace, self.scripts, node_id, idle_s=idle_s)

    def _count(self, class_name: str, n: int) -> None:
        self.rejects[class_name] += n

    async def write(self) -> list[AuditEntry]:
        """Everything that was noted; the newest entries."""
        while await self.audit.flush():
            pass
        return await self.reader.tail(count=10_000)

    async def count_all(self, worker: AuditSums | None = None) -> int:
        """How many entries were counted until there were no more."""
        counted = 0
        while found := await (worker or self.fold).step():
            counted += found
        return counted

    async def sums(self) -> dict[str, int]:
        """kind:class:user -> how many, over the last minutes."""
        found: Counter[str] = Counter()
        for fields in (await self.reader.sums(3)).values():
            for key, count in fields.items():
                found[":".join(key)] += count
        return dict(found)

    async def ask(self, key: str, *words: Any) -> Any:
        return await self.keyspace.one(plain(key, *words))


@asynccontextmanager
async def audited(valkey: ValkeyProcess) -> AsyncIterator[Auditing]:
    clock = TurnedClock()
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), clock)
    try:
        yield Auditing(FaultyKeyspace(keyspace), f"audit.{clock.random_id(4)}.")
    finally:
        await keyspace.close()
