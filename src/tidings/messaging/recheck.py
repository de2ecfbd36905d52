"""Looks at segments again: each must hold exactly the texts that rows refer to, or go.

A segment with a text too many (its message was edited or deleted, or an archiver was killed) is written again without
it, the rows are pointed at the new one, and then the old object goes; one that nothing refers to goes at once; one that
cannot be read is left where it is and reported. An object is deleted only when no row refers to it and none ever can:
rows are pointed at a segment only by the archiver whose fence is in its name, and ours is later. So nobody's delay can
make a deletion wrong. Called by archiving.py, before and after each run, and for `tidings archive restore`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Missing
from tidings.messaging.archive import Term, Writer
from tidings.messaging.cold import Count, Segments
from tidings.messaging.segments import Damaged, Segment, folder_of, name_of, parse_name, parse_ref
from tidings.model import Entry
from tidings.stores.ports_archive import EVERY_SEGMENT, ArchiveTables, Blob, Blobs, LogTables, Move, Recheck

log = logging.getLogger("tidings.archive")

_PAGE = 100  # rechecks read at a time
_SWEPT_AT_ONCE = 16  # objects looked at side by side


class Rechecked(msgspec.Struct):
    """What was done so far."""

    looked_at: int = 0
    rewritten: int = 0
    deleted: int = 0
    restored: int = 0
    damaged: list[str] = []  # conversation_id and s3_ref of what cannot be read


class Rechecker:
    def __init__(
        self,
        *,
        log: LogTables,
        tables: ArchiveTables,
        blobs: Blobs,
        segments: Segments,
        writer: Writer,
        clock: Clock,
        count: Count,
    ) -> None:
        self._log = log
        self._tables = tables
        self._blobs = blobs
        self._segments = segments
        self._writer = writer
        self._clock = clock
        self._count = count

    async def run(self, term: Term, done: Rechecked) -> None:
        """Everything on the list. Raises Conflict, Unavailable."""
        after = ("", "")
        while page := await self._tables.rechecks(after=after, limit=_PAGE):
            for recheck in page:
                if await self._settle(term, recheck, done):
                    await self._tables.remove_recheck(recheck)
            after = (page[-1].conversation_id, page[-1].s3_ref)

    async def sweep(self, term: Term, done: Rechecked) -> None:
        """Every object there is: those that nothing refers to go, unless they are young."""
        old_ms = self._clock.now_ms() - bounds.ARCHIVE_ORPHAN_S * 1000
        async for chunk in self._blobs.list(await self._tables.archive_id()):
            old = [blob for blob in chunk if blob.modified_ms < old_ms]
            for start in range(0, len(old), _SWEPT_AT_ONCE):
                looks = (self._look(term, blob, done) for blob in old[start : start + _SWEPT_AT_ONCE])
                await asyncio.gather(*looks)

    async def restore(self, term: Term, conversation_id: str, done: Rechecked) -> None:
        """All texts of a conversation back into its rows, and its segments away. It is not archived again by itself."""
        after = 0
        while page := await self._log.page(
            conversation_id, after=after, before=1 << 53, limit=bounds.ARCHIVE_PAGE, newest_first=False
        ):
            refs = sorted({entry.s3_ref for entry in page if entry.s3_ref is not None})
            for ref in refs:
                await self._restore(term, [entry for entry in page if entry.s3_ref == ref], ref, done)
            after = page[-1].seq_no
        await self.run(term, done)

    # --- one segment ------------------------------------------------------------------------------

    async def _settle(self, term: Term, recheck: Recheck, done: Rechecked) -> bool:
        """True: there is nothing left to do."""
        name = f"{recheck.conversation_id} {recheck.s3_ref}"
        if name in done.damaged:
            return False
        done.looked_at += 1
        try:
            if recheck.s3_ref == EVERY_SEGMENT:
                return await self._settle_all(term, recheck.conversation_id, done)
            return await self._segment(term, recheck.conversation_id, recheck.s3_ref, done)
        except (Damaged, Missing) as error:
            done.damaged.append(name)
            self._count("missing" if isinstance(error, Missing) else "damaged", 1)
            log.error("segment %s of conversation %s cannot be read: %s", *reversed(name.split()), error)
            if recheck.why != "damaged":
                await self._tables.put_recheck(msgspec.structs.replace(recheck, why="damaged"))
            return False

    async def _settle_all(self, term: Term, conversation_id: str, done: Rechecked) -> bool:
        """What a deleted conversation has left. It may be there again, with segments of its own, which stay."""
        if not await self._tables.finish_deletion(conversation_id):
            return False
        is_done = True
        async for chunk in self._blobs.list(folder_of(await self._tables.archive_id(), conversation_id)):
            for id_, s3_ref in filter(None, (parse_name(blob.name) for blob in chunk)):
                if id_ == conversation_id:
                    await self._segment(term, conversation_id, s3_ref, done)
                    is_done &= not await self._rows(conversation_id, s3_ref)
        return is_done or bool(await self._log.heads([conversation_id]))

    async def _segment(self, term: Term, conversation_id: str, s3_ref: str, done: Rechecked) -> bool:
        """Raises Damaged, Missing: rows refer to what cannot be read."""
        if parse_ref(s3_ref).fence > await term.fence():
            return False  # of an archiver who began after us: we shall be told so soon enough
        for _ in range(bounds.ARCHIVE_RECHECK_ROUNDS):
            rows = await self._rows(conversation_id, s3_ref)
            if not rows:
                await self._delete(conversation_id, s3_ref)
                done.deleted += 1
                return True
            segment = await self._segments.read(conversation_id, s3_ref)
            texts = _texts_of(segment, rows)
            if len(texts) == len(segment.texts):
                return True
            await self._writer.write(term, conversation_id, rows, texts)
            self._count("rewrites", 1)
            done.rewritten += 1
        return False

    async def _rows(self, conversation_id: str, s3_ref: str) -> list[Entry]:
        ref = parse_ref(s3_ref)
        rows: list[Entry] = []
        after = ref.first - 1
        while page := await self._log.page(
            conversation_id, after=after, before=ref.last + 1, limit=bounds.ARCHIVE_PAGE, newest_first=False
        ):
            rows += [entry for entry in page if entry.s3_ref == s3_ref]
            after = page[-1].seq_no
        return rows

    async def _delete(self, conversation_id: str, s3_ref: str) -> None:
        await self._blobs.delete(name_of(await self._tables.archive_id(), conversation_id, s3_ref))
        self._count("deletions", 1)

    async def _look(self, term: Term, blob: Blob, done: Rechecked) -> None:
        """The first entry of its range refers to it, as a rule: one row is read."""
        named = parse_name(blob.name)
        if named is None or parse_ref(named[1]).fence >= await term.fence():
            return
        conversation_id, s3_ref = named
        first = parse_ref(s3_ref).first
        found = await self._log.page(conversation_id, after=first - 1, before=first + 1, limit=1, newest_first=False)
        if not found or found[0].s3_ref != s3_ref:
            mark, now_ms = self._clock.random_id(8), self._clock.now_ms()
            await self._settle(
                term,
                Recheck(conversation_id=conversation_id, s3_ref=s3_ref, why="writing", mark=mark, since_ms=now_ms),
                done,
            )

    async def _restore(self, term: Term, rows: Sequence[Entry], s3_ref: str, done: Rechecked) -> None:
        """The recheck comes first: killed in the middle, the rest of the segment is put right like any other."""
        conversation_id, mark = rows[0].conversation_id, self._clock.random_id(8)
        now_ms = self._clock.now_ms()
        recheck = Recheck(conversation_id=conversation_id, s3_ref=s3_ref, why="rewritten", mark=mark, since_ms=now_ms)
        await self._tables.put_recheck(recheck)
        try:
            texts = _texts_of(await self._segments.get(conversation_id, s3_ref), rows)
        except (Damaged, Missing):
            return  # the recheck reports it
        moves = [
            Move(seq_no=row.seq_no, rev=row.rev, from_ref=s3_ref, to_ref=None, text=texts[row.seq_no]) for row in rows
        ]
        done.restored += len(await self._tables.move(await term.fence(), conversation_id, moves))


def _texts_of(segment: Segment, rows: Sequence[Entry]) -> dict[int, str]:
    """Raises Damaged: a row refers to a text that is not there."""
    try:
        return {row.seq_no: segment.texts[row.seq_no] for row in rows}
    except KeyError as error:
        raise Damaged(f"it has no text of {error}") from None
