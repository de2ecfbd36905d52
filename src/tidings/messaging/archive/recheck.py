"""Rechecks: a segment must hold exactly the texts that rows refer to, or be deleted.

A segment with a text too many (its message was edited or deleted, or an archiver was killed) is written again without
it, the rows are pointed at the new object, and then the old object is deleted. A segment without rows is deleted at
once. A segment that cannot be read stays and is reported. An object is deleted only when no row refers to it and none
ever can: only the archiver with the fence in the name points rows at a segment, and our fence is later. So no delay of
another process makes a deletion wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Missing, cause_of
from tidings.messaging.archive.mover import Term, Writer
from tidings.messaging.archive.read_through import Count, Segments, new_recheck
from tidings.messaging.archive.segment import Damaged, Segment, folder_of, name_of, parse_name, parse_ref
from tidings.model import Content, Entry
from tidings.stores.blobs.ports import Blob, Blobs
from tidings.stores.tables.cold import Archive
from tidings.stores.tables.ports import Conversations, Messages
from tidings.stores.tables.search import SearchIndex
from tidings.stores.tables.values import EVERY_SEGMENT, Move, Recheck

log = logging.getLogger("tidings.archive")

_PAGE = 100  # rechecks read at a time
_SWEPT_AT_ONCE = 16  # objects checked side by side


class Rechecked(msgspec.Struct):
    """The work that is done so far."""

    looked_at: int = 0
    rewritten: int = 0
    deleted: int = 0
    restored: int = 0
    damaged: list[str] = []  # conversation_id and s3_ref of segments that cannot be read


class Files(Protocol):
    """The files of messages, which go with them."""

    async def forget(self, conversation_id: str) -> bool: ...
    async def check(self, conversation_id: str, file_ids: Iterable[str]) -> None: ...


@dataclass(eq=False, repr=False, kw_only=True)
class Rechecker:
    log: Messages
    conversations: Conversations
    archive: Archive
    blobs: Blobs
    segments: Segments
    writer: Writer
    clock: Clock
    count: Count
    files: Files
    search: SearchIndex | None

    async def run(self, term: Term, done: Rechecked) -> None:
        """Settle every recheck on the list. Raises Conflict, Unavailable."""
        after = ("", "")
        while page := await self.archive.rechecks(after=after, limit=_PAGE):
            for recheck in page:
                if await self._settle(term, recheck, done):
                    await self.archive.remove_recheck(recheck)
            after = (page[-1].conversation_id, page[-1].s3_ref)

    async def sweep(self, term: Term, done: Rechecked) -> None:
        """Check every object, and delete those without rows unless they are young."""
        old_ms = self.clock.now_ms() - bounds.ARCHIVE_ORPHAN_S * 1000
        async for chunk in self.blobs.list(await self.archive.id()):
            old = [blob for blob in chunk if blob.modified_ms < old_ms]
            for start in range(0, len(old), _SWEPT_AT_ONCE):
                checks = (self._check(term, blob, done) for blob in old[start : start + _SWEPT_AT_ONCE])
                await asyncio.gather(*checks)

    async def restore(self, term: Term, conversation_id: str, done: Rechecked) -> None:
        """Move all texts of a conversation back into its rows, delete its segments, and never archive it by itself."""
        after = 0
        while page := await self.log.page(
            conversation_id, after=after, before=1 << 53, limit=bounds.ARCHIVE_PAGE, newest_first=False
        ):
            refs = sorted({entry.s3_ref for entry in page if entry.s3_ref is not None})
            for ref in refs:
                await self._restore(term, [entry for entry in page if entry.s3_ref == ref], ref, done)
            after = page[-1].seq_no
        await self.run(term, done)

    # --- one segment ------------------------------------------------------------------------------

    async def _settle(self, term: Term, recheck: Recheck, done: Rechecked) -> bool:
        """Settle one recheck. True: nothing is left to do."""
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
            self.count("missing" if isinstance(error, Missing) else "damaged", 1)
            log.error(
                "segment not readable",
                extra=cause_of(error, conversation_id=recheck.conversation_id, s3_ref=recheck.s3_ref),
            )
            if recheck.why != "damaged":
                await self.archive.put_recheck(msgspec.structs.replace(recheck, why="damaged"))
            return False

    async def _settle_all(self, term: Term, conversation_id: str, done: Rechecked) -> bool:
        """Delete the segments of a deleted conversation, and its words: the node that deleted it may have died.

        If it exists again, its new segments stay, and a search indexes it anew.
        """
        if not await self.archive.finish_deletion(conversation_id):
            return False
        is_done = await self.files.forget(conversation_id)
        if self.search is not None:
            await self.search.forget(conversation_id)
        async for chunk in self.blobs.list(folder_of(await self.archive.id(), conversation_id)):
            for id_, s3_ref in filter(None, (parse_name(blob.name) for blob in chunk)):
                if id_ == conversation_id:
                    await self._segment(term, conversation_id, s3_ref, done)
                    is_done &= not await self._rows(conversation_id, s3_ref)
        return is_done or bool(await self.conversations.heads([conversation_id]))

    async def _segment(self, term: Term, conversation_id: str, s3_ref: str, done: Rechecked) -> bool:
        """Settle one segment. Raises Damaged, Missing: rows refer to a segment that cannot be read."""
        if parse_ref(s3_ref).fence > await term.fence():
            return False  # a later archiver wrote it: this term is over, as the next step will show
        for attempt in range(bounds.ARCHIVE_RECHECK_ROUNDS):
            rows = await self._rows(conversation_id, s3_ref)
            if not rows:
                if not attempt:
                    with suppress(Damaged, Missing):  # then the daily sweep finds the files
                        await self._check_files(await self.segments.read(conversation_id, s3_ref), {})
                await self._delete(conversation_id, s3_ref)
                done.deleted += 1
                return True
            segment = await self.segments.read(conversation_id, s3_ref)
            contents = _contents_of(segment, rows)
            if len(contents) == len(segment.contents):
                return True
            await self._check_files(segment, contents)
            await self.writer.write(term, conversation_id, rows, contents)
            self.count("rewrites", 1)
            done.rewritten += 1
        return False

    async def _check_files(self, segment: Segment, kept: Mapping[int, Content]) -> None:
        """Delete the files of contents that leave the segment, unless their message still exists."""
        left = [content for seq_no, content in segment.contents.items() if seq_no not in kept]
        if file_ids := [file.file_id for content in left for file in content.files]:
            await self.files.check(segment.conversation_id, file_ids)

    async def _rows(self, conversation_id: str, s3_ref: str) -> list[Entry]:
        ref = parse_ref(s3_ref)
        rows: list[Entry] = []
        after = ref.first - 1
        while page := await self.log.page(
            conversation_id, after=after, before=ref.last + 1, limit=bounds.ARCHIVE_PAGE, newest_first=False
        ):
            rows += [entry for entry in page if entry.s3_ref == s3_ref]
            after = page[-1].seq_no
        return rows

    async def _delete(self, conversation_id: str, s3_ref: str) -> None:
        await self.blobs.delete(name_of(await self.archive.id(), conversation_id, s3_ref))
        self.count("deletions", 1)

    async def _check(self, term: Term, blob: Blob, done: Rechecked) -> None:
        """Check one object. As a rule the first entry of its range refers to it, so one row is read."""
        named = parse_name(blob.name)
        if named is None or parse_ref(named[1]).fence >= await term.fence():
            return
        conversation_id, s3_ref = named
        first = parse_ref(s3_ref).first
        found = await self.log.page(conversation_id, after=first - 1, before=first + 1, limit=1, newest_first=False)
        if not found or found[0].s3_ref != s3_ref:
            await self._settle(term, new_recheck(self.clock, conversation_id, s3_ref, "writing"), done)

    async def _restore(self, term: Term, rows: Sequence[Entry], s3_ref: str, done: Rechecked) -> None:
        """The recheck comes first: after a crash in the middle, the segment is settled like any other."""
        conversation_id = rows[0].conversation_id
        await self.archive.put_recheck(new_recheck(self.clock, conversation_id, s3_ref, "rewritten"))
        try:
            contents = _contents_of(await self.segments.get(conversation_id, s3_ref), rows)
        except (Damaged, Missing):
            return  # the recheck reports it
        moves = [
            Move(seq_no=row.seq_no, rev=row.rev, from_ref=s3_ref, to_ref=None, content=contents[row.seq_no])
            for row in rows
        ]
        done.restored += len(await self.archive.move(await term.fence(), conversation_id, moves))


def _contents_of(segment: Segment, rows: Sequence[Entry]) -> dict[int, Content]:
    """Raise Damaged where a row refers to a content that is not there."""
    try:
        return {row.seq_no: segment.contents[row.seq_no] for row in rows}
    except KeyError as error:
        raise Damaged(f"it has no text for entry {error}") from None
