"""Timed work: records whose time has come, done by one node at a time.

Each kind of timed work is a collection of records with a `due_ms`. The lease only spares double work: every kind of
work must be harmless when two nodes do it, or when a node dies in the middle. Work that fails is tried again a moment
later, and the other work goes on meanwhile. The node remembers that moment by its monotonic clock: the record keeps its
time, so a node with a wrong clock delays nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from tidings.bounds import TIMED_EVERY_S, TIMED_LEASE_S
from tidings.clock import Clock
from tidings.errors import Problem, StoreError, cause_of
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.records import Put, Record, RecordKey, Records
from tidings.tasks import Loop, Recent

log = logging.getLogger("tidings.lifecycle")
_AT_ONCE = 100  # records worked on side by side; they share commits
_AGAIN_S = 1.0  # after work that failed for now
_PUT_OFF_MAX = 1_000  # records that are remembered as put off; forgetting one only tries it earlier
Work = Callable[[Record], Awaitable[object]]  # it removes the record, or gives it another time


class TimedWork:
    def __init__(
        self,
        keyspace: Keyspace,
        keys: Keys,
        records: Records,
        clock: Clock,
        node_id: str,
        works: Mapping[str, Work],
    ) -> None:
        """`works`: collection -> the work on one of its records."""
        self._keyspace = keyspace
        self._key = keys.timed
        self._records = records
        self._clock = clock
        self._node_id = node_id
        self._works = works
        self._again_s = Recent[RecordKey, float](_PUT_OFF_MAX)  # work that failed -> when it is tried again
        self.loop = Loop("timed work", TIMED_EVERY_S, self.step)

    async def step(self) -> bool:
        """Do what is due, if it is this node's turn. True: there may be more. Raises StoreError."""
        if not await self._leads():
            return False
        is_more = False
        for collection, work in self._works.items():
            due = await self._due(collection)
            done = await asyncio.gather(*(self._do(work, record) for record in due))
            is_more |= len(due) == _AT_ONCE and any(done)
        return is_more

    async def _due(self, collection: str) -> list[Record]:
        """The records whose time has come, without those that failed a moment ago."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        for key in [key for key, again_s in self._again_s.items() if again_s <= now_s]:
            del self._again_s[key]
        limit = _AT_ONCE + len(self._again_s)
        found = await self._records.due(collection, until_ms=now_ms, limit=limit)
        return [record for record in found if record.key not in self._again_s][:_AT_ONCE]

    async def _leads(self) -> bool:
        """Take the lease, or keep it. A node that dies loses it within TIMED_LEASE_S."""
        key, ttl_ms = self._key, int(TIMED_LEASE_S * 1000)
        take = plain(key, b"SET", key, self._node_id, b"NX", b"PX", ttl_ms)
        _, holder = await self._keyspace.run((take, plain(key, b"GET", key)))
        if holder != self._node_id.encode():
            return False
        await self._keyspace.one(plain(key, b"PEXPIRE", key, ttl_ms))
        return True

    async def _do(self, work: Work, record: Record) -> bool:
        try:
            await work(record)
            return True
        except (Problem, StoreError) as error:
            log.info("timed work is put off", extra=cause_of(error, collection=record.collection, record=record.name))
        except Exception:
            log.exception("timed work failed", extra={"collection": record.collection, "record": record.name})
        self._again_s.put(record.key, self._clock.monotonic_s() + _AGAIN_S)
        return False


class Removal:
    """A companion that removes a record with the commit of an entry: the entry was the work."""

    last_seq = 0

    def __init__(self, record: Record) -> None:
        self._record = record
        self.keys = frozenset((record.key,))

    async def read(self) -> None:
        """Nothing is kept of the record."""

    def puts(self, entry: object) -> list[Put]:
        return [Put(*self._record.key, None)]
