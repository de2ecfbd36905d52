"""When the archiver runs, and who: one at a time, by a lease in the keyspace.

A pass looks at what was put on the list of rechecks, archives what is due, and once a day sweeps all objects. The lease
only spares double work: a pass that lost it is refused by the tables, which know its fence. Every node has this as a
background task; `tidings archive run` does the same at once and without patience.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict, Missing, StoreError
from tidings.messaging.archive import Archived, Archiver, Due, Term
from tidings.messaging.cold import Count
from tidings.messaging.recheck import Rechecked, Rechecker
from tidings.stores.calls import Keyspace
from tidings.stores.ports import Conversations
from tidings.stores.ports_archive import ArchiveTables, Blobs, Candidate
from tidings.stores.scripts_archive import ArchiveScripts

log = logging.getLogger("tidings.archive")

_DAY_MS = 86_400_000


class Pass(msgspec.Struct, frozen=True):
    """What one pass did."""

    archived: Archived
    rechecked: Rechecked


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How the cold tier stands."""

    leader: str | None
    segments: int
    bytes: int
    conversations_waiting: int
    rechecks: int
    damaged: list[str]


class Archiving:
    def __init__(
        self,
        *,
        keyspace: Keyspace,
        scripts: ArchiveScripts,
        conversations: Conversations,
        tables: ArchiveTables,
        blobs: Blobs,
        archiver: Archiver,
        rechecker: Rechecker,
        clock: Clock,
        holder: str,
        after_days: int | None,
        every_s: int,
        count: Count,
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._conversations = conversations
        self._tables = tables
        self._blobs = blobs
        self._archiver = archiver
        self._rechecker = rechecker
        self._clock = clock
        self._holder = holder
        self._after_ms = None if after_days is None else after_days * _DAY_MS
        self._every_s = every_s
        self._count = count
        self._task: asyncio.Task[None] | None = None
        self.last: tuple[int, Pass] | None = None  # when the last pass of this process ended, and what it did

    # --- in the background ------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="archive")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            # Nodes that start together do not look together.
            await asyncio.sleep(self._every_s * (0.5 + self._clock.random_fraction()))
            try:
                await self.run(is_patient=True)
            except Conflict as error:
                log.debug("another archives: %s", error)
            except StoreError as error:
                self._count("failed", 1)
                log.warning("archiving goes on later: %s", error)
            except Exception:
                self._count("failed", 1)
                log.exception("archiving failed")  # and is tried again: nobody else would start it

    # --- one pass ---------------------------------------------------------------------------------

    async def run(
        self,
        *,
        conversation_id: str | None = None,
        is_patient: bool = False,
        on_progress: Callable[[Archived], None] | None = None,
    ) -> Pass:
        """Raises Conflict when another leads. One conversation: all of it that is due, from its beginning."""
        done = Pass(Archived(), Rechecked())
        async with self._lead() as term, _told(done.archived, on_progress):
            await self._rechecker.run(term, done.rechecked)
            if self._after_ms is not None:
                due = self._due(self._after_ms, is_patient)
                if conversation_id is None:
                    await self._archiver.run(term, due, done.archived)
                else:
                    candidate = await self._whole(conversation_id)
                    await self._archiver.conversation(term, candidate, due, done.archived)
            await self._rechecker.run(term, done.rechecked)
            if not is_patient or await self._keyspace.one(self._scripts.archive_sweep(self._holder)):
                await self._rechecker.sweep(term, done.rechecked)
        self.last = (self._clock.now_ms(), done)
        return done

    async def restore(self, conversation_id: str) -> Rechecked:
        """Raises Missing, and Conflict when another leads."""
        done = Rechecked()
        await self._whole(conversation_id)
        async with self._lead() as term:
            await self._rechecker.restore(term, conversation_id, done)
        return done

    async def status(self) -> Status:
        """Walks all conversations and lists all objects: for an operator, not for a monitor."""
        segments = size_bytes = 0
        async for chunk in self._blobs.list(await self._tables.archive_id()):
            segments += len(chunk)
            size_bytes += sum(blob.size_bytes for blob in chunk)
        rechecks, damaged = await self._listed()
        leader = await self._keyspace.one(self._scripts.archive_leader())
        return Status(
            leader=leader or None,
            segments=segments,
            bytes=size_bytes,
            conversations_waiting=await self.waiting(),
            rechecks=rechecks,
            damaged=damaged,
        )

    async def waiting(self) -> int:
        """Conversations with something that is due, or may be."""
        if self._after_ms is None:
            return 0
        until_ms = self._clock.now_ms() - self._after_ms
        count, after_id = 0, ""
        while True:
            found, next_id = await self._tables.candidates(
                after_id=after_id, before_ms=until_ms, limit=bounds.ARCHIVE_WALK
            )
            count += len(found)
            if next_id is None:
                return count
            after_id = next_id

    def _due(self, after_ms: int, is_patient: bool) -> Due:
        patience_ms = min(bounds.ARCHIVE_PATIENCE_S * 1000, after_ms) if is_patient else 0
        return Due(until_ms=self._clock.now_ms() - after_ms, patience_ms=patience_ms)

    async def _whole(self, conversation_id: str) -> Candidate:
        heads = await self._conversations.heads([conversation_id])
        if conversation_id not in heads:
            raise Missing(f"there is no conversation {conversation_id}")
        return Candidate(conversation_id, heads[conversation_id].floor_seq, heads[conversation_id].head)

    async def _listed(self) -> tuple[int, list[str]]:
        count, damaged, after = 0, [], ("", "")
        while page := await self._tables.rechecks(after=after, limit=bounds.ARCHIVE_WALK):
            count += len(page)
            damaged += [f"{one.conversation_id} {one.s3_ref}" for one in page if one.why == "damaged"]
            after = (page[-1].conversation_id, page[-1].s3_ref)
        return count, damaged

    # --- the lease --------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lead(self) -> AsyncIterator[Term]:
        lease = _Lease(self._keyspace, self._scripts, self._holder, self._clock)
        await lease.take()
        renewing = asyncio.get_running_loop().create_task(lease.keep(), name="archive lease")
        try:
            yield Term(self._tables, lambda: lease.is_held)
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
            raise Conflict(f"{name} archives now; its lease ends in {for_s} s if it is not renewed")
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
                log.info("the archiver's lease was not renewed: %s", error)

    async def release(self) -> None:
        try:
            await self._keyspace.one(self._scripts.archive_lease(self._holder, ttl_ms=0))
        except StoreError:
            return  # it ends by itself


@asynccontextmanager
async def _told(archived: Archived, on_progress: Callable[[Archived], None] | None) -> AsyncIterator[None]:
    """Somebody watches: told four times a second."""

    async def tell() -> None:
        while on_progress is not None:
            on_progress(archived)
            await asyncio.sleep(0.25)

    telling = asyncio.get_running_loop().create_task(tell(), name="archive progress")
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
