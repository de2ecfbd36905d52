"""The Python client: `Client` for one user's device, `Server` for a team's own backend.

It imports the wire's structs and nothing else of the server. All that a program passes or gets is named here; what is
told is in events.py.
"""

from __future__ import annotations

from tidings.clock import Clock
from tidings.errors import Problem
from tidings.sdk.account import Account
from tidings.sdk.client import Client
from tidings.sdk.drafts import Draft, Drafts, FileDrafts
from tidings.sdk.refusals import Disconnected, Lagging, Stopped
from tidings.sdk.server import Server
from tidings.sdk.streams import Stream
from tidings.sdk.tokens import TokenSource, sign_token
from tidings.sdk.values import (
    Budget,
    Conversation,
    HistoryPage,
    InboxPage,
    InboxRow,
    Member,
    Message,
    Person,
    Profile,
    RateLimits,
    ReadState,
    Receipts,
    Revoked,
    Sent,
    Totals,
)

__all__ = [
    "Account",
    "Budget",
    "Client",
    "Clock",
    "Conversation",
    "Disconnected",
    "Draft",
    "Drafts",
    "FileDrafts",
    "HistoryPage",
    "InboxPage",
    "InboxRow",
    "Lagging",
    "Member",
    "Message",
    "Person",
    "Problem",
    "Profile",
    "RateLimits",
    "ReadState",
    "Receipts",
    "Revoked",
    "Sent",
    "Server",
    "Stopped",
    "Stream",
    "TokenSource",
    "Totals",
    "sign_token",
]
