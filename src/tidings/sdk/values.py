"""The wire's structs under the names that a program uses them by. One definition: gateway/bodies.py."""

from __future__ import annotations

import msgspec

from tidings.gateway.bodies import BudgetBody as Budget
from tidings.gateway.bodies import ConversationBody as Conversation
from tidings.gateway.bodies import HistoryBody as HistoryPage
from tidings.gateway.bodies import InboxBody as InboxPage
from tidings.gateway.bodies import InboxRowBody as InboxRow
from tidings.gateway.bodies import MemberBody as Member
from tidings.gateway.bodies import MessageBody as Message
from tidings.gateway.bodies import ProfileBody as Profile
from tidings.gateway.bodies import RateLimitsBody as RateLimits
from tidings.gateway.bodies import ReadStateBody as ReadState
from tidings.gateway.bodies import ReceiptsBody as Receipts
from tidings.gateway.bodies import RevokedBody as Revoked
from tidings.gateway.bodies import SentBody as Sent
from tidings.gateway.bodies import TotalsBody as Totals

__all__ = [
    "Budget",
    "Conversation",
    "HistoryPage",
    "InboxPage",
    "InboxRow",
    "Member",
    "Message",
    "Person",
    "PresencePage",
    "Profile",
    "RateLimits",
    "ReadState",
    "Receipts",
    "Revoked",
    "Sent",
    "Totals",
]


class Person(msgspec.Struct, frozen=True):
    user_id: str
    online: bool
    last_seen: int | None


class PresencePage(msgspec.Struct, frozen=True):
    """Who is online; `last_seen` is None for who is, or was never seen."""

    presence: list[Person]
