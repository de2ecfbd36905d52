"""Whole: every row of every table as a value.

The other ports say what a product needs. The port `Whole` reads and writes rows as they are, so that tables can move
from one adapter to another without a change. `PARTS` lists the tables in the order in which they are copied. A part
turns a value into the columns of a row and back, in every port of SQLite and PostgreSQL: columns have the names of
fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, get_type_hints

import msgspec

from tidings.model import Entry, Head, Member, Ranges, Row, Status, User
from tidings.stores.tables.log_rows import COLUMNS, entry_of, values_of
from tidings.stores.tables.records import Record
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


V = TypeVar("V", bound=msgspec.Struct)


class Part(Generic[V]):
    """One table: the kind of its rows, the columns of its key, and how fields become columns."""

    def __init__(self, kind: type[V], *key: str, columns: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.key = key
        hints = get_type_hints(kind)
        self.columns = columns or kind.__struct_fields__
        self.types = tuple(_TYPES_OF.get(name) or _type_of(hints[name]) for name in self.columns)
        self._flags = tuple(at for at, type_ in enumerate(self.types) if type_ == "bool")
        self._coded = tuple((at, *_CODED[name]) for at, name in enumerate(self.columns) if name in _CODED)

    def row_of(self, value: V) -> tuple[Any, ...]:
        """The columns of a value."""
        row = [getattr(value, name) for name in self.columns]
        for at, encode, _ in self._coded:
            row[at] = encode(row[at])
        return tuple(row)

    def value_of(self, row: Sequence[Any]) -> V:
        values = list(row)
        for at in self._flags:
            values[at] = values[at] == 1
        for at, _, decode in self._coded:
            values[at] = decode(values[at])
        return self.kind(**dict(zip(self.columns, values, strict=True)))

    def place(self, after: str) -> list[Any]:
        """The values of a key: nothing at or before it is read. An empty text is below all texts, -1 below all numbers.

        `after` is what `place_after` returned for the page before; empty: there was none."""
        types = dict(zip(self.columns, self.types, strict=True))
        return msgspec.json.decode(after) if after else [-1 if types[name] == "int" else "" for name in self.key]

    def place_after(self, values: Sequence[V], limit: int) -> str:
        """The place after a page. Empty: the page is not full, so it is the last one."""
        last = [getattr(values[-1], name) for name in self.key] if len(values) >= limit else None
        return msgspec.json.encode(last).decode() if last else ""


class Log(Part[Entry]):
    """The messages, as log_rows.py has them."""

    def row_of(self, value: Entry) -> tuple[Any, ...]:
        return values_of(value)

    def value_of(self, row: Sequence[Any]) -> Entry:
        return entry_of(row)


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


def _type_of(hint: Any) -> str:
    """The type of a column: text, int, bool or bytes."""
    kinds = {hint, *getattr(hint, "__args__", ())}
    return next((name for kind, name in ((bool, "bool"), (int, "int"), (bytes, "bytes")) if kind in kinds), "text")


USERS = Part(User, "user_id")
API_KEYS = Part(ApiKey, "key_hash")
DEVICES = Part(Device, "user_id", "device_id")
OVERRIDES = Part(Override, "scope", "name", "class_name")
HEADS = Part(Head, "conversation_id")
MEMBERS = Part(Member, "conversation_id", "user_id")
MESSAGES = Log(Entry, "conversation_id", "seq_no", columns=COLUMNS)
STATUSES = Part(Status, "conversation_id", "user_id")
ROWS = Part(Row, "user_id", "conversation_id")
WAITING = Part(Waiting, "user_id", "conversation_id")
RECHECKS = Part(Recheck, "conversation_id", "s3_ref")
PARTS: dict[str, Part[Any]] = {
    "users": USERS,
    "api_keys": API_KEYS,
    "blocks": Part(Block, "user_id", "blocked_id"),
    "preferences": Part(Choice, "user_id"),
    "devices": DEVICES,
    "rate_overrides": OVERRIDES,
    "conversation_heads": HEADS,
    "archives": Part(Archived, "conversation_id"),
    "members": MEMBERS,
    "messages": MESSAGES,
    "message_status": STATUSES,
    "conversations": ROWS,
    "pending_deliveries": WAITING,
    "rechecks": RECHECKS,
    "records": Part(Record, "owner", "collection", "name"),
    "meta": Part(Fact, "key"),
}
