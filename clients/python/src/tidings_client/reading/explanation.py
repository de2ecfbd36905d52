"""The reasons why an unread count is what it is, as the server gives them."""

from __future__ import annotations

import msgspec


class Explanation(msgspec.Struct, frozen=True):
    """Each of `entries` above `from_seq` is counted under one reason (other … read), or is unread."""

    conversation_id: str
    head: int
    read_seq: int
    from_seq: int
    ranges: tuple[tuple[int, int], ...]  # read singly
    entries: int
    other: int  # of kinds that never count
    deleted: int
    uncounted: int  # silent
    own: int
    requested: int
    blocked: int
    read: int
    unread: int
    unread_count: int | None  # as the inbox shows it
    unread_capped: bool
    muted: bool
    complete: bool  # False: the log above the cursor is longer than what the server read
