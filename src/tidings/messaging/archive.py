"""Moves old texts from their rows to segments, so that nothing is ever in neither place.

The order: note that the segment is being written (a recheck), write the object, read it back and compare every text,
and only then let the rows go, each on the condition that its rev is as it was seen and that no later archiver has
begun. Killed anywhere, the next run finds the note and puts the rest right (recheck.py). Only texts move; who, when and
the numbers stay in the row. Called by archiving.py, which holds the lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict
from tidings.messaging.cold import Count, Segments
from tidings.messaging.segments import Damaged, name_of, pack
from tidings.messaging.slots import Slots
from tidings.model import Entry
from tidings.stores.ports_archive import Archives, ArchiveTables, Blobs, Candidate, Move, Recheck

log = logging.getLogger("tidings.archive")


class Term:
    """One archiver's time in the lead. Its fence is taken when there is something to change."""

    def __init__(self, archives: Archives, is_led: Callable[[], bool] = lambda: True) -> None:
        self._archives = archives
        self._is_led = is_led
        self._fence: asyncio.Task[int] | None = None
        self.is_over = False

    async def fence(self) -> int:
        """Raises Conflict when the lead is lost."""
        if self.is_over or not self._is_led():
            self.is_over = True
            raise Conflict("the archiver's lease was lost")
        if self._fence is None:
            self._fence = asyncio.create_task(self._archives.take_fence(), name="archive fence")
        return await asyncio.shield(self._fence)


class Archived(msgspec.Struct):
    """What was done so far."""

    conversations: int = 0
    messages: int = 0
    segments: int = 0
    bytes: int = 0
    failed: int = 0


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries: those sent up to `until_ms`; few of them may wait for more, `patience_ms` at most."""

    until_ms: int
    patience_ms: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Entries that follow each other and are due: at most as many as one segment takes."""

    entries: Sequence[Entry]
    is_full: bool  # there may be more that is due
    next_ms: int  # else: when the next one was sent; 0: there is none yet

    def waiting(self) -> list[Entry]:
        """Those whose text is in the row."""
        return [entry for entry in self.entries if entry.text is not None and entry.s3_ref is None]


class Writer:
    """Writes a segment, verifies it, and points the rows at it."""

    def __init__(self, tables: ArchiveTables, blobs: Blobs, segments: Segments, clock: Clock, count: Count) -> None:
        self._tables = tables
        self._blobs = blobs
        self._segments = segments
        self._clock = clock
        self._count = count

    async def write(
        self, term: Term, conversation_id: str, rows: Sequence[Entry], texts: Mapping[int, str]
    ) -> tuple[int, int]:
        """`rows` as seen, with `texts` from wherever they are now. How many rows moved, and the object's size.

        Raises Damaged (nothing was moved), Conflict, Unavailable. A row that changed meanwhile stays as it is, and the
        segment, which holds a text too many then, stays on the list of rechecks.
        """
        fence = await term.fence()
        s3_ref, data = await asyncio.to_thread(pack, conversation_id, texts, fence)
        recheck = Recheck(
            conversation_id=conversation_id,
            s3_ref=s3_ref,
            why="writing",
            mark=self._clock.random_id(8),
            since_ms=self._clock.now_ms(),
        )
        await self._tables.put_recheck(recheck)
        await self._blobs.put(name_of(await self._tables.archive_id(), conversation_id, s3_ref), data)
        if (await self._segments.read(conversation_id, s3_ref)).texts != texts:
            raise Damaged("what was read back is not what was written")
        moves = [Move(seq_no=row.seq_no, rev=row.rev, from_ref=row.s3_ref, to_ref=s3_ref) for row in rows]
        moved = await self._tables.move(fence, conversation_id, moves)
        if len(moved) == len(texts):
            await self._tables.remove_recheck(recheck)
        self._count("segments", 1)
        self._count("bytes", len(data))
        return len(moved), len(data)


