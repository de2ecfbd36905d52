"""Pushes: the values that are pushed to a connected device.

They travel between nodes as they are (routing/bus.py). protocol/server_frames.py gives them their wire form.
"""

from __future__ import annotations

import msgspec

from tidings.model import Beside, Entry, InboxItem, ReadState, Totals

ThreadsOf = dict[int, tuple[int | None, int | None]]  # root -> unread replies, and the user's threads with unread ones


class MessageNew(msgspec.Struct, frozen=True, gc=False, tag=True):
    entry: Entry
    unread_count: int | None
    unread_capped: bool
    total_unread: int | None
    mention_count: int | None = None
    total_mentions: int | None = None
    threads: ThreadsOf | None = None  # the threads of its batch that the reader follows
    is_hidden: bool = False  # its sender is blocked by the reader
    beside: Beside | None = None  # of a message that is replayed, where there is something


class MessageAppended(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The next piece of a message that is being written. `offset` counts characters."""

    conversation_id: str
    seq: int
    message_id: str
    offset: int
    text: str


class ReadSynced(msgspec.Struct, frozen=True, gc=False, tag=True):
    state: ReadState


class TotalsSynced(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The totals that a hello left out, because the inbox was being rebuilt."""

    totals: Totals


class Resumed(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag=True, omit_defaults=True):
    """The answer for one conversation of a `resume`. Where it is not complete, history goes on after to_seq."""

    conversation_id: str
    from_seq: int
    to_seq: int
    complete: bool
    reset: bool
    read_seq: int
    unread_count: int | None
    delivered_all_seq: int
    read_all_seq: int
    mention_count: int = 0
    first_mention_seq: int | None = None


class Receipt(msgspec.Struct, frozen=True, gc=False, tag=True):
    conversation_id: str
    user_id: str
    delivered_seq: int
    read_seq: int


class ReceiptSummary(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The receipts of a large conversation, to the sender of `seq`: counts of that message, and the lowest marks."""

    conversation_id: str
    seq: int
    delivered_count: int
    read_count: int
    delivered_all_seq: int
    read_all_seq: int


class Typing(msgspec.Struct, frozen=True, gc=False, tag=True):
    conversation_id: str
    user_id: str
    typing: bool


class Presence(msgspec.Struct, frozen=True, gc=False, tag=True):
    user_id: str
    online: bool
    last_seen: int | None


class Blocked(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The user has blocked another one, or no longer does: for the user's own devices."""

    user_id: str
    blocked: bool


class ScheduledFailed(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A scheduled message of the user was refused for good."""

    message_id: str
    code: str


class DraftChanged(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A device of the user has changed the draft of a conversation. An empty text: there is none any more."""

    conversation_id: str
    text: str
    version: int


class ConversationAdded(msgspec.Struct, frozen=True, gc=False, tag=True):
    item: InboxItem


class ConversationUpdated(msgspec.Struct, frozen=True, gc=False, tag=True):
    item: InboxItem


class ConversationRemoved(msgspec.Struct, frozen=True, gc=False, tag=True):
    conversation_id: str


class DeviceRemoved(msgspec.Struct, frozen=True, gc=False, tag=True):
    device: str  # another user registered its push token, so it is notified of nothing more


CountEvent = ReadSynced | TotalsSynced
ReceiptEvent = Receipt | ReceiptSummary
RowEvent = ConversationAdded | ConversationUpdated | ConversationRemoved
Event = (
    MessageNew
    | MessageAppended
    | CountEvent
    | Resumed
    | ReceiptEvent
    | Typing
    | Presence
    | Blocked
    | ScheduledFailed
    | DraftChanged
    | RowEvent
    | DeviceRemoved
)
