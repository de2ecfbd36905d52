"""The mover: moves old texts from their rows to segments. Each text is always in at least one of the two.

The order is: record that the segment is being written (a recheck), write the object, read it back and compare every
text, and only then change the rows. Each row changes on the condition that its rev is unchanged and that no later
archiver has begun. After a crash at any step the next run finds the recheck and repairs the rest (recheck.py). Only
texts move; sender, time and numbers stay in the row.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict, cause_of
from tidings.messaging.archive.read_through import Count, Segments, new_recheck
from tidings.messaging.archive.segment import Damaged, name_of, pack, size_of
from tidings.messaging.log import Log
from tidings.model import Content, Entry
from tidings.stores.blobs.ports import Blobs
from tidings.stores.tables.cold import Archive
from tidings.stores.tables.values import Candidate, Move

log = logging.getLogger("tidings.archive")


class Term:
    """The term of one archiver as the leader. It takes its fence when there is something to change."""

    def __init__(self, archives: Archive, is_led: Callable[[], bool] = lambda: True) -> None:
        self._archives = archives
        self._is_led = is_led
        self._fence: asyncio.Task[int] | None = None
        self.is_over = False

    async def fence(self) -> int:
        """The fence of this term. Raises Conflict when the lease is lost."""
        if self.is_over or not self._is_led():
            self.is_over = True
            raise Conflict("the archiver's lease was lost")
        if self._fence is None:
            self._fence = asyncio.create_task(self._archives.take_fence(), name="archive fence")
        return await asyncio.shield(self._fence)


class Archived(msgspec.Struct):
    """The work that is done so far."""

    conversations: int = 0
    messages: int = 0
    segments: int = 0
    bytes: int = 0
    failed: int = 0


class Cutoff(msgspec.Struct, frozen=True, kw_only=True):
    """Entries sent up to `until_ms` are due; few of them may wait for more, but at most `patience_ms`."""

    until_ms: int
    patience_ms: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive entries that are due, at most as many as fit in one segment."""

    entries: Sequence[Entry]
    is_full: bool  # more entries may be due
    next_ms: int  # otherwise the time of the next entry; 0: there is none yet

    def waiting(self) -> list[Entry]:
        """The entries with their content in the row."""
        return [entry for entry in self.entries if entry.content is not None and entry.s3_ref is None]


class Writer:
    """Writes a segment, verifies it, and points the rows at it."""

    def __init__(self, archive: Archive, blobs: Blobs, segments: Segments, clock: Clock, count: Count) -> None:
        self._archive = archive
        self._blobs = blobs
        self._segments = segments
        self._clock = clock
        self._count = count

    async def write(
        self, term: Term, conversation_id: str, rows: Sequence[Entry], contents: Mapping[int, Content]
    ) -> tuple[int, int]:
        """Write `contents`, wherever they are now, and point `rows` at the segment. Returns moved rows and object size.

        Raises Damaged (nothing was moved), Conflict, Unavailable. A row that changed meanwhile stays as it is. The
        segment then holds a text too many, and stays on the list of rechecks.
        """
        fence = await term.fence()
        s3_ref, data = await asyncio.to_thread(pack, conversation_id, contents, fence)
        recheck = new_recheck(self._clock, conversation_id, s3_ref, "writing")
        await self._archive.put_recheck(recheck)
        await self._blobs.put(name_of(await self._archive.id(), conversation_id, s3_ref), data)
        if (await self._segments.read(conversation_id, s3_ref)).contents != contents:
            raise Damaged("the object that was read back differs from the one written")
        moves = [Move(seq_no=row.seq_no, rev=row.rev, from_ref=row.s3_ref, to_ref=s3_ref) for row in rows]
        moved = await self._archive.move(fence, conversation_id, moves)
        if len(moved) == len(contents):
            await self._archive.remove_recheck(recheck)
        self._count("segments", 1)
        self._count("bytes", len(data))
        return len(moved), len(data)


