"""Found: the answers of search."""

from __future__ import annotations

import msgspec

from tidings_client.values import Message


class Hit(msgspec.Struct, frozen=True):
    """`snippet`: parts of the text around the hit, and of each part whether it is the hit."""

    conversation_id: str
    message: Message
    snippet: list[tuple[str, bool]]


class SearchPage(msgspec.Struct, frozen=True):
    """The newest first. `complete` false: something was not looked at yet."""

    hits: list[Hit]
    next_cursor: str | None
    complete: bool
