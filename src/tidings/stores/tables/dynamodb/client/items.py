"""Values as DynamoDB items, and back. Attributes carry the names of the fields in model.py.

None is not written; an empty value is NULL. An entry's content and member change are one attribute, `content`
(stored_content.py). Only this module makes keys.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from tidings.model import Content, Entry, Head, Member, MemberChange, Ranges, Row, Status
from tidings.stores.tables.dynamodb.client.client import Item
from tidings.stores.tables.stored_content import from_json, mentions_from_text, mentions_to_text, to_json

S = TypeVar("S", bound=msgspec.Struct)
USER_SHARDS = 16  # partitions of the index that lists users in order; each takes 1,000 writes a second


_encode = msgspec.json.Encoder().encode
_decode_ranges = msgspec.json.Decoder(Ranges).decode
_PAIRS = ("ranges", "read_before")  # of a status: stored as JSON, where there are any
_ENTRY = tuple(
    field for field in Entry.__struct_fields__ if field not in ("content", "member", "mentions", "is_unavailable")
)
_DEFAULTS: dict[str, Any] = {
    "is_deleted": False,
    "is_uncounted": False,
}  # of an entry: not worth an attribute in nearly every row


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
    """The attributes of an item. A value that is None is left out."""
    return {name: attribute(value) for name, value in values.items() if value is not None}


def values(**values: object) -> dict[str, Any]:
    """The values of an expression: `:name` -> value."""
    return {f":{name}": attribute(value) for name, value in values.items()}


def to_item(value: msgspec.Struct) -> Item:
    return attributes(**{name: getattr(value, name) for name in value.__struct_fields__})


def from_item(kind: type[S], item: Item) -> S:
    """Read an item. Attributes that are no field (an expiry, a shard) are left out."""
    return kind(**{name: plain(item[name]) for name in kind.__struct_fields__ if name in item})


# --- keys -----------------------------------------------------------------------------------------


def message_key(conversation_id: str, seq_no: int) -> Item:
    return attributes(conversation_id=conversation_id, seq_no=seq_no)


def sent_key(conversation_id: str, sender_id: str, message_id: str) -> Item:
    """The key of a dedupe row. Ids have no `#`, so two pairs never make one key."""
    return attributes(sender=f"{conversation_id}#{sender_id}", message_id=message_id)


def head_key(conversation_id: str) -> Item:
    return attributes(conversation_id=conversation_id)


def row_key(user_id: str, conversation_id: str) -> Item:
    return attributes(user_id=user_id, conversation_id=conversation_id)


def member_key(conversation_id: str, user_id: str) -> Item:
    """The key of a member, in members and in message_status."""
    return attributes(conversation_id=conversation_id, user_id=user_id)


# --- entries --------------------------------------------------------------------------------------


def content_of(content: Content | None, member: MemberChange | None = None) -> str | None:
    stored = to_json(content, member)
    return stored.decode() if stored is not None else None


def entry_item(entry: Entry) -> Item:
    fields = {name: getattr(entry, name) for name in _ENTRY}
    kept = {name: value for name, value in fields.items() if value != _DEFAULTS.get(name)}
    mentions = mentions_to_text(entry.mentions)
    return attributes(**kept, mentions=mentions, content=content_of(entry.content, entry.member))


def entry_of(item: Item) -> Entry:
    fields = {name: plain(item[name]) for name in _ENTRY if name in item}
    if "digest" in fields:
        fields["digest"] = fields["digest"] or b""
    content, member = from_json(fields["kind"], plain(item["content"]) if "content" in item else None)
    mentions = mentions_from_text(plain(item["mentions"])) if "mentions" in item else ()
    return Entry(content=content, member=member, mentions=mentions, **fields)


def has_dedupe(entry: Entry) -> bool:
    return entry.message_id is not None and entry.sender_id is not None


def sent_item(entry: Entry) -> Item:
    """The dedupe row. It lives as long as its message, and holds nothing of the content."""
    assert entry.sender_id is not None and entry.message_id is not None
    key = sent_key(entry.conversation_id, entry.sender_id, entry.message_id)
    return {**key, **attributes(seq_no=entry.seq_no)}


# --- the other rows -------------------------------------------------------------------------------


def head_of(item: Item | None) -> Head | None:
    """Read a head. None: the conversation does not exist, or is being created or deleted."""
    return None if item is None or "head" not in item else from_item(Head, item)


def member_of(item: Item) -> Member:
    return from_item(Member, item)


def row_of(item: Item) -> Row:
    """Read a row. Without a count in the item, the count is unknown. A row that an earlier version archived stays
    archived until its next message."""
    row = from_item(Row, item)
    if row.archived and "archived_seq" not in item:
        row = msgspec.structs.replace(row, archived_seq=row.last_seq)
    return row if "unread_count" in item else msgspec.structs.replace(row, unread_count=None)


def row_item(row: Row) -> Item:
    return to_item(row) | attributes(shard=user_shard(row.user_id))


def user_shard(user_id: str) -> int:
    return zlib.crc32(user_id.encode()) % USER_SHARDS


def status_item(status: Status) -> Item:
    fields = {name: getattr(status, name) for name in Status.__struct_fields__ if name not in _PAIRS}
    pairs = {name: _encode(found).decode() if (found := getattr(status, name)) else None for name in _PAIRS}
    return attributes(**fields, **pairs)


def status_of(item: Item) -> Status:
    fields = {name: plain(item[name]) for name in Status.__struct_fields__ if name in item}
    return Status(**fields | {name: _decode_ranges(fields[name]) for name in _PAIRS if name in fields})


def unique(ids: Iterable[str]) -> list[str]:
    """The keys, each once: a batch get refuses a key that comes twice."""
    return list(dict.fromkeys(ids))
