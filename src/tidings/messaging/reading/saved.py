"""Saved messages: a user's own list of messages to come back to, the latest saved first.

Nobody else learns of it, and no entry is written. A saved message is two records of the user: one by its place, so
that it is saved once, and one by the time, so that a page is a range of names. Both change together. The list only
points to messages: the log decides what is shown, so a message that the user may no longer see is left out.
"""

from __future__ import annotations

import asyncio

import msgspec

from tidings.bounds import PAGE_DEFAULT
from tidings.clock import Clock
from tidings.cursors import cursor_of, place_at
from tidings.errors import Conflict, NotFound
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.reading.history import History
from tidings.messaging.summaries import Summaries, place_of
from tidings.model import Beside, Entry
from tidings.stores.tables.records import Put, Record, Records, of_user, seq_name

PLACES = "saved"  # by conversation and number; the value is the name of the other record
TIMES = "saved_times"  # by time; the name says everything


class SavedEntry(msgspec.Struct, frozen=True):
    """A saved message, as its log has it now. `is_hidden`: the user has blocked its sender."""

    entry: Entry
    saved_ms: int
    is_hidden: bool
    beside: Beside | None


class Saved:
    def __init__(self, history: History, summaries: Summaries, blocks: Blocks, records: Records, clock: Clock) -> None:
        self._history = history
        self._summaries = summaries
        self._blocks = blocks
        self._records = records
        self._clock = clock

    async def put(self, user_id: str, conversation_id: str, seq_no: int) -> None:
        """Save a message that the user may see. Twice is once, and keeps its first time. Raises NotFound."""
        await self._summaries.target(user_id, conversation_id, seq_no, "read")
        owner, place = of_user(user_id), _place(conversation_id, seq_no)
        time = f"{self._clock.now_ms():015d} {place}"
        try:
            await self._records.put(
                [Put(owner, PLACES, place, msgspec.json.encode(time), expected=0), Put(owner, TIMES, time, b"null")]
            )
        except Conflict:
            return  # it is saved already

    async def remove(self, user_id: str, conversation_id: str, seq_no: int) -> None:
        """Take a message from the list. It need not be there, and the user may have left its conversation."""
        owner, place = of_user(user_id), _place(conversation_id, seq_no)
        while (record := (await self._records.get(owner, PLACES, [place])).get(place)) is not None:
            removals = [
                Put(*record.key, None, expected=record.version),
                Put(owner, TIMES, msgspec.json.decode(record.value, type=str), None),
            ]
            try:
                return await self._records.put(removals)
            except Conflict:
                continue  # another device was first, and may have saved it again

    async def page(self, user_id: str, cursor: str | None = None) -> tuple[list[SavedEntry], str | None]:
        """A page, and the cursor of the next one. It may be short, even empty: see the cursor. Raises BadCursor."""
        found = await self._records.page(
            of_user(user_id),
            TIMES,
            before=place_at(cursor, str) if cursor is not None else "",
            limit=PAGE_DEFAULT + 1,
            newest_first=True,
        )
        shown = found[:PAGE_DEFAULT]
        blocked = await self._blocks.blocked_by(user_id)
        entries = await asyncio.gather(*(self._entry(user_id, record) for record in shown))
        beside = await self._summaries.beside_each(user_id, filter(None, entries))
        saved = [
            SavedEntry(entry, _parts(record.name)[0], entry.sender_id in blocked, beside.get(place_of(entry)))
            for record, entry in zip(shown, entries, strict=True)
            if entry is not None
        ]
        return saved, cursor_of(shown[-1].name) if len(found) > len(shown) else None

    async def _entry(self, user_id: str, record: Record) -> Entry | None:
        _, conversation_id, seq_no = _parts(record.name)
        try:
            entry = await self._history.entry(user_id, conversation_id, seq_no)
        except NotFound:
            return None
        return None if entry.is_deleted else entry


def _place(conversation_id: str, seq_no: int) -> str:
    return f"{conversation_id} {seq_name(seq_no)}"


def _parts(name: str) -> tuple[int, str, int]:
    """When it was saved, the conversation and the number."""
    saved_ms, conversation_id, seq_no = name.split(" ")
    return int(saved_ms), conversation_id, int(seq_no)
