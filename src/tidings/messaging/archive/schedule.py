"""The schedule of the archiver: one pass at a time over all nodes, by a lease in the keyspace.

A pass settles the list of rechecks, archives what is due, and once a day sweeps all objects and wipes the tables. The
lease only prevents double work: the tables know the fence of each archiver, and refuse a pass that lost its lease.
Every node runs this in the background; `tidings archive run` runs one pass at once, without waiting for full segments.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict, Missing, StoreError, cause_of
from tidings.messaging.archive.mover import Archived, Archiver, Cutoff, Term
from tidings.messaging.archive.read_through import Count
from tidings.messaging.archive.recheck import Rechecked, Rechecker
from tidings.stores.blobs.ports import Blobs
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.archive import ArchiveScripts
from tidings.stores.tables.cold import Archive
from tidings.stores.tables.ports import Conversations
from tidings.stores.tables.values import Candidate
from tidings.tasks import Loop

log = logging.getLogger("tidings.archive")

_DAY_MS = 86_400_000


class Pass(msgspec.Struct, frozen=True):
    """The work of one pass."""

    archived: Archived
    rechecked: Rechecked
    is_wiped: bool = False  # nothing is left of removed texts in the files of the tables


class Beside(Protocol):
    """A part that sweeps beside the segments, in the same pass: the files."""

    async def due(self) -> None: ...
    async def all(self) -> None: ...


class ArchiveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The condition of the cold tier. `leader` None: no archiver runs."""

    leader: str | None
    segments: int
    bytes: int
    conversations_waiting: int
    rechecks: int
    damaged: list[str]


@dataclass(eq=False, repr=False, kw_only=True)
class Archiving:
    keyspace: Keyspace
    scripts: ArchiveScripts
    conversations: Conversations
    archive: Archive
    blobs: Blobs
    archiver: Archiver
    rechecker: Rechecker
    clock: Clock
    holder: str
    after_days: int | None
    every_s: int
    count: Count
    beside: Beside
    wipe: Callable[[], Awaitable[bool]]

    def __post_init__(self) -> None:
        self._after_ms = None if self.after_days is None else self.after_days * _DAY_MS
        self.loop = Loop("archive", self._pause_s, self._run_counted)
        self.last: tuple[int, Pass] | None = None  # end and work of the last pass of this process

    # --- in the background ------------------------------------------------------------------------

    def _pause_s(self) -> float:
        """Nodes that start together do not archive together."""
        return self.every_s * (0.5 + self.clock.random_fraction())

    async def _run_counted(self) -> None:
        try:
            await self.run(is_patient=True)
        except Conflict as error:
            log.debug("another node archives", extra=cause_of(error))
        except Exception:
            self.count("failed", 1)
            raise

    # --- one pass ---------------------------------------------------------------------------------

    async def run(
        self,
        *,
        conversation_id: str | None = None,
        is_patient: bool = False,
        on_progress: Callable[[Archived], None] | None = None,
    ) -> Pass:
        """Run one pass, or archive one conversation from its beginning. Raises Conflict when another node leads."""
        done = Pass(Archived(), Rechecked())
        async with self._lead() as term, _shown(done.archived, on_progress):
            await self.rechecker.run(term, done.rechecked)
            if self._after_ms is not None:
                cutoff = self._cutoff(self._after_ms, is_patient)
                if conversation_id is None:
                    await self.archiver.run(term, cutoff, done.archived)
                else:
                    candidate = await self._whole(conversation_id)
                    await self.archiver.conversation(term, candidate, cutoff, done.archived)
            await self.rechecker.run(term, done.rechecked)
            await self.beside.due()
            if not is_patient or await self.keyspace.one(self.scripts.archive_sweep(self.holder)):
                await self.rechecker.sweep(term, done.rechecked)
                await self.beside.all()
                done = msgspec.structs.replace(done, is_wiped=await self.wipe())
        self.last = (self.clock.now_ms(), done)
        return done

    async def restore(self, conversation_id: str) -> Rechecked:
        """Move the texts of a conversation back. Raises Missing, and Conflict when another node leads."""
        done = Rechecked()
        await self._whole(conversation_id)
        async with self._lead() as term:
            await self.rechecker.restore(term, conversation_id, done)
        return done

    async def status(self) -> ArchiveStatus:
        """Walk all conversations and list all objects: for an operator, not for a monitor."""
        segments = size_bytes = 0
        async for chunk in self.blobs.list(await self.archive.id()):
            segments += len(chunk)
            size_bytes += sum(blob.size_bytes for blob in chunk)
        rechecks, damaged = await self._listed()
        leader = await self.keyspace.one(self.scripts.archive_leader())
        return ArchiveStatus(
            leader=leader or None,
            segments=segments,
            bytes=size_bytes,
            conversations_waiting=await self.waiting(),
            rechecks=rechecks,
            damaged=damaged,
        )

    async def waiting(self) -> int:
        """The number of conversations with entries that are due, or may be."""
        if self._after_ms is None:
            return 0
        until_ms = self.clock.now_ms() - self._after_ms
        count, after_id = 0, ""
        while True:
            found, next_id = await self.archive.candidates(
                after_id=after_id, before_ms=until_ms, limit=bounds.ARCHIVE_WALK
            )
            count += len(found)
            if next_id is None:
                return count
            after_id = next_id

    def _cutoff(self, after_ms: int, is_patient: bool) -> Cutoff:
        patience_ms = min(bounds.ARCHIVE_PATIENCE_S * 1000, after_ms) if is_patient else 0
        return Cutoff(until_ms=self.clock.now_ms() - after_ms, patience_ms=patience_ms)

    async def _whole(self, conversation_id: str) -> Candidate:
        heads = await self.conversations.heads([conversation_id])
        if conversation_id not in heads:
            raise Missing(f"no conversation has the id {conversation_id}")
        return Candidate(conversation_id, heads[conversation_id].floor_seq, heads[conversation_id].head)

    async def _listed(self) -> tuple[int, list[str]]:
        count, damaged, after = 0, [], ("", "")
        while page := await self.archive.rechecks(after=after, limit=bounds.ARCHIVE_WALK):
            count += len(page)
            damaged += [f"{one.conversation_id} {one.s3_ref}" for one in page if one.why == "damaged"]
            after = (page[-1].conversation_id, page[-1].s3_ref)
        return count, damaged

    # --- the lease --------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lead(self) -> AsyncIterator[Term]:
        lease = _Lease(self.keyspace, self.scripts, self.holder, self.clock)
        await lease.take()
        renewing = asyncio.get_running_loop().create_task(lease.keep(), name="archive lease")
        try:
            yield Term(self.archive, lambda: lease.is_held)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            await lease.release()


