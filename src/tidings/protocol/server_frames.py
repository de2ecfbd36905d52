"""The frames that the server sends over the WebSocket: one struct each, for /asyncapi.json and the tests.

An event of the model that has the fields of its frame is the frame, with the wire's name for `type`. gateway/encode.py
makes the bytes.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from tidings import pushes
from tidings.errors import Reason
from tidings.protocol.bodies import InboxRowBody, MessageBody, SentBody


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
    total_unread: int | None
    unread_conversations: int | None
    total_mentions: int | UnsetType = UNSET
    unread_threads: int | UnsetType = UNSET


class Pong(ServerFrame, frozen=True, tag="pong"):
    id: int


class Error(ServerFrame, frozen=True, tag="error"):
    code: str
    temporary: bool
    retry_after_ms: int | None
    message: str
    id: int | UnsetType = UNSET
    reason: Reason | UnsetType = UNSET  # of `unauthorized`, only with --dev


class Draining(ServerFrame, frozen=True, tag="draining"):
    reconnect_in_ms: int


class MessageNewFrame(ServerFrame, frozen=True, tag="message.new"):
    conversation_id: str
    message: MessageBody
    unread_count: int | None
    unread_capped: bool
    total_unread: int | None
    mention_count: int | UnsetType = UNSET
    total_mentions: int | UnsetType = UNSET
    thread_unread_count: int | UnsetType = UNSET  # of a reply, to who follows its thread
    unread_threads: int | UnsetType = UNSET


class MessageAppendedFrame(pushes.MessageAppended, frozen=True, tag="message.appended"):
    pass


class ReadSyncedFrame(ServerFrame, frozen=True, kw_only=True, tag="read.synced"):
    """The counts of one conversation. After a hello without totals: the totals alone."""

    conversation_id: str | None = None
    read_seq: int | None = None
    unread_count: int | None = None
    unread_capped: bool = False
    total_unread: int | None
    unread_conversations: int | None = None
    mention_count: int | UnsetType = UNSET
    first_mention_seq: int | UnsetType = UNSET
    total_mentions: int | UnsetType = UNSET
    thread_seq: int | UnsetType = UNSET  # the counts are those of this thread
    unread_threads: int | UnsetType = UNSET


class ResumedFrame(pushes.Resumed, frozen=True, kw_only=True, tag="resumed"):
    pass


class ReceiptFrame(pushes.Receipt, frozen=True, tag="receipt"):
    pass


class ReceiptSummaryFrame(pushes.ReceiptSummary, frozen=True, tag="receipts"):
    pass


class TypingFrame(pushes.Typing, frozen=True, tag="typing"):
    pass


class PresenceFrame(pushes.Presence, frozen=True, tag="presence"):
    pass


class BlockFrame(pushes.Blocked, frozen=True, tag="block"):
    pass


class ScheduledFailedFrame(pushes.ScheduledFailed, frozen=True, tag="scheduled.failed"):
    pass


class DraftFrame(pushes.DraftChanged, frozen=True, tag="draft"):
    pass


class ConversationAddedFrame(InboxRowBody, frozen=True, tag_field="type", tag="conversation.added"):
    pass


class ConversationUpdatedFrame(InboxRowBody, frozen=True, tag_field="type", tag="conversation.updated"):
    pass


class ConversationRemovedFrame(pushes.ConversationRemoved, frozen=True, tag="conversation.removed"):
    pass


class DeviceRemovedFrame(pushes.DeviceRemoved, frozen=True, tag="device.removed"):
    pass


class Ok(ServerFrame, frozen=True, tag="ok"):
    """Beside these fields the frame has those of the REST answer to the same request."""

    id: int


class BegunBody(SentBody, frozen=True, kw_only=True):
    """The answer to `message.begin`. The author goes on from `offset`: so many characters are there."""

    offset: int


SERVER_FRAMES: tuple[type[msgspec.Struct], ...] = (
    Hello,
    Ok,
    Pong,
    Error,
    Draining,
    MessageNewFrame,
    MessageAppendedFrame,
    ReadSyncedFrame,
    ResumedFrame,
    ReceiptFrame,
    ReceiptSummaryFrame,
    TypingFrame,
    PresenceFrame,
    BlockFrame,
    ScheduledFailedFrame,
    DraftFrame,
    ConversationAddedFrame,
    ConversationUpdatedFrame,
    ConversationRemovedFrame,
    DeviceRemovedFrame,
)
