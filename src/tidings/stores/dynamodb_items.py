"""Values as DynamoDB items, and back. Attributes carry the names of the fields in model.py.

What is None is not written; what is empty is NULL. An entry's text and member change are one attribute, `content`, a
JSON object, so that the cold tier takes it away in one step. Keys are made here alone.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from tidings import bounds
from tidings.model import Entry, Head, Member, MemberChange, Ranges, Row, Status
from tidings.stores.dynamodb_wire import Item

S = TypeVar("S", bound=msgspec.Struct)
USER_SHARDS = 16  # partitions of the index that lists users in order; each takes 1,000 writes a second


class Content(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the content attribute holds, as JSON."""

    text: str | None = None
    member: MemberChange | None = None


_encode = msgspec.json.Encoder().encode
_decode_content = msgspec.json.Decoder(Content).decode
_decode_ranges = msgspec.json.Decoder(Ranges).decode
_NO_CONTENT = Content()
_ENTRY = tuple(field for field in Entry.__struct_fields__ if field not in ("text", "member", "is_unavailable"))
_DEFAULTS: dict[str, Any] = {"is_deleted": False}  # of an entry: not worth an attribute in nearly every row


def attribute(value: object) -> dict[str, Any]:
    match value:
        case "" | b"":
            return {"NULL": True}  # older versions of DynamoDB take nothing empty
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": base64.b64encode(value).decode()}
    raise TypeError(type(value))


def plain(value: dict[str, Any]) -> Any:
    ((kind, held),) = value.items()
    match kind:
        case "N":
            return int(held)
        case "NULL":
            return ""
        case "B":
            return base64.b64decode(held)
    return held


def attributes(**values: object) -> Item:
    """Those that are not None."""
    return {name: attribute(value) for name, value in values.items() if value is not None}


def values(**values: object) -> dict[str, Any]:
    """For an expression: `:name` -> value."""
    return {f":{name}": attribute(value) for name, value in values.items()}


def to_item(value: msgspec.Struct) -> Item:
    return attributes(**{name: getattr(value, name) for name in value.__struct_fields__})


def from_item(kind: type[S], item: Item) -> S:
    """Attributes that are no field (an expiry, a shard) are left out."""
    return kind(**{name: plain(item[name]) for name in kind.__struct_fields__ if name in item})


# --- keys -----------------------------------------------------------------------------------------


def message_key(conversation_id: str, seq_no: int) -> Item:
    return attributes(conversation_id=conversation_id, seq_no=seq_no)


def sent_key(conversation_id: str, sender_id: str, message_id: str) -> Item:
    """Ids have no `#`, so two pairs never make one key."""
    return attributes(sender=f"{conversation_id}#{sender_id}", message_id=message_id)


def head_key(conversation_id: str) -> Item:
    return attributes(conversation_id=conversation_id)


def row_key(user_id: str, conversation_id: str) -> Item:
    return attributes(user_id=user_id, conversation_id=conversation_id)


def member_key(conversation_id: str, user_id: str) -> Item:
    """Of members and of message_status."""
    return attributes(conversation_id=conversation_id, user_id=user_id)


# --- entries --------------------------------------------------------------------------------------


def content_of(text: str | None, member: MemberChange | None = None) -> str | None:
    return None if text is None and member is None else _encode(Content(text, member)).decode()


def entry_item(entry: Entry) -> Item:
    fields = {name: getattr(entry, name) for name in _ENTRY}
    kept = {name: value for name, value in fields.items() if value != _DEFAULTS.get(name)}
    return attributes(**kept, content=content_of(entry.text, entry.member))


def entry_of(item: Item) -> Entry:
    fields = {name: plain(item[name]) for name in _ENTRY if name in item}
    if "digest" in fields:
        fields["digest"] = fields["digest"] or b""
    held = _decode_content(plain(item["content"])) if "content" in item else _NO_CONTENT
    return Entry(text=held.text, member=held.member, **fields)


def has_dedupe(entry: Entry) -> bool:
    return entry.message_id is not None and entry.sender_id is not None


def sent_item(entry: Entry, now_ms: int) -> Item:
    """The dedupe row. It lives for a month from now, however old the message says it is."""
    assert entry.sender_id is not None and entry.message_id is not None
    key = sent_key(entry.conversation_id, entry.sender_id, entry.message_id)
    expires = now_ms // 1000 + bounds.DYNAMODB_SENT_TTL_S
    return {**key, **attributes(seq_no=entry.seq_no, digest=entry.digest or None, expires=expires)}


# --- the other rows -------------------------------------------------------------------------------


def head_of(item: Item | None) -> Head | None:
    """None too while it is being created or deleted: it exists when it has a head."""
    return None if item is None or "head" not in item else from_item(Head, item)


def member_of(item: Item) -> Member:
    return from_item(Member, item)


def row_of(item: Item) -> Row:
    return from_item(Row, item)


def row_item(row: Row) -> Item:
    return to_item(row) | attributes(shard=user_shard(row.user_id))


def user_shard(user_id: str) -> int:
    return zlib.crc32(user_id.encode()) % USER_SHARDS


def status_item(status: Status) -> Item:
    fields = {name: getattr(status, name) for name in Status.__struct_fields__ if name != "ranges"}
    return attributes(**fields, ranges=_encode(status.ranges).decode() if status.ranges else None)


def status_of(item: Item) -> Status:
    fields = {name: plain(item[name]) for name in Status.__struct_fields__ if name in item and name != "ranges"}
    ranges = _decode_ranges(plain(item["ranges"])) if "ranges" in item else ()
    return Status(ranges=ranges, **fields)


def unique(ids: Iterable[str]) -> list[str]:
    """Each once: a batch get refuses a key that comes twice."""
    return list(dict.fromkeys(ids))
