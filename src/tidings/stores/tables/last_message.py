"""Last message: the facts about a conversation's last message that an inbox row shows beside its preview.

They are one JSON text in the head and in the rows, so a page of the inbox reads nothing but its rows. A message that
was deleted keeps its sender and loses its text.
"""

from __future__ import annotations

import msgspec

from tidings.model import Content, Entry, EntryKind


class LastMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    sender_id: str | None = None
    files: int = 0
    deleted: bool = False
    kind: EntryKind = "message"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LastMessage).decode


def last_of(sender_id: str | None, content: Content | None, *, is_deleted: bool) -> str:
    """The stored form."""
    files = len(content.files) if content is not None and not is_deleted else 0
    return _encode(LastMessage(sender_id, files, is_deleted)).decode()


def last_of_entry(entry: Entry) -> str:
    return last_of(entry.sender_id, entry.content, is_deleted=entry.is_deleted)


def read_last(stored: str) -> LastMessage:
    return _decode(stored)
