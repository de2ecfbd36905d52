"""What `Client.events` tells: the server's events as they are on the wire, and two of the connection itself.

Every numbered entry comes as `MessageNew`, each once, in the order of its conversation; one's own sends too, in their
place. `Resumed` says how a conversation stands after a reconnect: `reset` means forget what you have of it.
"""

from __future__ import annotations

import msgspec

from tidings.gateway.frames import ConversationAddedFrame as ConversationAdded
from tidings.gateway.frames import ConversationRemovedFrame as ConversationRemoved
from tidings.gateway.frames import ConversationUpdatedFrame as ConversationUpdated
from tidings.gateway.frames import Draining, Hello
from tidings.gateway.frames import MessageNewFrame as MessageNew
from tidings.gateway.frames import PresenceFrame as Presence
from tidings.gateway.frames import ReadSyncedFrame as ReadSynced
from tidings.gateway.frames import ReceiptFrame as Receipt
from tidings.gateway.frames import ResumedFrame as Resumed
from tidings.gateway.frames import TypingFrame as Typing

__all__ = [
    "Connected",
    "ConversationAdded",
    "ConversationRemoved",
    "ConversationUpdated",
    "Draining",
    "Event",
    "Hello",
    "Interrupted",
    "MessageNew",
    "Presence",
    "ReadSynced",
    "Receipt",
    "Resumed",
    "ServerEvent",
    "Typing",
]


class Connected(msgspec.Struct, frozen=True):
    """Hello was heard. `is_new_store`: the tables were restored from an older copy; forget everything."""

    hello: Hello
    is_new_store: bool = False


class Interrupted(msgspec.Struct, frozen=True):
    """The connection is gone, and will be tried again after `retry_in_s`. `code` is None when the network cut it."""

    code: int | None
    retry_in_s: float


ServerEvent = (
    MessageNew
    | ReadSynced
    | Resumed
    | Receipt
    | Typing
    | Presence
    | ConversationAdded
    | ConversationUpdated
    | ConversationRemoved
    | Draining
)
Event = ServerEvent | Connected | Interrupted
