"""The Python client: `Client` for one user's device, `Server` for a team's own backend.

It imports the wire's structs and nothing else of the server. What a program sees is in values.py (structs of the wire),
events.py (what is told) and refusals.py (how it is refused).
"""

from __future__ import annotations

from tidings.errors import Problem
from tidings.sdk.account import Account
from tidings.sdk.client import Client
from tidings.sdk.drafts import Draft, FileDrafts
from tidings.sdk.refusals import Disconnected, Lagging, Stopped
from tidings.sdk.server import Server
from tidings.sdk.tokens import sign_token
from tidings.sdk.values import Conversation, HistoryPage, InboxPage, InboxRow, Message, ReadState, Sent

__all__ = [
    "Account",
    "Client",
    "Conversation",
    "Disconnected",
    "Draft",
    "FileDrafts",
    "HistoryPage",
    "InboxPage",
    "InboxRow",
    "Lagging",
    "Message",
    "Problem",
    "ReadState",
    "Sent",
    "Server",
    "Stopped",
    "sign_token",
]
