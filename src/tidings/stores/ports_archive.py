"""What the cold tier needs of a store: `Blobs` keeps objects, `Archives` moves content between rows and objects.

Two promises carry it. A row changes only if its rev and its s3_ref are still those that were seen. And every change of
the archiver carries a *fence*, a number that grows with each run of an archiver: whoever has an older one is refused,
however late he comes. A `Recheck` says that somebody must look at a segment again; an edit or delete of an archived
message leaves one in its own commit. tests/contracts/ has one suite per port.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

import msgspec

from tidings.stores.ports import Conversations, Messages

Why = Literal["writing", "rewritten", "damaged", "deleted"]
EVERY_SEGMENT = "*"  # as the s3_ref of a recheck: all that a deleted conversation has left behind


class Blob(msgspec.Struct, frozen=True, gc=False):
    name: str
    size_bytes: int
    modified_ms: int  # by the clock of the blobs


class Blobs(Protocol):
    """Objects by name. Raises Missing, Unavailable. An object is never changed, only put and deleted."""

    async def put(self, name: str, data: bytes) -> bool:
        """Durable when it answers. False: there is an object of this name, and it stays as it is."""
        ...

    async def get(self, name: str) -> bytes:
        """Raises Missing."""
        ...

    async def delete(self, name: str) -> None:
        """No complaint if it is gone."""
        ...

    def list(self, folder: str) -> AsyncIterator[Sequence[Blob]]:
        """Everything below a folder (a name up to a slash), some at a time, in no order."""
        ...


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A conversation that may have something to archive."""

    conversation_id: str
    archived_seq: int  # nothing at or below it is waiting
    head: int


class Move(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One row's content goes from the row (from_ref None) or a segment to a segment or back into the row (to_ref None,
    with the text)."""

    seq_no: int
    rev: int  # as seen
    from_ref: str | None
    to_ref: str | None
    text: str | None = None


class Recheck(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Look at this segment again: does it hold exactly what rows still refer to?"""

    conversation_id: str
    s3_ref: str  # or EVERY_SEGMENT
    why: Why
    mark: str  # random: whoever asks again sets another, and only the last one may be taken off
    since_ms: int


class Archives(Protocol):
    """The archiver's side of the tables."""

    async def archive_id(self) -> str:
        """Random, made once with the tables: the folder of their objects, so that no two stores meet in one place."""
        ...

    async def take_fence(self) -> int:
        """The next one. Whoever took one before can move nothing any more."""
        ...

    async def candidates(self, *, after_id: str, before_ms: int, limit: int) -> tuple[Sequence[Candidate], str | None]:
        """Among the next `limit` conversations after after_id, those with entries above archived_seq that may be older
        than before_ms; and where to go on (None: that was the end)."""
        ...

    async def advance(self, conversation_id: str, *, archived_seq: int, next_ms: int) -> None:
        """Nothing up to archived_seq (it never goes back) is waiting, and nothing above it is older than next_ms."""
        ...

    async def move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        """Each row that still has the rev and the s3_ref of its move; their seq_nos. Raises Conflict: another archiver
        has a later fence, and nothing was changed. Back into the row counts as a change: the rev grows."""
        ...

    async def finish_deletion(self, conversation_id: str) -> bool:
        """What a deletion that was interrupted has left in the tables goes; a conversation that exists stays as it is.
        Asks for no recheck. False: somebody may still be at it."""
        ...


class Rechecks(Protocol):
    """The list of segments to look at. append and delete of the other ports write to it in their own commits: an edit
    or delete of an archived message `rewritten`, a deleted conversation that has been archived `deleted`."""

    async def put_recheck(self, recheck: Recheck, *, only_new: bool = False) -> None:
        """Replaces one for the same segment, unless `only_new`."""
        ...

    async def rechecks(self, *, after: tuple[str, str], limit: int) -> Sequence[Recheck]:
        """In some fixed order, those after this (conversation_id, s3_ref); ('', '') is the beginning."""
        ...

    async def remove_recheck(self, recheck: Recheck) -> bool:
        """If it still has this mark."""
        ...


class ArchiveTables(Archives, Rechecks, Protocol):
    """Both, from one adapter."""


class LogTables(Messages, Conversations, Protocol):
    """What the archiver reads beside them."""
