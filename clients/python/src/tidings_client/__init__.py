"""The Python client of Tidings: `Client` for one device of a user, `Server` for the backend of a team.

It imports nothing of the server. Everything that a program passes or receives is named here; the refusals are in
errors.py.
"""

from __future__ import annotations

from tidings_client.account import Account
from tidings_client.beside.structs import Reacted, ReactionCount, Receipts, ReceiptTimes, ThreadSummary
from tidings_client.client import Client
from tidings_client.clock import Clock
from tidings_client.connection.tokens import TokenSource, sign_token
from tidings_client.errors import Disconnected, Lagging, Problem, Stopped
from tidings_client.files import FilesPage, SentFile
from tidings_client.people import Block, Person, PersonFound, Preferences, Profile, Revoked
from tidings_client.reading.explanation import Explanation
from tidings_client.reading.found import Hit, SearchPage
from tidings_client.reading.streams import Stream
from tidings_client.requests.drafts import NewerDraft, SavedDraft
from tidings_client.requests.entries import Entries
from tidings_client.requests.pins import PinnedMessage
from tidings_client.requests.saved import SavedMessage, SavedPage
from tidings_client.requests.scheduled import ScheduledMessage
from tidings_client.requests.threads import ThreadRow, ThreadsPage
from tidings_client.sending.drafts import Draft, Drafts, FileDrafts
from tidings_client.sending.streaming import Streaming
from tidings_client.server import Server
from tidings_client.values import (
    Blocked,
    Budget,
    Connected,
    Conversation,
    ConversationAdded,
    ConversationRemoved,
    ConversationUpdated,
    DeviceRemoved,
    DraftChanged,
    Draining,
    Event,
    File,
    Hello,
    HistoryPage,
    InboxPage,
    InboxRow,
    Interrupted,
    LastMessage,
    Member,
    MemberChange,
    MembersPage,
    Message,
    MessageAppended,
    MessageNew,
    OwnDraft,
    Presence,
    RateLimits,
    ReadState,
    ReadSynced,
    Receipt,
    ReceiptSummary,
    Resumed,
    ScheduledFailed,
    Sent,
    Totals,
    Typing,
)
from tidings_client.webhooks import (
    BeforeSendRequest,
    Webhook,
    WebhookRequest,
    WebhookState,
    verify_before_send,
    verify_webhook,
)

__version__ = "0.1.0"
__all__ = [
    "Account",
    "BeforeSendRequest",
    "Block",
    "Blocked",
    "Budget",
    "Client",
    "Clock",
    "Connected",
    "Conversation",
    "ConversationAdded",
    "ConversationRemoved",
    "ConversationUpdated",
    "DeviceRemoved",
    "Disconnected",
    "Draft",
    "DraftChanged",
    "Drafts",
    "Draining",
    "Entries",
    "Event",
    "Explanation",
    "File",
    "FileDrafts",
    "FilesPage",
    "Hello",
    "HistoryPage",
    "Hit",
    "InboxPage",
    "InboxRow",
    "Interrupted",
    "Lagging",
    "LastMessage",
    "Member",
    "MemberChange",
    "MembersPage",
    "Message",
    "MessageAppended",
    "MessageNew",
    "NewerDraft",
    "OwnDraft",
    "Person",
    "PersonFound",
    "PinnedMessage",
    "Preferences",
    "Presence",
    "Problem",
    "Profile",
    "RateLimits",
    "Reacted",
    "ReactionCount",
    "ReadState",
    "ReadSynced",
    "Receipt",
    "ReceiptSummary",
    "ReceiptTimes",
    "Receipts",
    "Resumed",
    "Revoked",
    "SavedDraft",
    "SavedMessage",
    "SavedPage",
    "ScheduledFailed",
    "ScheduledMessage",
    "SearchPage",
    "Sent",
    "SentFile",
    "Server",
    "Stopped",
    "Stream",
    "Streaming",
    "ThreadRow",
    "ThreadSummary",
    "ThreadsPage",
    "TokenSource",
    "Totals",
    "Typing",
    "Webhook",
    "WebhookRequest",
    "WebhookState",
    "sign_token",
    "verify_before_send",
    "verify_webhook",
]
