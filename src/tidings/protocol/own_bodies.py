"""REST bodies of what a user keeps for oneself."""

from __future__ import annotations

import msgspec

from tidings.protocol.bodies import MessageBody


class SavedBody(msgspec.Struct, frozen=True):
    conversation_id: str
    saved_at: int
    message: MessageBody


class SavedListBody(msgspec.Struct, frozen=True):
    """The latest saved first. A page may be short: messages that the user may not see any more are left out."""

    saved: list[SavedBody]
    next_cursor: str | None