class Archiver:
    def __init__(self, archive: Archive, log: Log, writer: Writer, count: Count) -> None:
        self._archive = archive
        self._log = log
        self._writer = writer
        self._count = count

    async def run(self, term: Term, cutoff: Cutoff, archived: Archived) -> None:
        """Archive everything that is due, several conversations side by side. Raises Conflict, Unavailable."""
        after_id: str | None = ""
        # Few entries that wait for more have a later time; without patience they are archived too.
        before_ms = cutoff.until_ms if cutoff.patience_ms else cutoff.until_ms + bounds.ARCHIVE_PATIENCE_S * 1000
        while after_id is not None and not term.is_over:
            found, after_id = await self._archive.candidates(
                after_id=after_id, before_ms=before_ms, limit=bounds.ARCHIVE_WALK
            )
            waiting = iter(found)
            await _together(
                term, [self._work(term, waiting, cutoff, archived) for _ in found[: bounds.ARCHIVE_AT_ONCE]]
            )

    async def conversation(self, term: Term, candidate: Candidate, cutoff: Cutoff, archived: Archived) -> None:
        """Archive one conversation, segment by segment."""
        id_, after = candidate.conversation_id, candidate.archived_seq
        archived.conversations += 1
        while True:
            run = await self._gather(id_, after, cutoff)
            rows = run.waiting()
            if rows and not run.is_full and _is_too_few(rows, cutoff):
                await self._archive.advance(id_, archived_seq=after, next_ms=rows[0].sent_ms + cutoff.patience_ms)
                return
            if rows:
                await self._move(term, id_, rows, archived)
            after = run.entries[-1].seq_no if run.entries else after
            await self._archive.advance(id_, archived_seq=after, next_ms=run.next_ms)
            if not run.is_full:
                return

    async def _move(self, term: Term, conversation_id: str, rows: Sequence[Entry], archived: Archived) -> None:
        contents = {row.seq_no: row.content for row in rows if row.content is not None}
        moved, size_bytes = await self._writer.write(term, conversation_id, rows, contents)
        archived.bytes += size_bytes
        archived.messages += moved
        archived.segments += 1
        self._count("messages", moved)

    async def _work(self, term: Term, waiting: Iterator[Candidate], cutoff: Cutoff, archived: Archived) -> None:
        for candidate in waiting:
            if term.is_over:
                return
            try:
                await self.conversation(term, candidate, cutoff, archived)
            except Damaged as error:
                archived.failed += 1
                self._count("failed", 1)
                log.error("conversation not archived", extra=cause_of(error, conversation_id=candidate.conversation_id))

    async def _gather(self, conversation_id: str, after: int, cutoff: Cutoff) -> Run:
        entries: list[Entry] = []
        size_bytes = 0
        while True:
            page = await self._log.after(conversation_id, after + len(entries), bounds.ARCHIVE_PAGE)
            for entry in page:
                size_bytes += size_of(entry.content) if entry.content is not None else 0
                if entry.sent_ms > cutoff.until_ms:
                    return Run(entries=entries, is_full=False, next_ms=entry.sent_ms)
                if entries and size_bytes > bounds.SEGMENT_BYTES_MAX:
                    return Run(entries=entries, is_full=True, next_ms=0)
                entries.append(entry)
            if len(page) < bounds.ARCHIVE_PAGE:
                return Run(entries=entries, is_full=False, next_ms=0)
            if len(entries) >= bounds.SEGMENT_ENTRIES_MAX:
                return Run(entries=entries, is_full=True, next_ms=0)


def _is_too_few(rows: Sequence[Entry], cutoff: Cutoff) -> bool:
    return len(rows) < bounds.SEGMENT_ENTRIES_MIN and rows[0].sent_ms > cutoff.until_ms - cutoff.patience_ms


async def _together(term: Term, works: Sequence[Awaitable[None]]) -> None:
    """Run all works. When one fails the others stop at their next step, and the first error is raised."""
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
