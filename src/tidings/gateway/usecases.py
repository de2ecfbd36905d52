"""What the gateway asks of messaging/ and routing/, as small protocols: the seam between a socket and its meaning.

`UseCases` carries one of each; wiring.py fills it. Nothing else of the node is known here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from msgspec import UnsetType

from tidings.errors import Close
from tidings.gateway.turns import Turn
from tidings.model import (
    ConversationKind,
    Head,
    HistoryPage,
    HistoryRule,
    InboxItem,
    InboxPage,
    Member,
    Override,
    Presence,
    ReadState,
    Role,
    Sent,
    Totals,
    User,
)
from tidings.routing.hub import Outbound

if TYPE_CHECKING:
    from tidings.messaging.drafts import Draft

T = TypeVar("T")


class Hub(Protocol):
    def attach(self, outbound: Outbound) -> bool: ...
    def detach(self, outbound: Outbound) -> None: ...
    def of_user(self, user_id: str) -> Sequence[Outbound]: ...


class Registry(Protocol):
    """Tells the other nodes which connections live here."""

    async def claim(self, outbound: Outbound) -> None: ...
    def release(self, outbound: Outbound) -> None: ...


class Router(Protocol):
    """Reaches the devices of a user on every node."""

    def close(self, user_id: str, code: Close) -> None: ...


class Sends(Protocol):
    def submit(self, draft: Draft) -> None: ...
    async def send(
        self, sender_id: str, conversation_id: str, message_id: str, text: str, timestamp: int | None
    ) -> Sent: ...
    def abandon(self, origin: str, conversation_id: str, message_id: str) -> None: ...
    def is_overfull(self, origin: str) -> bool: ...
    def forget(self, origin: str) -> None: ...


class Rewrites(Protocol):
    async def edit(
        self, user_id: str, conversation_id: str, seq_no: int, text: str, message_id: str | None = None
    ) -> Sent: ...
    async def delete(self, user_id: str, conversation_id: str, seq_no: int, message_id: str | None = None) -> Sent: ...


class View(Protocol):
    @property
    def head(self) -> Head: ...
    @property
    def members(self) -> tuple[Member, ...]: ...


class Directory(Protocol):
    async def create(
        self,
        user_id: str,
        *,
        kind: ConversationKind,
        members: Sequence[str],
        name: str | None = None,
        avatar_url: str | None = None,
        history: HistoryRule | None = None,
    ) -> tuple[View, bool]: ...
    async def view(self, user_id: str, conversation_id: str) -> View: ...
    async def rename(
        self,
        user_id: str,
        conversation_id: str,
        *,
        name: str | UnsetType | None,
        avatar_url: str | UnsetType | None,
    ) -> View: ...
    async def delete(self, user_id: str, conversation_id: str) -> None: ...
    async def add(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> View: ...
    async def remove(self, user_id: str, conversation_id: str, other_id: str) -> None: ...
    async def set_role(self, user_id: str, conversation_id: str, other_id: str, role: Role) -> View: ...
    async def profiles(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[User]: ...
    async def introduce(self, user: User) -> None: ...


class Unread(Protocol):
    async def mark_read(
        self,
        user_id: str,
        conversation_id: str,
        *,
        up_to_seq: int | None = None,
        up_to_ts: int | None = None,
        seqs: Sequence[int] | None = None,
        origin: str | None = None,
    ) -> ReadState: ...
    async def mark_unread(
        self, user_id: str, conversation_id: str, *, from_seq: int, origin: str | None = None
    ) -> ReadState: ...
    async def totals(self, user_id: str) -> Totals: ...


class Inbox(Protocol):
    async def page(self, user_id: str, *, limit: int, cursor: str | None) -> InboxPage: ...
    async def flag(
        self,
        user_id: str,
        conversation_id: str,
        *,
        muted: bool | None,
        pinned: bool | None,
        archived: bool | None,
    ) -> InboxItem: ...


class History(Protocol):
    async def page(
        self,
        user_id: str,
        conversation_id: str,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        around_seq: int | None = None,
        anchor: Literal["first_unread"] | None = None,
        limit: int = 20,
    ) -> HistoryPage: ...


class Receipts(Protocol):
    def delivered(self, user_id: str, acks: dict[str, int], origin: str) -> None: ...
    async def of_message(
        self, user_id: str, conversation_id: str, seq_no: int
    ) -> tuple[list[str], list[str], list[str]]: ...


class Budget(Protocol):
    @property
    def limit(self) -> int: ...
    @property
    def remaining(self) -> int: ...
    @property
    def reset_ms(self) -> int: ...


class Limiter(Protocol):
    def know(self, user_id: str, role: str | None) -> None: ...
    def payer(self, key_id: str, key_name: str, role: str, user_id: str | None) -> str: ...
    async def admit(self, class_name: str, user_id: str) -> Budget: ...
    async def admit_beside(self, class_name: str, user_id: str, read: Coroutine[Any, Any, T]) -> T: ...
    async def budgets(self, user_id: str) -> Mapping[str, Budget]: ...


class Overrides(Protocol):
    """Exceptions to the limits."""

    async def all(self) -> Sequence[Override]: ...
    async def put(self, scope: str, name: str, class_name: str, *, count: int | None, window_s: int) -> Override: ...
    async def remove(self, scope: str, name: str, class_name: str) -> None: ...


class Audit(Protocol):
    """What an operator may want to know. None of it blocks."""

    def rejected(self, class_name: str, user_id: str, count: int = 1) -> None: ...
    def sign_in_failed(self, way: str) -> None: ...
    def revoked(self, user_id: str, by: str) -> None: ...
    def acted(self, action: str, by: str, *, user_id: str = "-", detail: str = "") -> None: ...


class Activity(Protocol):
    def note(self, user_id: str) -> None: ...


class Resume(Protocol):
    async def catch_up(
        self, outbound: Outbound, resume: dict[str, int], since: int | None, turn: Turn | None
    ) -> None: ...


class Signals(Protocol):
    """Typing and what is on screen: true for a moment, never stored, never promised."""

    async def typing(self, user_id: str, conversation_id: str, is_typing: bool, origin: str) -> None: ...
    async def watch(self, outbound: Outbound, conversation_ids: Sequence[str]) -> None: ...
    def came(self, outbound: Outbound) -> None: ...
    def went(self, outbound: Outbound) -> None: ...
    async def presence(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[Presence]: ...


class Notify(Protocol):
    def acknowledged(self, user_id: str, device: str | None, acks: Mapping[str, int]) -> None: ...
    def left(self, user_id: str, device: str | None) -> None: ...


@dataclass(frozen=True, slots=True)
class UseCases:
    hub: Hub
    sends: Sends
    rewrites: Rewrites
    directory: Directory
    unread: Unread
    inbox: Inbox
    history: History
    receipts: Receipts
    limiter: Limiter
    resume: Resume
    registry: Registry | None = None  # without it no other node knows of the connections here
    router: Router | None = None  # without it a revocation closes sockets of this node only
    signals: Signals | None = None  # without it typing and watch are taken and nobody hears of them
    notify: Notify | None = None  # without it nobody is pushed to, so nothing is noted per device
    audit: Audit | None = None  # without it nobody keeps who was refused
    activity: Activity | None = None  # without it nobody counts who was there
    overrides: Overrides | None = None  # without it everybody has the limits of the settings
