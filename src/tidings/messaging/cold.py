"""Reading from the cold tier: `ReadThrough` is the log with the texts that have moved to segments put back in.

Guards: a text comes from a segment only if the row refers to it and the checksum holds; else the entry is shown as
unavailable, reported, and never with another text. Segments never change, so decoded ones are kept (a bounded cache),
and all who want one at the same moment share one read. Who may read is decided before, as for any row: history, resume,
deliver and push read through here. A send never waits for the blobs.
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
from tidings.errors import Missing, StoreError, Unavailable
from tidings.messaging.segments import Damaged, Segment, name_of, unpack
from tidings.model import Entry
from tidings.stores.ports import Messages
from tidings.stores.ports_archive import Blobs, Recheck, Rechecks

log = logging.getLogger("tidings.archive")

Count = Callable[[str, int], None]
Key = tuple[str, str]  # conversation_id, s3_ref
_INLINE_BYTES = 32 * 1024  # an object this small is decoded in the time that another thread would take to begin
_ENTRY_BYTES = 120  # of a text kept in memory, beside its characters


class Segments:
    """Segments by their reference, read from the blobs and checked."""

    def __init__(self, blobs: Blobs, archive_id: Callable[[], Awaitable[str]], count: Count) -> None:
        self._blobs = blobs
        self._archive_id = archive_id
        self._count = count
        self._kept: OrderedDict[Key, tuple[Segment, int]] = OrderedDict()
        self._kept_bytes = 0
        self._under_way: dict[Key, asyncio.Task[Segment]] = {}

    async def read(self, conversation_id: str, s3_ref: str) -> Segment:
        """From the blobs, now. Raises Missing, Damaged, Unavailable."""
        data = await self._blobs.get(name_of(await self._archive_id(), conversation_id, s3_ref))
        if len(data) <= _INLINE_BYTES:
            return unpack(conversation_id, s3_ref, data)
        return await asyncio.to_thread(unpack, conversation_id, s3_ref, data)

    def kept(self, key: Key) -> Segment | None:
        """One that was read lately."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        self._count("cache_hits", 1)
        return found[0]

    async def get(self, conversation_id: str, s3_ref: str) -> Segment:
        """The same for a reader: kept, shared with whoever wants it too, and in time."""
        key = (conversation_id, s3_ref)
        if (kept := self.kept(key)) is not None:
            return kept
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch(key), name="segment")
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._finish(key, done))
        return await asyncio.shield(task)

    async def _fetch(self, key: Key) -> Segment:
        try:
            async with asyncio.timeout(bounds.COLD_READ_S):
                segment = await self.read(*key)
        except TimeoutError:
            raise Unavailable("the blobs do not answer in time") from None
        self._count("reads", 1)
        return segment

    def _finish(self, key: Key, done: asyncio.Task[Segment]) -> None:
        del self._under_way[key]
        if done.cancelled() or done.exception() is not None:
            return
        segment = done.result()
        size_bytes = sum(len(text.encode()) + _ENTRY_BYTES for text in segment.texts.values())
        self._kept[key] = segment, size_bytes
        self._kept_bytes += size_bytes
        while self._kept_bytes > bounds.SEGMENT_CACHE_BYTES_MAX:
            _, (_, oldest_bytes) = self._kept.popitem(last=False)
            self._kept_bytes -= oldest_bytes


class ReadThrough:
    """The Messages port over another one. Texts in segments are read with the page."""

    def __init__(self, messages: Messages, segments: Segments, rechecks: Rechecks, clock: Clock, count: Count) -> None:
        self._messages = messages
        self._segments = segments
        self._rechecks = rechecks
        self._clock = clock
        self._count = count
        self._damaged: dict[Key, float] = {}  # until when it is not looked at again
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
            # Its messages may have moved to another segment since the rows were read.
            missing |= gone
            entries = await read()
        return await self._filled(conversation_id, entries, found)

    async def _each(self, conversation_id: str, refs: set[str]) -> dict[str, Segment | Missing | Damaged]:
        """What is not kept is read side by side. Raises Unavailable."""
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
            return Damaged("known to be")
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
                await self._report((conversation_id, ref), segment or Missing("it comes and goes"))
        return [_fill(entry, found.get(entry.s3_ref)) if entry.s3_ref is not None else entry for entry in entries]

    async def _report(self, key: Key, error: Exception) -> None:
        """Once in a while; the archiver looks at it again, and `tidings archive status` shows it."""
        now_s = self._clock.monotonic_s()
        if self._damaged.get(key, 0.0) > now_s:
            return
        if len(self._damaged) >= bounds.DAMAGED_KNOWN_MAX:
            self._damaged.clear()
        self._damaged[key] = now_s + bounds.DAMAGED_KNOWN_S
        self._count("missing" if isinstance(error, Missing) else "damaged", 1)
        log.error("segment %s of conversation %s cannot be read: %s", key[1], key[0], error)
        mark, since_ms = self._clock.random_id(8), self._clock.now_ms()
        recheck = Recheck(conversation_id=key[0], s3_ref=key[1], why="damaged", mark=mark, since_ms=since_ms)
        try:
            await self._rechecks.put_recheck(recheck, only_new=True)
        except StoreError as trouble:
            log.warning("a damaged segment was not noted: %s", trouble)


def _fill(entry: Entry, segment: Segment | Missing | Damaged | None) -> Entry:
    text = segment.texts.get(entry.seq_no) if isinstance(segment, Segment) else None
    if text is None:
        return msgspec.structs.replace(entry, is_unavailable=True)
    return msgspec.structs.replace(entry, text=text)
