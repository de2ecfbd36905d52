"""Beside: the structs of reactions and receipts, as the server answers them."""

from __future__ import annotations

import msgspec

Reactions = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]  # key, users who added it, users who took it away


class ReactionCount(msgspec.Struct, frozen=True, gc=False):
    count: int
    mine: bool


class ThreadSummary(msgspec.Struct, frozen=True, gc=False):
    """The thread of a root, as the user sees it. Only a follower has counts."""

    replies: int
    last_seq: int
    last_sent_at: int
    unread_count: int
    following: bool


class Reacted(msgspec.Struct, frozen=True, kw_only=True):
    """A message after a reaction was set or taken away."""

    conversation_id: str
    seq: int
    reactions: dict[str, ReactionCount] = {}
    reactions_seq: int | None = None
    pinned: bool = False
    thread: ThreadSummary | None = None


class Reactors(msgspec.Struct, frozen=True):
    key: str
    user_ids: list[str]


class ReactorsPage(msgspec.Struct, frozen=True):
    reactions: list[Reactors]
    next_cursor: str | None


class ReceiptTimes(msgspec.Struct, frozen=True, gc=False):
    """When a member received and read the message, at the latest, in milliseconds since 1970."""

    delivered_at: int | None = None
    read_at: int | None = None


class Receipts(msgspec.Struct, frozen=True):
    """The members except the sender, each once, at the furthest state. `times` has those whose times are known."""

    read: list[str]
    delivered: list[str]
    pending: list[str]
    times: dict[str, ReceiptTimes] = {}
    next_cursor: str | None = None  # None: that was the last page
