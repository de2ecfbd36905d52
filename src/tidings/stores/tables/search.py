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

_MARK_BITS = 20  # of a mark, below the time: messages of one millisecond get different marks


class Term(NamedTuple):
    """Words that follow each other. With `is_prefix` the last word need only begin so."""

    words: tuple[str, ...]
    is_prefix: bool = False


class Document(msgspec.Struct, frozen=True, gc=False):
    """The words of one message, in their order. Words have letters, digits and signs outside ASCII only."""

    seq_no: int
    sent_ms: int
    sender_id: str
    words: tuple[str, ...]
    has_file: bool = False
    has_link: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the index: every term, in one of these conversations, of marks from `above` up to below `below`."""

    terms: tuple[Term, ...]
    conversation_ids: Sequence[str]
    sender_id: str | None = None
    above: int = 0
    below: int = (1 << 63) - 1
    has_file: bool = False
    has_link: bool = False
    limit: int


class Place(NamedTuple):
    """A message that the index names. Marks fall from the newest message to the oldest."""

    conversation_id: str
    seq_no: int
    mark: int


class SearchIndex(Protocol):
    async def cursors(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """How far each conversation is indexed. One that is absent is not indexed at all."""
        ...

    async def put(
        self, conversation_id: str, documents: Sequence[Document], removed: Sequence[int], *, after: int, up_to: int
    ) -> bool:
        """Replace the words of these messages, remove others, and move the cursor from `after` to `up_to`.

        False: the cursor stands elsewhere, because another node was first. Then nothing was changed.
        """
        ...

    async def find(self, asked: Asked) -> list[Place]:
        """The newest messages with all terms, the newest first."""
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
    return max(sent_ms, 0) << _MARK_BITS


def mark_of(conversation_id: str, document: Document) -> int:
    """The place of a message among all others: by time, then by a hash of its name."""
    name = f"{conversation_id} {document.seq_no}".encode()
    return mark_at(document.sent_ms) | zlib.crc32(name) >> (32 - _MARK_BITS)
