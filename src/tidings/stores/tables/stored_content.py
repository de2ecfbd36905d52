"""The content column: an entry's content or its member change as one JSON object, the same in every adapter.

One column holds both, so that the cold tier takes it away in one step.
"""

from __future__ import annotations

import msgspec

from tidings.model import EVERYBODY, KINDS, Content, EntryKind, MemberChange


class _Change(msgspec.Struct, frozen=True, gc=False):
    member: MemberChange


_encode = msgspec.json.Encoder().encode
_decode_content = msgspec.json.Decoder(Content).decode
_decode_change = msgspec.json.Decoder(_Change).decode


def to_json(content: Content | None, member: MemberChange | None = None) -> bytes | None:
    """None where there is nothing to store."""
    if content is not None:
        return _encode(content)
    return None if member is None else _encode(_Change(member))


def mentions_to_text(mentions: tuple[str, ...]) -> str | None:
    """Ids hold no blanks."""
    return " ".join(mentions) or None


def mentions_from_text(stored: str | None) -> tuple[str, ...]:
    return tuple(stored.split()) if stored else ()


def is_mentioned(user_id: str, stored: str | None) -> bool:
    return stored is not None and (stored == EVERYBODY or user_id in stored.split())


def from_json(kind: EntryKind, stored: bytes | str | None) -> tuple[Content | None, MemberChange | None]:
    if stored is None:
        return None, None
    if KINDS[kind].has_content:
        return _decode_content(stored), None
    return None, _decode_change(stored).member
