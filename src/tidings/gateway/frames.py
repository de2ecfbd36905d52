"""What the server says over the WebSocket: answers and events as bytes.

`EventEncoder` is on the hot path: the MESSAGE of an entry is encoded once and spliced into the frame of every member,
because only the counts differ. The structs below are the same frames for whoever reads them: /asyncapi.json, clients
and the tests, which decode each encoded frame with its struct. connection.py is the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidings import model
from tidings.errors import Problem
from tidings.gateway.bodies import InboxRowBody, MessageBody, inbox_row_of, message_of
from tidings.model import Entry, Event, MessageNew

ENTRIES_CACHED_MAX = 64  # a batch pushes an entry to all its members within moments; older ones come no more

_encode = msgspec.json.Encoder().encode
_MOMENTARY = frozenset((model.Typing, model.Presence))


class ServerFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class Hello(ServerFrame, frozen=True, tag="hello"):
    id: int | None
    protocol: int
    user_id: str
    connection_id: str
    server_time: int
    server_version: str
    store_epoch: str
    ping_interval_ms: int
    total_unread: int
    unread_conversations: int


class Pong(ServerFrame, frozen=True, tag="pong"):
    id: int


class Error(ServerFrame, frozen=True, tag="error"):
    code: str
    temporary: bool
    retry_after_ms: int | None
    message: str
    id: int | msgspec.UnsetType = msgspec.UNSET


class Draining(ServerFrame, frozen=True, tag="draining"):
    reconnect_in_ms: int


class MessageNewFrame(ServerFrame, frozen=True, tag="message.new"):
    conversation_id: str
    message: MessageBody
    unread_count: int | None
    unread_capped: bool
    total_unread: int | None


class ReadSyncedFrame(ServerFrame, frozen=True, tag="read.synced"):
    conversation_id: str
    read_seq: int
    unread_count: int | None
    total_unread: int | None
    unread_capped: bool


class ResumedFrame(ServerFrame, frozen=True, tag="resumed"):
    conversation_id: str
    from_seq: int
    to_seq: int
    complete: bool
    reset: bool
    read_seq: int
    unread_count: int | None
    delivered_all_seq: int
    read_all_seq: int


class ReceiptFrame(ServerFrame, frozen=True, tag="receipt"):
    conversation_id: str
    user_id: str
    delivered_seq: int
    read_seq: int


class TypingFrame(ServerFrame, frozen=True, tag="typing"):
    conversation_id: str
    user_id: str
    typing: bool


class PresenceFrame(ServerFrame, frozen=True, tag="presence"):
    user_id: str
    online: bool
    last_seen: int | None


class ConversationAddedFrame(InboxRowBody, frozen=True, tag_field="type", tag="conversation.added"):
    pass


class ConversationUpdatedFrame(InboxRowBody, frozen=True, tag_field="type", tag="conversation.updated"):
    pass


class ConversationRemovedFrame(ServerFrame, frozen=True, tag="conversation.removed"):
    conversation_id: str


class Ok(ServerFrame, frozen=True, tag="ok"):
    """Beside these: the fields of the REST answer to the same request."""

    id: int


SERVER_FRAMES: tuple[type[msgspec.Struct], ...] = (
    Hello,
    Ok,
    Pong,
    Error,
    Draining,
    MessageNewFrame,
    ReadSyncedFrame,
    ResumedFrame,
    ReceiptFrame,
    TypingFrame,
    PresenceFrame,
    ConversationAddedFrame,
    ConversationUpdatedFrame,
    ConversationRemovedFrame,
)


def encode_frame(frame: msgspec.Struct) -> bytes:
    return _encode(frame)


def encode_ok(frame_id: int, body: msgspec.Struct | None = None) -> bytes:
    """`ok` with the fields of `body` beside the id."""
    if body is None:
        return b'{"id":%d,"type":"ok"}' % frame_id
    return b'{"id":%d,"type":"ok",%b' % (frame_id, _encode(body)[1:])


def encode_error(frame_id: int | None, problem: Problem) -> bytes:
    return _encode(
        Error(
            id=msgspec.UNSET if frame_id is None else frame_id,
            code=problem.code,
            temporary=problem.is_temporary,
            retry_after_ms=problem.retry_after_ms,
            message=str(problem),
        )
    )


def is_droppable(event: Event) -> bool:
    """What a slow reader can do without: it is true for a moment only."""
    return type(event) in _MOMENTARY


class EventEncoder:
    """Events of one node as frames; remembers the encoded MESSAGE of the last entries, and the last frame: one event
    goes to all devices of a user, one after another."""

    def __init__(self) -> None:
        # Keyed by identity: the entry is kept beside its bytes, so its address cannot be taken by another.
        self._entries: dict[int, tuple[Entry, bytes]] = {}
        self._last: tuple[Event | None, bytes] = (None, b"")

    def encode(self, event: Event) -> bytes:
        last, frame = self._last
        if event is not last:
            if isinstance(event, MessageNew):
                frame = self._message_new(event)
            else:
                frame = _encode(_FRAME_OF[type(event)](event))
            self._last = (event, frame)
        return frame

    def _message_new(self, event: MessageNew) -> bytes:
        known = self._entries.get(id(event.entry))
        start = known[1] if known is not None else self._start_of(event.entry)
        unread, total = event.unread_count, event.total_unread
        return b'%b,"unread_count":%b,"unread_capped":%b,"total_unread":%b}' % (
            start,
            b"null" if unread is None else b"%d" % unread,
            b"true" if event.unread_capped else b"false",
            b"null" if total is None else b"%d" % total,
        )

    def _start_of(self, entry: Entry) -> bytes:
        start = b'{"type":"message.new","conversation_id":%b,"message":%b' % (
            _encode(entry.conversation_id),
            _encode(message_of(entry)),
        )
        if len(self._entries) >= ENTRIES_CACHED_MAX:
            self._entries.clear()
        self._entries[id(entry)] = (entry, start)
        return start


def _read_synced(event: model.ReadSynced) -> ReadSyncedFrame:
    state = event.state
    return ReadSyncedFrame(
        conversation_id=state.conversation_id,
        read_seq=state.read_seq,
        unread_count=state.unread_count,
        total_unread=state.total_unread,
        unread_capped=state.unread_capped,
    )


def _as(frame: type[msgspec.Struct]) -> Callable[[Any], msgspec.Struct]:
    """For events whose fields are the frame's."""
    return lambda event: frame(**{name: getattr(event, name) for name in frame.__struct_fields__})


def _row_as(frame: type[msgspec.Struct]) -> Callable[[Any], msgspec.Struct]:
    return lambda event: frame(*msgspec.structs.astuple(inbox_row_of(event.item)))


_FRAME_OF: dict[type, Callable[[Any], msgspec.Struct]] = {
    model.ReadSynced: _read_synced,
    model.Resumed: _as(ResumedFrame),
    model.Receipt: _as(ReceiptFrame),
    model.Typing: _as(TypingFrame),
    model.Presence: _as(PresenceFrame),
    model.ConversationAdded: _row_as(ConversationAddedFrame),
    model.ConversationUpdated: _row_as(ConversationUpdatedFrame),
    model.ConversationRemoved: _as(ConversationRemovedFrame),
}
