"""Reading from the cold tier: `ReadThrough` is the log, with the texts that moved to segments filled in.

A text comes from a segment only if the row refers to it and the checksum holds; otherwise the entry is shown as
unavailable and reported, and never with another text. Segments never change, so decoded ones stay in a bounded cache,
and readers that want the same segment at the same moment share one read. The caller has checked who may read: history,
resume, deliver and push read through here. A send never waits for the blobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Missing, StoreError, Unavailable, cause_of
from tidings.messaging.archive.segment import Damaged, Segment, name_of, size_of, unpack
from tidings.model import Entry
from tidings.stores.blobs.ports import Blobs
from tidings.stores.tables.cold import Archive
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.values import Recheck, Why
from tidings.tasks import Recent, SingleFlight

log = logging.getLogger("tidings.archive")

Count = Callable[[str, int], None]
Key = tuple[str, str]  # conversation_id, s3_ref
_INLINE_BYTES = 32 * 1024  # a smaller object is decoded faster than another thread starts
_ENTRY_BYTES = 140  # of a content in memory, besides its own bytes


def new_recheck(clock: Clock, conversation_id: str, s3_ref: str, why: Why) -> Recheck:
    """`mark` is a random token: only the recheck that was read is removed, never a later one."""
    mark = clock.random_id(8)
    return Recheck(conversation_id=conversation_id, s3_ref=s3_ref, why=why, mark=mark, since_ms=clock.now_ms())


class Segments:
    """Segments by their reference, read from the blobs and checked."""

    def __init__(self, blobs: Blobs, archive_id: Callable[[], Awaitable[str]], count: Count) -> None:
        self._blobs = blobs
        self._archive_id = archive_id
        self._count = count
        self._kept: OrderedDict[Key, tuple[Segment, int]] = OrderedDict()
        self._kept_bytes = 0
        self._fetching = SingleFlight(self._fetch)

    async def read(self, conversation_id: str, s3_ref: str) -> Segment:
        """Read the segment from the blobs. Raises Missing, Damaged, Unavailable."""
        data = await self._blobs.get(name_of(await self._archive_id(), conversation_id, s3_ref))
        if len(data) <= _INLINE_BYTES:
            return unpack(conversation_id, s3_ref, data)
        return await asyncio.to_thread(unpack, conversation_id, s3_ref, data)

    def kept(self, key: Key) -> Segment | None:
        """The segment, if it is in the cache."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        self._count("cache_hits", 1)
        return found[0]

    async def get(self, conversation_id: str, s3_ref: str) -> Segment:
        """Read the segment from the cache, or share one read of the blobs within COLD_READ_S."""
        if (kept := self.kept((conversation_id, s3_ref))) is not None:
            return kept
        return await self._fetching(conversation_id, s3_ref)

    async def _fetch(self, conversation_id: str, s3_ref: str) -> Segment:
        try:
            async with asyncio.timeout(bounds.COLD_READ_S):
                segment = await self.read(conversation_id, s3_ref)
        except TimeoutError:
            raise Unavailable(f"no answer within {bounds.COLD_READ_S:g} s", store="blobs", op="get") from None
        self._count("reads", 1)
        self._keep((conversation_id, s3_ref), segment)
        return segment

    def _keep(self, key: Key, segment: Segment) -> None:
        size_bytes = sum(size_of(content) + _ENTRY_BYTES for content in segment.contents.values())
        self._kept[key] = segment, size_bytes
        self._kept_bytes += size_bytes
        while self._kept_bytes > bounds.SEGMENT_CACHE_BYTES_MAX:
            _, (_, oldest_bytes) = self._kept.popitem(last=False)
            self._kept_bytes -= oldest_bytes


class ReadThrough:
    """The Messages port over another one. A page includes the texts from segments."""

    def __init__(self, messages: Messages, segments: Segments, rechecks: Archive, clock: Clock, count: Count) -> None:
        self._messages = messages
        self._segments = segments
        self._rechecks = rechecks
        self._clock = clock
        self._count = count
        self._damaged = Recent[Key, float](
            bounds.DAMAGED_KNOWN_MAX
        )  # segment -> end of the time in which it is not read again
        self.append = messages.append
        self.catch_up = messages.catch_up
        self.top = messages.top
        self.unread = messages.unread
        self.seq_at = messages.seq_at

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        read = partial(
            self._messages.page, conversation_id, after=after, before=before, limit=limit, newest_first=newest_first
        )
        entries = await read()
        missing: set[str] = set()
        for _ in range(bounds.COLD_TRIES_MAX):
            refs = {entry.s3_ref for entry in entries if entry.s3_ref is not None}
            if not refs:
                return entries
            found = await self._each(conversation_id, refs)
            gone = {ref for ref, segment in found.items() if isinstance(segment, Missing)}
            if gone <= missing:
                break
            # Its messages may have moved to another segment after the rows were read.
            missing |= gone
            entries = await read()
        return await self._filled(conversation_id, entries, found)

    async def _each(self, conversation_id: str, refs: set[str]) -> dict[str, Segment | Missing | Damaged]:
        """Take segments from the cache, and read the others side by side. Raises Unavailable."""
        found: dict[str, Segment | Missing | Damaged] = {}
        for ref in refs:
            if (segment := self._segments.kept((conversation_id, ref))) is not None:
                found[ref] = segment
        wanted = [ref for ref in refs if ref not in found]
        if wanted:
            read = await asyncio.gather(*(self._one((conversation_id, ref)) for ref in wanted))
            found |= zip(wanted, read, strict=True)
        return found

    async def _one(self, key: Key) -> Segment | Missing | Damaged:
        if self._damaged.get(key, 0.0) > self._clock.monotonic_s():
            return Damaged("it was damaged a moment ago")
        try:
            return await self._segments.get(*key)
        except (Missing, Damaged) as error:
            return error

    async def _filled(
        self, conversation_id: str, entries: Sequence[Entry], found: dict[str, Segment | Missing | Damaged]
    ) -> list[Entry]:
        for ref in {entry.s3_ref for entry in entries if entry.s3_ref is not None}:
            segment = found.get(ref)
            if not isinstance(segment, Segment):
                await self._report((conversation_id, ref), segment or Missing("the segment keeps moving"))
        return [_fill(entry, found.get(entry.s3_ref)) if entry.s3_ref is not None else entry for entry in entries]

    async def _report(self, key: Key, error: Exception) -> None:
        """Report it once in a while: the archiver checks it again, and `tidings archive status` shows it."""
        now_s = self._clock.monotonic_s()
        if self._damaged.get(key, 0.0) > now_s:
            return
        known_s = bounds.MISSING_KNOWN_S if isinstance(error, Missing) else bounds.DAMAGED_KNOWN_S
        self._damaged.put(key, now_s + known_s)
        self._count("missing" if isinstance(error, Missing) else "damaged", 1)
        log.error("segment not readable", extra=cause_of(error, conversation_id=key[0], s3_ref=key[1]))
        try:
            await self._rechecks.put_recheck(new_recheck(self._clock, *key, "damaged"), only_new=True)
        except StoreError as trouble:
            log.warning("recheck not recorded", extra=cause_of(trouble, conversation_id=key[0], s3_ref=key[1]))


def _fill(entry: Entry, segment: Segment | Missing | Damaged | None) -> Entry:
    content = segment.contents.get(entry.seq_no) if isinstance(segment, Segment) else None
    if content is None:
        return msgspec.structs.replace(entry, is_unavailable=True)
    return msgspec.structs.replace(entry, content=content)
