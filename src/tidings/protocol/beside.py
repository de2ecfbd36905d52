"""REST bodies of what people put beside messages: one struct each. The same answers travel inside `ok`."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from tidings.model import EntryKind, ReactionCount, ThreadBeside
from tidings.protocol.client_frames import Cursor


class MoreQuery(msgspec.Struct, frozen=True):
    cursor: Cursor | None = None


class BesideBody(msgspec.Struct, frozen=True, gc=False):
    """The fields of MESSAGE that others change: reactions, the pin and the thread. Absent means none."""

    reactions: dict[str, ReactionCount] | UnsetType = UNSET
    reactions_seq: int | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    thread: ThreadBeside | UnsetType = UNSET


class OwnDraftBody(msgspec.Struct, frozen=True, gc=False):
    """A text that the user has typed and not sent."""

    text: str
    version: int


class LastMessageBody(msgspec.Struct, frozen=True, gc=False):
    """The message that an inbox row shows."""

    seq: int
    sender_id: str | None
    kind: EntryKind
    text_preview: str | UnsetType = UNSET
    deleted: Literal[True] | UnsetType = UNSET
    files: int | UnsetType = UNSET


class ReactedBody(BesideBody, frozen=True, kw_only=True):
    """The state after a reaction was set or taken away."""

    conversation_id: str
    seq: int


class ReactorsBody(msgspec.Struct, frozen=True):
    key: str
    user_ids: list[str]


class ReactionsBody(msgspec.Struct, frozen=True):
    """By key and user id. A key may go on on the next page."""

    reactions: list[ReactorsBody]
    next_cursor: str | None
