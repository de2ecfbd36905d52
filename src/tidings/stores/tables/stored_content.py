"""Stored texts: contents and last messages as JSON, the same in every adapter.

One column holds the content or the member change of an entry, so that the cold tier takes it away in one step.
"""

from __future__ import annotations

import msgspec

from tidings.model import EVERYBODY, KINDS, Content, Entry, EntryKind, MemberChange


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


# --- the last message of a conversation, in its head and in the rows of its members ---


class LastMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The facts about a last message that an inbox row shows beside its preview.

    They are one text in the head and in the rows, so a page of the inbox reads nothing but its rows. A message that was
    deleted keeps its sender and loses its text.
    """

    sender_id: str | None = None
    files: int = 0
    deleted: bool = False
    kind: EntryKind = "message"


DELETED = '"deleted":true'  # a part of the stored form of a deleted message, and of no other: ids have no quotes
AT_HEAD = '{"deleted":false}'  # of a row whose text is to be taken from the head; no message has this form
_decode_last = msgspec.json.Decoder(LastMessage).decode


def last_of(sender_id: str | None, content: Content | None, *, is_deleted: bool) -> str:
    """The stored form."""
    files = len(content.files) if content is not None and not is_deleted else 0
    return _encode(LastMessage(sender_id, files, is_deleted)).decode()


def last_of_entry(entry: Entry) -> str:
    return last_of(entry.sender_id, entry.content, is_deleted=entry.is_deleted)


def read_last(stored: str) -> LastMessage:
    return _decode_last(stored)
