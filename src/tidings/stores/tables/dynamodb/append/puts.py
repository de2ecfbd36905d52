"""Puts of records as parts of a transaction, alone or with the entries of a group."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from tidings.stores.tables.dynamodb.client.client import Item
from tidings.stores.tables.dynamodb.client.items import attributes, plain, values
from tidings.stores.tables.dynamodb.client.operations import Op, Store, assign, check, delete, update
from tidings.stores.tables.records import DUE_SHARDS, Put

_TABLE = "records"
_NONE = "attribute_not_exists(#place)"
_SEEN = "#version = :expected"


def record_key(owner: str, collection: str, name: str) -> Item:
    return attributes(owner=owner, place=f"{collection}#{name}")


def put_op(put: Put) -> Op:
    """The change as a part of a transaction, on the condition that the record has the version that was seen."""
    key = record_key(*put.key)
    condition = "" if put.expected is None else _SEEN if put.expected else _NONE
    seen = values(expected=put.expected) if put.expected else {}
    if put.value is None:
        return check(_TABLE, key, condition) if put.expected == 0 else delete(_TABLE, key, condition, seen)
    due_in = None if put.due_ms is None else f"{put.collection}#{zlib.crc32(put.owner.encode()) % DUE_SHARDS}"
    change, held = assign({"value": put.value, "due_ms": put.due_ms, "due_in": due_in})
    change = change.replace("SET ", "SET #version = if_not_exists(#version, :zero) + :one, ", 1)
    return update(_TABLE, key, change, held | values(zero=0, one=1) | seen, condition)


async def are_stale(store: Store, puts: Sequence[Put]) -> bool:
    """Whether a record has another version than its put expects."""
    guarded = {(put.owner, f"{put.collection}#{put.name}"): put.expected for put in puts if put.expected is not None}
    items = await store.batch_get(_TABLE, [attributes(owner=owner, place=place) for owner, place in guarded])
    found = {(plain(item["owner"]), plain(item["place"])): plain(item["version"]) for item in items}
    return any(found.get(key, 0) != expected for key, expected in guarded.items())
