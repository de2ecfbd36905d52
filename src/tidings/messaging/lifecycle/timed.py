"""Timed work: records whose time has come, done by one node at a time.

Each kind of timed work is a collection of records with a `due_ms`. The lease only spares double work: every kind of
work must be harmless when two nodes do it, or when a node dies in the middle. Work that fails is tried again later,
and the other work goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from tidings.bounds import TIMED_EVERY_S, TIMED_LEASE_S
from tidings.clock import Clock
from tidings.errors import Conflict, Problem, StoreError, cause_of
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.records import Put, Record, Records
from tidings.tasks import Loop

log = logging.getLogger("tidings.lifecycle")
_AT_ONCE = 100  # records worked on side by side; they share commits
_AGAIN_S = 1.0  # after work that failed for now
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
        self.loop = Loop("timed work", TIMED_EVERY_S, self.step)

    async def step(self) -> bool:
        """Do what is due, if it is this node's turn. True: there may be more. Raises StoreError."""
        if not await self._leads():
            return False
        is_more = False
        for collection, work in self._works.items():
            due = await self._records.due(collection, until_ms=self._clock.now_ms(), limit=_AT_ONCE)
            done = await asyncio.gather(*(self._do(work, record) for record in due))
            is_more |= len(due) == _AT_ONCE and any(done)
        return is_more

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
        await self._put_off(record)
        return False

    async def _put_off(self, record: Record) -> None:
        due_ms = self._clock.now_ms() + int(_AGAIN_S * 1000)
        try:
            await self._records.put([Put(*record.key, record.value, expected=record.version, due_ms=due_ms)])
        except Conflict:
            return  # another node has changed it, or is done with it
        except StoreError as error:
            log.info("timed work not put off", extra=cause_of(error, collection=record.collection))


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
