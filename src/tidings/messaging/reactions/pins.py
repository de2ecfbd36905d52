"""Pins: messages that members of a conversation put on top for everybody, PINS_MAX at most.

A pin is an entry of kind pin, which counts for nobody. Its commit also changes the summary of the message and the one
record that lists the pins of the conversation. So the list never has more than PINS_MAX messages, whoever pins at the
same time, and whoever applies the log in its order ends with the same list. To pin twice is to pin once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tidings.clock import Clock
from tidings.errors import Problem, TooLarge
from tidings.messaging.access import Access, seen_by
from tidings.messaging.log import Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.lanes import Sends
from tidings.messaging.summaries import NOTHING, Summaries, key_of, place_of, put_of
from tidings.model import Beside, Content, Entry, digest_of
from tidings.stores.tables.records import Put, RecordKey, Records, of_conversation

PINS = "pins"  # the collection and the name of the record
PINS_MAX = 100  # protocol: pinned messages of one conversation


class Pin(msgspec.Struct, frozen=True):
    seq_no: int
    user_id: str  # the member who pinned it
    pinned_ms: int


class PinList(msgspec.Struct, frozen=True):
    """The pins of a conversation, in the order in which they were set, as of the entry at last_seq."""

    pins: tuple[Pin, ...] = ()
    last_seq: int = 0


class PinnedEntry(msgspec.Struct, frozen=True):
    """A pinned message as its log has it now. `is_hidden`: the reader has blocked its sender."""

    entry: Entry
    pin: Pin
    is_hidden: bool
    beside: Beside | None


class _NothingChanges(Problem):
    """The message is pinned, or not pinned, already. It never reaches a client."""

    code = "conflict"


class PinEntry:
    """The companion of a pin: the summary of the message and the list of its conversation."""

    def __init__(
        self, summaries: Summaries, records: Records, log: Log, place: tuple[str, int], user_id: str, *, is_on: bool
    ) -> None:
        self._summaries = summaries
        self._records = records
        self._log = log
        self._place = place
        self._user_id = user_id
        self._is_on = is_on
        self._list_key = RecordKey(of_conversation(place[0]), PINS, PINS)
        self.keys = frozenset((key_of(*place), self._list_key))
        self._summary, self._summary_version = NOTHING, 0
        self._list, self._list_version = PinList(), 0
        self._others: tuple[Pin, ...] = ()

    @property
    def last_seq(self) -> int:
        return self._list.last_seq

    async def read(self) -> None:
        """Read the records, and refuse a pin too many. Raises _NothingChanges, TooLarge."""
        conversation_id, seq_no = self._place
        (self._summary, self._summary_version), (self._list, self._list_version) = await asyncio.gather(
            self._summaries.read(conversation_id, seq_no), read_pins(self._records, conversation_id)
        )
        if self._summary.is_pinned == self._is_on:
            raise _NothingChanges()
        self._others = tuple(pin for pin in self._list.pins if pin.seq_no != seq_no)
        if self._is_on and len(self._others) >= PINS_MAX:
            found = await asyncio.gather(*(self._log.entry(conversation_id, pin.seq_no) for pin in self._others))
            gone = {entry.seq_no for entry in found if entry is not None and entry.is_deleted}
            self._others = tuple(pin for pin in self._others if pin.seq_no not in gone)
            if not gone:
                raise TooLarge(f"a conversation has at most {PINS_MAX} pinned messages")

    def puts(self, entry: Entry) -> Sequence[Put]:
        added = (Pin(self._place[1], self._user_id, entry.sent_ms),) if self._is_on else ()
        pins = msgspec.json.encode(PinList((*self._others, *added), entry.seq_no))
        summary = msgspec.structs.replace(self._summary, is_pinned=self._is_on)
        return [
            put_of(key_of(*self._place), summary, self._summary_version),
            Put(*self._list_key, pins, expected=self._list_version),
        ]


@dataclass(eq=False, repr=False)
class Pins:
    access: Access
    blocks: Blocks
    summaries: Summaries
    records: Records
    log: Log
    sends: Sends
    clock: Clock

    async def set(self, user_id: str, conversation_id: str, seq_no: int, *, is_on: bool) -> Beside:
        """Pin a message or take the pin away, and answer what is beside the message then. Raises Problem."""
        member_list = await self.summaries.target(user_id, conversation_id, seq_no, "write")
        if member_list.head.kind == "direct":
            await self.blocks.load([user_id])
            self.blocks.check_direct(member_list, user_id)
        place = conversation_id, seq_no
        companion = PinEntry(self.summaries, self.records, self.log, place, user_id, is_on=is_on)
        try:
            await companion.read()
            await self.sends.complete(
                Draft(
                    sender_id=user_id,
                    conversation_id=conversation_id,
                    message_id=self.clock.random_id(),
                    kind="pin",
                    content=Content(pinned=is_on),
                    target_seq=seq_no,
                    companion=companion,
                    is_paid=True,
                    plain_digest=digest_of(None, f"pin {seq_no} {is_on}\0"),
                )
            )
            await self.summaries.committed(conversation_id)
        except _NothingChanges:
            pass
        return (await self.summaries.read(conversation_id, seq_no))[0].seen_by(user_id)

    async def all(self, user_id: str, conversation_id: str) -> list[PinnedEntry]:
        """The pinned messages that the user may see, the latest pinned first. Raises NotFound."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        start = member_list.visible_after(user_id)
        pins = (await read_pins(self.records, conversation_id))[0].pins
        shown = [pin for pin in reversed(pins) if pin.seq_no > start]
        found = await asyncio.gather(*(self.log.entry(conversation_id, pin.seq_no) for pin in shown))
        beside = await self.summaries.beside_each(user_id, filter(None, found))
        blocked, now_ms = await self.blocks.blocked_by(user_id), self.clock.now_ms()
        return [
            PinnedEntry(entry, pin, entry.sender_id in blocked, beside.get(place_of(entry)))
            for pin, entry in zip(shown, found, strict=True)
            if entry is not None and _is_shown(seen_by(user_id, entry, now_ms))
        ]


def _is_shown(entry: Entry) -> bool:
    return not entry.is_deleted and not entry.is_void


async def read_pins(records: Records, conversation_id: str) -> tuple[PinList, int]:
    """The pins of a conversation and the version of their record."""
    record = (await records.get(of_conversation(conversation_id), PINS, [PINS])).get(PINS)
    if record is None:
        return PinList(), 0
    return msgspec.json.decode(record.value, type=PinList), record.version
