"""Cold: the port of the archiver, which moves content between rows and objects of the cold tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidings.stores.tables.values import Candidate, Move, Recheck


class Archive(Protocol):
    """The archiver's side of the tables: it moves content between rows and objects of the cold tier.

    Two promises carry it. A row changes only if its rev and its s3_ref are still those that were seen. And every
    change of the archiver carries a *fence*, a number that grows with each run of an archiver: an archiver with an
    older fence is refused, however late it comes. A `Recheck` asks the archiver to read a segment again: edits, deletes
    and deleted conversations leave one.
    """

    async def id(self) -> str:
        """Random, made once with the tables: the folder of their objects, so that no two stores meet in one place."""
        ...

    async def take_fence(self) -> int:
        """Take the next fence. An archiver that took one before can move nothing any more."""
        ...

    async def candidates(self, *, after_id: str, before_ms: int, limit: int) -> tuple[Sequence[Candidate], str | None]:
        """Read the next `limit` conversations after after_id, and answer the candidates and where to go on.

        A candidate has entries above archived_seq that may be older than before_ms. None: that was the end.
        """
        ...

    async def advance(self, conversation_id: str, *, archived_seq: int, next_ms: int) -> None:
        """Record: nothing up to archived_seq (it never goes back) waits, nothing above it is older than next_ms."""
        ...

    async def move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        """Move each row that still has the rev and the s3_ref of its move, and answer their seq_nos.

        Raises Conflict: another archiver has a later fence, and nothing was changed. A move back into the row counts
        as a change: the rev grows.
        """
        ...

    async def cut(self, conversation_id: str, *, up_to_seq: int) -> bool:
        """Delete entries from the beginning of the log, and raise the floor with them. True: all up to the number went.

        A preview of a message that went goes too. The highest entry of the log must stay.
        """
        ...

    async def finish_deletion(self, conversation_id: str) -> bool:
        """Remove what an interrupted deletion has left; a conversation that exists stays as it is.

        Asks for no recheck. False: another node may still be deleting it.
        """
        ...

    async def put_recheck(self, recheck: Recheck, *, only_new: bool = False) -> None:
        """Put the recheck; it replaces one for the same segment, unless `only_new`."""
        ...

    async def rechecks(self, *, after: tuple[str, str], limit: int) -> Sequence[Recheck]:
        """In some fixed order, those after this (conversation_id, s3_ref); ('', '') is the beginning."""
        ...

    async def remove_recheck(self, recheck: Recheck) -> bool:
        """Remove the recheck if it still has this mark, and answer whether it had."""
        ...
