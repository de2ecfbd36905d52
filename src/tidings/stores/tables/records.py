"""Records: the small tables of the features, behind one port.

A feature that keeps a few rows of its own (drafts, pins, hooks) names a collection and writes JSON values into it. So a
feature needs no table in three adapters. A record has an owner: a user, a conversation, or the deployment. The records
of a conversation go with it.

A version guards each record: a put may name the version that it has seen, and is refused where another put came first.
Puts of one call are committed together. Puts in a `Group` are committed together with the entries of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

DEPLOYMENT = "*"  # the owner of what belongs to nobody in particular
DUE_SHARDS = 8  # parts of the index by time, so that no part of a large store is hot


class RecordKey(NamedTuple):
    """The place of a record. Names of one owner and collection are ordered byte by byte."""

    owner: str
    collection: str
    name: str


class Record(msgspec.Struct, frozen=True, gc=False):
    owner: str
    collection: str
    name: str
    value: bytes  # JSON of the feature's own struct
    version: int  # 1 after the first put, and one more after each later put
    due_ms: int | None = None  # a worker must look at it then

    @property
    def key(self) -> RecordKey:
        return RecordKey(self.owner, self.collection, self.name)


class Put(msgspec.Struct, frozen=True, gc=False):
    """A change of one record. Without a value the record is removed."""

    owner: str
    collection: str
    name: str
    value: bytes | None
    expected: int | None = None  # the version that was seen; 0: there must be none; None: any
    due_ms: int | None = None

    @property
    def key(self) -> RecordKey:
        return RecordKey(self.owner, self.collection, self.name)


class Records(Protocol):
    """records: rows of the features, by owner, collection and name."""

    async def get(self, owner: str, collection: str, names: Iterable[str]) -> dict[str, Record]:
        """The records named, as far as they exist."""
        ...

    async def get_each(self, keys: Sequence[RecordKey]) -> dict[RecordKey, Record]:
        """The records at these places, of any owners, as far as they exist. Each place comes once."""
        ...

    async def page(
        self, owner: str, collection: str, *, limit: int, after: str = "", before: str = "", newest_first: bool = False
    ) -> list[Record]:
        """Records with after < name < before, in the order of their names. An empty bound is no bound."""
        ...

    async def put(self, puts: Sequence[Put]) -> None:
        """Make all changes, 100 at most and each record once, or none. Raises Conflict."""
        ...

    async def due(self, collection: str, *, until_ms: int, limit: int) -> list[Record]:
        """Records of all owners whose time has come, the earliest first. A change may be seen a moment late."""
        ...


def of_user(user_id: str) -> str:
    """The owner of a user's own records."""
    return f"u:{user_id}"


def of_conversation(conversation_id: str) -> str:
    """The owner of records that go with a conversation."""
    return f"c:{conversation_id}"


def conversation_of(owner: str) -> str:
    """The conversation that owns a record."""
    return owner.removeprefix("c:")


def user_of(owner: str) -> str:
    """The user who owns a record."""
    return owner.removeprefix("u:")


def seq_name(seq_no: int) -> str:
    """The name of a record about one entry: names are ordered as the numbers are."""
    return f"{seq_no:012d}"