class _Lease:
    def __init__(self, keyspace: Keyspace, scripts: ArchiveScripts, holder: str, clock: Clock) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._holder = f"{holder}:{clock.random_id(4)}"  # two runs of one node are two archivers
        self._clock = clock
        self._until_s = 0.0

    @property
    def is_held(self) -> bool:
        return self._clock.monotonic_s() < self._until_s

    async def take(self) -> None:
        began_s = self._clock.monotonic_s()
        ttl_ms = int(bounds.ARCHIVE_LEASE_S * 1000)
        lead = await self._keyspace.one(self._scripts.archive_lease(self._holder, ttl_ms=ttl_ms))
        if lead.holder != self._holder:
            name, for_s = lead.holder.rpartition(":")[0], lead.ttl_ms // 1000 + 1
            raise Conflict(f"{name} is archiving; its lease ends in {for_s} s unless it is renewed")
        self._until_s = began_s + bounds.ARCHIVE_LEASE_S

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(bounds.ARCHIVE_RENEW_S)
            try:
                await self.take()
            except Conflict:
                self._until_s = 0.0
                return
            except StoreError as error:
                log.info("archive lease not renewed", extra=cause_of(error))

    async def release(self) -> None:
        try:
            await self._keyspace.one(self._scripts.archive_lease(self._holder, ttl_ms=0))
        except StoreError:
            return  # the lease ends by itself


@asynccontextmanager
async def _shown(archived: Archived, on_progress: Callable[[Archived], None] | None) -> AsyncIterator[None]:
    """Call `on_progress` four times a second."""

    async def show() -> None:
        while on_progress is not None:
            on_progress(archived)
            await asyncio.sleep(0.25)

    showing = asyncio.get_running_loop().create_task(show(), name="archive progress")
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