class Archiver:
    def __init__(self, tables: ArchiveTables, slots: Slots, writer: Writer, count: Count) -> None:
        self._tables = tables
        self._slots = slots
        self._writer = writer
        self._count = count

    async def run(self, term: Term, due: Due, archived: Archived) -> None:
        """Everything that is due, several conversations side by side. Raises Conflict, Unavailable."""
        after_id: str | None = ""
        # What waits for company has its time put off; without patience it is looked at all the same.
        before_ms = due.until_ms if due.patience_ms else due.until_ms + bounds.ARCHIVE_PATIENCE_S * 1000
        while after_id is not None and not term.is_over:
            found, after_id = await self._tables.candidates(
                after_id=after_id, before_ms=before_ms, limit=bounds.ARCHIVE_WALK
            )
            waiting = iter(found)
            await _together(term, [self._work(term, waiting, due, archived) for _ in found[: bounds.ARCHIVE_AT_ONCE]])

    async def conversation(self, term: Term, candidate: Candidate, due: Due, archived: Archived) -> None:
        """One of them, segment by segment."""
        id_, after = candidate.conversation_id, candidate.archived_seq
        archived.conversations += 1
        while True:
            run = await self._gather(id_, after, due)
            rows = run.waiting()
            if rows and not run.is_full and _is_too_few(rows, due):
                await self._tables.advance(id_, archived_seq=after, next_ms=rows[0].sent_ms + due.patience_ms)
                return
            if rows:
                await self._move(term, id_, rows, archived)
            after = run.entries[-1].seq_no if run.entries else after
            await self._tables.advance(id_, archived_seq=after, next_ms=run.next_ms)
            if not run.is_full:
                return

    async def _move(self, term: Term, conversation_id: str, rows: Sequence[Entry], archived: Archived) -> None:
        texts = {row.seq_no: row.text for row in rows if row.text is not None}
        moved, size_bytes = await self._writer.write(term, conversation_id, rows, texts)
        archived.bytes += size_bytes
        archived.messages += moved
        archived.segments += 1
        self._count("messages", moved)

    async def _work(self, term: Term, waiting: Iterator[Candidate], due: Due, archived: Archived) -> None:
        for candidate in waiting:
            if term.is_over:
                return
            try:
                await self.conversation(term, candidate, due, archived)
            except Damaged as error:
                archived.failed += 1
                self._count("failed", 1)
                log.error("conversation %s was not archived: %s", candidate.conversation_id, error)

    async def _gather(self, conversation_id: str, after: int, due: Due) -> Run:
        entries: list[Entry] = []
        size_bytes = 0
        while True:
            page = await self._slots.after(conversation_id, after + len(entries), bounds.ARCHIVE_PAGE)
            for entry in page:
                size_bytes += len(entry.text or "")
                if entry.sent_ms > due.until_ms:
                    return Run(entries=entries, is_full=False, next_ms=entry.sent_ms)
                if entries and size_bytes > bounds.SEGMENT_BYTES_MAX:
                    return Run(entries=entries, is_full=True, next_ms=0)
                entries.append(entry)
            if len(page) < bounds.ARCHIVE_PAGE:
                return Run(entries=entries, is_full=False, next_ms=0)
            if len(entries) >= bounds.SEGMENT_ENTRIES_MAX:
                return Run(entries=entries, is_full=True, next_ms=0)


def _is_too_few(rows: Sequence[Entry], due: Due) -> bool:
    return len(rows) < bounds.SEGMENT_ENTRIES_MIN and rows[0].sent_ms > due.until_ms - due.patience_ms


async def _together(term: Term, works: Sequence[Awaitable[None]]) -> None:
    """All of them; when one fails the others stop at their next step, and the first error is raised."""
    errors: list[Exception] = []

    async def one(work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:
            term.is_over = True
            errors.append(error)

    await asyncio.gather(*map(one, works))
    if errors:
        raise errors[0]
