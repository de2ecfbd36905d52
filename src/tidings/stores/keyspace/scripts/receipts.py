"""Stubs of the receipt scripts: how far each member of a conversation has received and read.

Marks only go forward, so a build and a raise commute: whichever comes last, the higher mark stands. The built marker is
a field of the conversation's hash, with the epoch and the members_seq it was built for and how many members there were;
anything else is COLD.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.bounds import INDEX_TTL_S
from tidings.stores.keyspace.call import Arg, Call
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.library import Library

NAMES = ("receipts_raise", "receipts_lowest", "receipts_summary", "receipts_build")
_library = Library(NAMES)
SOURCES = _library.sources


class ReceiptScripts:
    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def receipts_raise(
        self, conversation_id: str, user_id: str, *, delivered_seq: int, read_seq: int
    ) -> Call[tuple[int, int] | None]:
        """(delivered, read) as they were before. None: raised, but COLD, so what they were is not known."""
        return _library.call(
            "receipts_raise",
            self._keys(conversation_id),
            (user_id, delivered_seq, read_seq, INDEX_TTL_S),
            lambda reply: (reply[0], reply[1]) if reply[2] else None,
        )

    def receipts_lowest(self, conversation_id: str, *, members_seq: int, but: str) -> Call[tuple[int, int] | None]:
        """(delivered, read) of everybody but one. None: COLD."""
        return _library.call(
            "receipts_lowest",
            self._keys(conversation_id),
            (members_seq, but),
            lambda reply: (reply[0], reply[1]) if reply else None,
        )

    def receipts_summary(
        self, conversation_id: str, *, members_seq: int, but: str, seq: int
    ) -> Call[tuple[int, int, int, int] | None]:
        """(delivered, read) of everybody but one, and how many of them have received and read `seq`. None: COLD."""
        return _library.call(
            "receipts_summary",
            self._keys(conversation_id),
            (members_seq, but, seq),
            lambda reply: (reply[0], reply[1], reply[2], reply[3]) if reply else None,
        )

    def receipts_build(
        self, conversation_id: str, *, members_seq: int, marks: Iterable[tuple[str, int, int]]
    ) -> Call[int]:
        args: list[Arg] = [members_seq, INDEX_TTL_S]
        for mark in marks:
            args += mark
        return _library.call("receipts_build", self._keys(conversation_id), tuple(args), int)

    def _keys(self, conversation_id: str) -> tuple[str, str, str]:
        keys = self.keys
        return keys.conv(conversation_id), keys.delivered(conversation_id), keys.readby(conversation_id)
