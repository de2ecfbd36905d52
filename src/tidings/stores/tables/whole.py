"""Whole: every row of every table as a value, for `tidings tables copy`.

The other ports say what a product needs; this one reads and writes rows as they are, so that tables can move from one
adapter to another without a change. `PARTS` lists the tables in the order in which they are copied. A part turns a
value into the columns of a row and back, the same on every adapter that speaks SQL: columns have the names of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol, get_type_hints

import msgspec

from tidings.model import Entry, Head, Member, Ranges, Row, Status, User
from tidings.stores.tables.records import Record
from tidings.stores.tables.stored_content import from_json, mentions_from_text, mentions_to_text, to_json
from tidings.stores.tables.values import ApiKey, Block, Device, Override, Preferences, Recheck, Waiting

Value = Any  # a struct of the kind of its part
IDENTITY = ("store_epoch", "secret", "archive_id", "archive_fence")  # the facts of `meta` that move with the rows


class Choice(msgspec.Struct, frozen=True, gc=False):
    """The preferences of one user, with the user."""

    user_id: str
    choices: Preferences


class Archived(msgspec.Struct, frozen=True, gc=False):
    """How far a conversation was archived."""

    conversation_id: str
    archived_seq: int
    next_ms: int


class Fact(msgspec.Struct, frozen=True, gc=False):
    """One of IDENTITY."""

    key: str
    value: str


class Whole(Protocol):
    async def walk(self, table: str, *, after: str, limit: int) -> tuple[list[Value], str]:
        """About `limit` rows after a place of this adapter (empty: the beginning), and the place after them.

        An empty place: that was the end. Rows come in any order, and those of one key of the table together.
        """
        ...

    async def put(self, table: str, values: Sequence[Value]) -> None:
        """Put each row as it is, over the row that has its key."""
        ...


class Part:
    """One table: the kind of its rows, the columns of its key, and how fields become columns."""

    def __init__(self, kind: type[Any], *key: str) -> None:
        self.kind = kind
        self.key = key
        hints = get_type_hints(kind)
        self.columns = tuple(name for name in kind.__struct_fields__ if name not in _NOT_STORED)
        self.types = tuple(_TYPES_OF.get(name) or _type_of(hints[name]) for name in self.columns)
        self._flags = tuple(at for at, type_ in enumerate(self.types) if type_ == "bool")
        self._coded = tuple((at, *_CODED[name]) for at, name in enumerate(self.columns) if name in _CODED)

    def row_of(self, value: Value) -> tuple[Any, ...]:
        """The columns of a value."""
        row = [getattr(value, name) for name in self.columns]
        for at, encode, _ in self._coded:
            row[at] = encode(row[at])
        return tuple(row)

    def value_of(self, row: Sequence[Any]) -> Value:
        values = list(row)
        for at in self._flags:
            values[at] = values[at] == 1
        for at, _, decode in self._coded:
            values[at] = decode(values[at])
        return self.kind(**dict(zip(self.columns, values, strict=True)))


_FIELDS = Entry.__struct_fields__
_KIND, _CONTENT, _MEMBER, _MENTIONS, _UNAVAILABLE = map(
    _FIELDS.index, ("kind", "content", "member", "mentions", "is_unavailable")
)


class Log(Part):
    """The messages: content and member change share a column. Most rows of an installation are in this table, so its
    fields go by position: `member`, and `is_unavailable` at the end, are the only ones that are no columns."""

    def row_of(self, value: Entry) -> tuple[Any, ...]:
        row = list(msgspec.structs.astuple(value))
        row[_CONTENT] = to_json(value.content, value.member)
        row[_MENTIONS] = mentions_to_text(value.mentions)
        del row[_UNAVAILABLE], row[_MEMBER]
        return tuple(row)

    def value_of(self, row: Sequence[Any]) -> Entry:
        values = list(row)
        values.insert(_MEMBER, None)
        for at in self._flags_of_value:
            values[at] = values[at] == 1
        values[_CONTENT], values[_MEMBER] = from_json(values[_KIND], values[_CONTENT])
        values[_MENTIONS] = mentions_from_text(values[_MENTIONS])
        return Entry(*values)

    @cached_property
    def _flags_of_value(self) -> tuple[int, ...]:
        return tuple(_FIELDS.index(self.columns[at]) for at in self._flags)


_encode = msgspec.json.Encoder().encode
_decode_ranges = msgspec.json.Decoder(Ranges).decode
_decode_choices = msgspec.json.Decoder(Preferences).decode
_Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]]
_CODED: dict[str, _Codec] = {
    "ranges": (lambda ranges: _encode(ranges) if ranges else None, lambda raw: _decode_ranges(raw) if raw else ()),
    "read_before": (lambda marks: _encode(marks) if marks else None, lambda raw: _decode_ranges(raw) if raw else ()),
    "choices": (lambda choices: _encode(choices).decode(), _decode_choices),
}
_TYPES_OF = {"content": "bytes", "mentions": "text", "ranges": "bytes", "read_before": "bytes", "choices": "text"}
_NOT_STORED = frozenset(("member", "is_unavailable"))  # of an entry: one is in the content, one is never stored


def _type_of(hint: Any) -> str:
    """The type of a column: text, int, bool or bytes."""
    kinds = {hint, *getattr(hint, "__args__", ())}
    return next((name for kind, name in ((bool, "bool"), (int, "int"), (bytes, "bytes")) if kind in kinds), "text")


PARTS: dict[str, Part] = {
    "users": Part(User, "user_id"),
    "api_keys": Part(ApiKey, "key_hash"),
    "blocks": Part(Block, "user_id", "blocked_id"),
    "preferences": Part(Choice, "user_id"),
    "devices": Part(Device, "user_id", "device_id"),
    "rate_overrides": Part(Override, "scope", "name", "class_name"),
    "conversation_heads": Part(Head, "conversation_id"),
    "archives": Part(Archived, "conversation_id"),
    "members": Part(Member, "conversation_id", "user_id"),
    "messages": Log(Entry, "conversation_id", "seq_no"),
    "message_status": Part(Status, "conversation_id", "user_id"),
    "conversations": Part(Row, "user_id", "conversation_id"),
    "pending_deliveries": Part(Waiting, "user_id", "conversation_id"),
    "rechecks": Part(Recheck, "conversation_id", "s3_ref"),
    "records": Part(Record, "owner", "collection", "name"),
    "meta": Part(Fact, "key"),
}
