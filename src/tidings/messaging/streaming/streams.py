"""Streams: a message is written piece by piece, and its readers see every piece.

The begin is a message like any other: numbered, counted once, routed. The end is an edit entry that brings the whole
text. The pieces between go to the members who are connected, and to the record of the stream now and then (texts.py).
The record is put in the commit of the begin and goes in the commit of the end, so a stream ends once, whoever ends it.
A record without a new piece for STREAM_IDLE_END_S is due: any node ends that stream as interrupted, with its text.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import msgspec

from tidings.clock import Clock
from tidings.errors import BadRequest, Conflict, IdConflict, NotFound, Problem, StoreUnavailable, TooLarge, cause_of
from tidings.messaging.access import Access
from tidings.messaging.log import entry_at
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.send.draft import Answer, Companions, Draft
from tidings.messaging.send.lanes import Sends
from tidings.messaging.streaming import bounds
from tidings.messaging.streaming.texts import STREAMS, LiveTexts, Written, from_value, key_of, to_value
from tidings.model import Entry, Sent, StreamState, digest_of
from tidings.pushes import MessageAppended
from tidings.routing.router import Router
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Put, Record, RecordKey, Records
from tidings.tasks import Loop, Recent

log = logging.getLogger("tidings.streams")
Key = tuple[str, str, str]  # conversation, sender, message_id
_BEGIN_AGAIN = "no such message is being written here; send `message.begin` again"


class Began(NamedTuple):
    """The answer to a begin. `offset`: the characters that are safe; the author goes on from there."""

    sent: Sent
    offset: int


class _Begin:
    """Companion of a begin: the record of the stream is put in the same commit."""

    last_seq = 0  # any order of the entries will do

    def __init__(self, records: Records, key: RecordKey, now_ms: Callable[[], int]) -> None:
        self._records = records
        self._key = key
        self._now_ms = now_ms
        self._version = 0

    @property
    def keys(self) -> frozenset[RecordKey]:
        return frozenset((self._key,))

    async def read(self) -> None:
        found = await self._records.get(self._key.owner, STREAMS, [self._key.name])
        self._version = found[self._key.name].version if found else 0

    def puts(self, entry: Entry) -> Sequence[Put]:
        assert entry.content is not None
        written = Written(entry.sender_id or "", entry.message_id or "", entry.seq_no, entry.content.text or "")
        return (_put(self._key, written, self._version, _idle_until(self._now_ms())),)


class _End:
    """Companion of an end: the record goes in the same commit, so of two ends one is stored."""

    last_seq = 0  # any order of the entries will do

    def __init__(self, records: Records, record: Record) -> None:
        self._records = records
        self._key = record.key
        self._version = record.version

    @property
    def keys(self) -> frozenset[RecordKey]:
        return frozenset((self._key,))

    async def read(self) -> None:
        found = await self._records.get(self._key.owner, STREAMS, [self._key.name])
        if not found:
            raise NotFound("this message has ended")
        self._version = found[self._key.name].version

    def puts(self, entry: Entry) -> Sequence[Put]:
        return (Put(*self._key, None, expected=self._version),)


class Stream:
    """A message that an author connected to this node is writing."""

    __slots__ = (
        "at",
        "is_for_sender",
        "is_pushing",
        "key",
        "origin",
        "pushed",
        "saved",
        "seq_no",
        "size_bytes",
        "text",
        "version",
    )

    def __init__(self, key: Key, seq_no: int, text: str, version: int, origin: str | None, now_s: float) -> None:
        self.key = key
        self.seq_no = seq_no
        self.text = text
        self.size_bytes = len(text.encode())
        self.version = version  # of its record
        self.origin = origin
        self.saved = self.pushed = len(text)  # characters
        self.is_pushing = False
        self.is_for_sender = False  # nobody else sees the message
        self.at = now_s  # when something was saved last, or began to wait

    def is_due(self, now_s: float) -> bool:
        return len(self.text) - self.saved >= bounds.STREAM_SAVE_BYTES or self.due_s() <= now_s

    def due_s(self) -> float:
        """When the text must be saved, so that the commit is over after STREAM_SAVE_S."""
        is_waiting = len(self.text) > self.saved
        return self.at + bounds.STREAM_SAVE_S - bounds.STREAM_COMMIT_S if is_waiting else inf


@dataclass(eq=False, repr=False, kw_only=True)
class Streams:
    """`rows`: the log as it is stored: a message that is written has the text of its begin there.

    `now_ms`: a time that all nodes share. A node with a wrong clock would interrupt messages of others."""

    sends: Sends
    access: Access
    blocks: Blocks
    router: Router
    rows: Messages
    records: Records
    live: LiveTexts
    clock: Clock
    now_ms: Callable[[], int]

    def __post_init__(self) -> None:
        self._streams: dict[Key, Stream] = {}
        self._written_by = Counter[str]()  # user -> how many of these
        self._ended = Recent[Key, Entry](bounds.STREAMS_MAX)  # so that a repeated end is answered as the first one
        self._look_s = 0.0
        self.loop = Loop("streams", self._pause_s, self._step, at_end=self._save_all)

    # --- the author -------------------------------------------------------------------------------

    def begin(self, draft: Draft) -> Awaitable[Began]:
        """Queue the begin at once, in the order of arrival. The answer comes when it is stored. Raises Problem."""
        assert draft.content is not None
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        draft.content = msgspec.structs.replace(draft.content, state="streaming")
        mine = _Begin(self.records, key_of(*draft.id_), self.now_ms)
        draft.companion = mine if draft.companion is None else Companions(draft.companion, mine)
        draft.reply = lambda result: None if answer.done() else answer.set_result(result)
        if len(self._streams) >= bounds.STREAMS_MAX:
            answer.set_result(TooLarge("too many messages are being written on this node"))
        elif self._written_by[draft.sender_id] >= bounds.STREAMS_PER_USER_MAX:
            answer.set_result(TooLarge("you are writing too many messages at once"))
        else:
            self.sends.submit(draft)
        return self._began(draft, answer)

    async def _began(self, draft: Draft, answer: asyncio.Future[Answer]) -> Began:
        sent = await answer
        if isinstance(sent, Problem):
            raise sent
        key, now_s = draft.id_, self.clock.monotonic_s()
        if sent.is_duplicate:
            record = await self._record(key)
            if record is None:
                await self._stored_end(key, sent.entry.seq_no)
                return Began(sent, 0)
            here, written = self._streams.get(key), from_value(record.value)
            if here is not None and here.text.startswith(written.text):
                here.version = record.version
            else:  # another node had it, or an earlier connection
                self._keep(Stream(key, written.seq_no, written.text, record.version, draft.origin, now_s))
        else:
            text = draft.content.text if draft.content is not None else None
            self._keep(Stream(key, sent.entry.seq_no, text or "", 1, draft.origin, now_s))
        self._streams[key].origin = draft.origin
        content = sent.entry.content
        self._streams[key].is_for_sender = content is not None and content.only_sender
        return Began(sent, len(self._streams[key].text))

    def append(self, key: Key, offset: int, text: str) -> int:
        """Add a piece. Never blocks. Returns the characters so far. Raises Problem."""
        stream = self._streams.get(key)
        if stream is None:
            raise NotFound(_BEGIN_AGAIN)
        there = len(stream.text)
        if offset > there:
            raise BadRequest(f"`offset` is {offset}, and {there} characters are there")
        if stream.text[offset : offset + len(text)] != text[: there - offset]:
            raise IdConflict("another text is at this offset")
        fresh = text[there - offset :]
        size_bytes = stream.size_bytes + len(fresh.encode())
        if size_bytes > bounds.STREAM_BYTES_MAX:
            raise TooLarge(f"a streamed text has {bounds.STREAM_BYTES_MAX} bytes at most")
        if fresh:
            self._grow(stream, fresh, size_bytes)
        return len(stream.text)

    async def end(self, key: Key, text: str | None) -> Sent:
        """Store the whole text, as a numbered entry. Raises Problem."""
        if key in self._ended:
            return Sent(self._ended[key], True)
        record, stream = await self._record(key), self._streams.get(key)
        if record is None:
            stored = await self._stored_end(key, stream.seq_no) if stream is not None else None
            if stored is None:
                raise NotFound("no such message is being written")
            self._drop(key)
            return stored
        if text is None and stream is None:  # the record may be behind the pieces that its author sent
            raise NotFound(_BEGIN_AGAIN)
        written = stream.text if stream is not None else ""
        try:
            sent = await self._finish(key, record, written if text is None else text, "done")
        except IdConflict:
            self._drop(key)
            raise NotFound("the message was interrupted") from None
        self._ended.put(key, _without_text(sent.entry))
        return sent

    async def _stored_end(self, key: Key, seq_no: int) -> Sent | None:
        """Find the end that was stored already, by any node. None: the message was interrupted, or is gone."""
        target = await entry_at(self.rows, key[0], seq_no)
        if target is None or target.content is None or target.content.state != "done" or target.edit_seq is None:
            return None
        end = await entry_at(self.rows, key[0], target.edit_seq)
        if end is None:
            return None
        self._ended.put(key, _without_text(end))
        return Sent(end, True)

    # --- the readers ------------------------------------------------------------------------------

    def _grow(self, stream: Stream, fresh: str, size_bytes: int) -> None:
        if stream.saved == len(stream.text):
            stream.at = self.clock.monotonic_s()
        stream.text += fresh
        stream.size_bytes = size_bytes
        self.live.texts[stream.key[0], stream.seq_no] = stream.text
        if len(stream.text) - stream.saved >= bounds.STREAM_SAVE_BYTES:
            self.loop.nudge()
        if not stream.is_pushing:
            stream.is_pushing = True
            member_list = self.access.cached(stream.key[0])
            is_large = member_list is not None and len(member_list.members) > bounds.STREAM_LARGE_MEMBERS
            pause_s = bounds.STREAM_PUSH_LARGE_S if is_large else bounds.STREAM_PUSH_S
            asyncio.get_running_loop().call_later(pause_s, self._push, stream)

    def _push(self, stream: Stream) -> None:
        """Push what came in the last moment to every member who is connected, on any node."""
        stream.is_pushing = False
        conversation_id, sender_id, message_id = stream.key
        member_list, offset = self.access.cached(conversation_id), stream.pushed
        stream.pushed = len(stream.text)
        if member_list is None or offset == stream.pushed:
            return  # the readers find the text with the next read
        event = MessageAppended(conversation_id, stream.seq_no, message_id, offset, stream.text[offset:])
        is_limited, blockers = member_list.head.history == "joined", self.blocks.blockers(sender_id)
        for user_id, member in member_list.members.items():
            is_meant = user_id == sender_id or not stream.is_for_sender
            if is_meant and user_id not in blockers and not (is_limited and stream.seq_no <= member.joined_seq):
                self.router.push(user_id, event, but=stream.origin)

    # --- the record -------------------------------------------------------------------------------

    def _pause_s(self) -> float:
        first_s = min((stream.due_s() for stream in self._streams.values()), default=inf)
        return min(bounds.STREAM_LOOK_S, max(bounds.STREAM_REST_S, first_s - self.clock.monotonic_s()))

    async def _step(self) -> None:
        now_s = self.clock.monotonic_s()
        await asyncio.gather(*(self._save(one) for one in list(self._streams.values()) if one.is_due(now_s)))
        if now_s >= self._look_s:
            self._look_s = now_s + bounds.STREAM_DUE_S * (0.5 + self.clock.random_fraction())
            await self.interrupt_idle()

    async def _save(self, stream: Stream) -> None:
        """Write the text so far. A stream that another node has taken up is no longer ours."""
        text, key, version, now_s = stream.text, key_of(*stream.key), stream.version, self.clock.monotonic_s()
        written = Written(stream.key[1], stream.key[2], stream.seq_no, text)
        try:
            await self.records.put([_put(key, written, version, _idle_until(self.now_ms()))])
        except Conflict:
            self._drop(stream.key)
            return
        stream.version = version + 1
        stream.saved, stream.at = len(text), now_s

    async def _save_all(self) -> None:
        for stream in [one for one in self._streams.values() if one.saved < len(one.text)]:
            await self._save(stream)

    async def interrupt_idle(self) -> int:
        """End the streams to which nobody has added for a while. Returns how many."""
        ended = 0
        for record in await self.records.due(STREAMS, until_ms=self.now_ms(), limit=bounds.STREAMS_DUE_MAX):
            written = from_value(record.value)
            key = (record.owner.partition(":")[2], written.sender_id, written.message_id)
            stream = self._streams.get(key)
            if stream is not None and stream.saved < len(stream.text):
                await self._save(stream)
                continue
            try:
                await self._finish(key, record, written.text, "interrupted")
                ended += 1
            except Problem as problem:
                if not problem.is_temporary:
                    await self._mark_interrupted(record, written, problem)
        return ended

    async def _mark_interrupted(self, record: Record, written: Written, problem: Problem) -> None:
        """Nobody may write the end: its author has left, or was removed. The record keeps text and state."""
        log.info("stream ends without an entry", extra=cause_of(problem, seq=written.seq_no))
        kept = msgspec.structs.replace(written, state="interrupted")
        try:
            await self.records.put([_put(record.key, kept, record.version, None)])
        except Conflict:
            return  # it has ended, or goes on

    async def _finish(self, key: Key, record: Record, text: str, state: StreamState) -> Sent:
        conversation_id, sender_id, message_id = key
        seq_no = from_value(record.value).seq_no
        target = await entry_at(self.rows, conversation_id, seq_no)
        if target is None or target.is_deleted:
            await self.records.put([Put(*record.key, None)])
            self._drop(key)
            raise NotFound("no such message")
        if target.content is None:
            raise StoreUnavailable("the beginning of the message is archived, and cannot be read")
        draft = Draft(
            sender_id=sender_id,
            conversation_id=conversation_id,
            message_id=end_id(message_id),
            kind="edit",
            content=msgspec.structs.replace(target.content, text=text, state=state),
            target=target,
            plain_digest=digest_of(None, f"{state} {seq_no}\0"),  # an interruption is not answered as an end
            companion=_End(self.records, record),
        )
        sent = await self.sends.complete(draft)
        self._drop(key)
        if draft.refusal is not None and state == "done":
            raise draft.refusal
        return sent

    async def _record(self, key: Key) -> Record | None:
        place = key_of(*key)
        return (await self.records.get(place.owner, STREAMS, [place.name])).get(place.name)

    def _keep(self, stream: Stream) -> None:
        self._drop(stream.key)
        self._written_by[stream.key[1]] += 1
        self._streams[stream.key] = stream
        self.live.texts[stream.key[0], stream.seq_no] = stream.text

    def _drop(self, key: Key) -> None:
        if (stream := self._streams.pop(key, None)) is not None:
            self.live.texts.pop((key[0], stream.seq_no), None)
            self._written_by[key[1]] -= 1
            if not self._written_by[key[1]]:
                del self._written_by[key[1]]


def _without_text(end: Entry) -> Entry:
    """An answer has only the place of the end: thousands of long texts would be hundreds of megabytes."""
    return msgspec.structs.replace(end, content=None)


def end_id(message_id: str) -> str:
    """The id of the end entry: the same for every try."""
    return "end-" + hashlib.sha256(message_id.encode()).hexdigest()[:32]


def _put(key: RecordKey, written: Written, version: int, due_ms: int | None) -> Put:
    return Put(*key, to_value(written), expected=version, due_ms=due_ms)


def _idle_until(now_ms: int) -> int:
    return now_ms + round(bounds.STREAM_IDLE_END_S * 1000)
