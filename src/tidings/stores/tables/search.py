"""SearchIndex: which messages have which words, behind one port.

The index only says where to look: a caller reads each message that it names, and decides. So an index that is late,
lost or wrong shows nothing that is gone. It follows the log by a cursor for each conversation, and can be made anew at
any time. An adapter without an index of its own has None in its place; then messages are read (messaging/search/).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

MARK_BITS = 20  # of a mark, below the time: messages of one millisecond get different marks
_BELOW = (1 << MARK_BITS) - 1
_STEP = 648_055  # between the marks of two messages of one conversation and millisecond: it is odd, so none come twice


class Term(NamedTuple):
    """Words that follow each other. With `is_prefix` it is one word, and a word need only begin so."""

    words: tuple[str, ...]
    is_prefix: bool = False


class Document(msgspec.Struct, frozen=True, gc=False):
    """The words of one message, in their order and with blanks between them. They have letters, digits and signs
    outside ASCII only.

    A message without words is not in the index, and one that was there is removed.
    """

    seq_no: int
    sent_ms: int
    sender_id: str
    words: str
    has_file: bool = False
    has_link: bool = False


class Part(msgspec.Struct, frozen=True, gc=False):
    """A change of one conversation: words of messages, and the way of its cursor."""

    conversation_id: str
    documents: Sequence[Document]
    after: int
    up_to: int


class Place(NamedTuple):
    """A message that the index names. This is also the order of hits, from the last place to the first."""

    sent_ms: int
    conversation_id: str
    seq_no: int


END = Place(1 << 42, "", 0)  # a place behind all others
_LAST_MS = END.sent_ms - 3  # a later message counts as sent then, in the year 2109. A mark that is taken has room above


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the index: every term, in one of these conversations, from `after_ms` on and before `below`."""

    terms: tuple[Term, ...]
    conversation_ids: Sequence[str]
    sender_id: str | None = None
    after_ms: int = 0
    below: Place = END
    has_file: bool = False
    has_link: bool = False
    limit: int


class SearchIndex(Protocol):
    async def cursors(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """How far each conversation is indexed. One that is absent is not indexed at all."""
        ...

    async def put(self, parts: Sequence[Part]) -> set[str]:
        """Replace the words of these messages, and move the cursor of each conversation from `after` to `up_to`.

        Answers the conversations whose cursor stands elsewhere, because another node was first, or because they were
        forgotten. Of those nothing was changed. A call names a conversation once.
        """
        ...

    async def find(self, asked: Asked) -> list[Place]:
        """The newest messages with all terms, the last place first."""
        ...

    async def forget(self, conversation_id: str) -> None:
        """Remove everything of a conversation."""
        ...

    async def clear(self) -> None:
        """Remove everything."""
        ...

    async def close(self) -> None: ...


def mark_at(sent_ms: int) -> int:
    """The lowest mark of a message that was sent at this time."""
    return min(max(sent_ms, 0), END.sent_ms) << MARK_BITS


def marks_of(conversation_id: str, documents: Iterable[Document]) -> list[int]:
    """A number for each message that rises with the time. Messages of one millisecond have different numbers: those of
    one conversation always, those of two as a rule."""
    begin = zlib.crc32(conversation_id.encode())
    return [
        (at if 0 <= (at := one.sent_ms) <= _LAST_MS else _LAST_MS if at > 0 else 0) << MARK_BITS
        | (begin + one.seq_no * _STEP) & _BELOW
        for one in documents
    ]


def sent_of(mark: int) -> int:
    """The time of a message with this mark."""
    return mark >> MARK_BITS
