"""Every row of every table on DynamoDB, as it is.

Some values are more than one item here, or a part of another item: a message with its dedupe row, a block from both
sides, a device with the row of its token, and the archive's progress on the head.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidings.stores.tables.dynamodb.append.puts import record_key
from tidings.stores.tables.dynamodb.client.client import Item
from tidings.stores.tables.dynamodb.client.items import (
    attributes,
    entry_item,
    entry_of,
    from_item,
    has_dedupe,
    head_key,
    head_of,
    member_of,
    plain,
    row_item,
    row_of,
    sent_item,
    status_item,
    status_of,
    to_item,
)
from tidings.stores.tables.dynamodb.client.operations import Port, assign, update
from tidings.stores.tables.dynamodb.devices import token_item
from tidings.stores.tables.dynamodb.overrides import VERSION, override_key
from tidings.stores.tables.dynamodb.people import block_keys
from tidings.stores.tables.dynamodb.records import record_of
from tidings.stores.tables.records import DUE_SHARDS, Record
from tidings.stores.tables.values import Block, Device, Override, Preferences
from tidings.stores.tables.whole import IDENTITY, PARTS, Archived, Choice, Fact, Value

_HOME = {"archives": "conversation_heads"}  # the table that has the items of another


class DynamoWhole(Port):
    async def walk(self, table: str, *, after: str, limit: int) -> tuple[list[Value], str]:
        place = msgspec.json.decode(after) if after else None
        items, there = await self._store.walk(_HOME.get(table, table), limit, place, is_consistent=True)
        read = _READ.get(table, lambda item: from_item(PARTS[table].kind, item))
        values = [value for value in map(read, items) if value is not None]
        return values, msgspec.json.encode(there).decode() if there is not None else ""

    async def put(self, table: str, values: Sequence[Value]) -> None:
        if table == "archives":
            await self._store.each(values, self._put_archived)
            return
        written = _WRITTEN.get(table, _plain_items)
        for name, items in written(table, values).items():
            await self._store.put_many(name, items)

    async def _put_archived(self, archived: Archived) -> None:
        change, held = assign({"archived_seq": archived.archived_seq, "archive_next_ms": archived.next_ms})
        await self._store.write(update("conversation_heads", head_key(archived.conversation_id), change, held))


# --- items to values: None where an item is only a part of a value --------------------------------


def _archived(item: Item) -> Archived | None:
    if "archived_seq" not in item or "head" not in item:
        return None
    return Archived(*(plain(item[name]) for name in ("conversation_id", "archived_seq", "archive_next_ms")))


def _block(item: Item) -> Block | None:
    return from_item(Block, item) if plain(item["part"]).startswith("by#") else None


def _choice(item: Item) -> Choice:
    choices = msgspec.json.decode(plain(item["choices"]), type=Preferences)
    return Choice(plain(item["user_id"]), choices)


def _device(item: Item) -> Device | None:
    return None if plain(item["user_id"]).startswith("#") else from_item(Device, item)


def _override(item: Item) -> Override | None:
    return from_item(Override, item) if plain(item["part"]) == "override" else None


def _fact(item: Item) -> Fact | None:
    key = plain(item["key"])
    value = item.get("value") or item.get("fence")
    return Fact(key, str(plain(value))) if key in IDENTITY and value is not None else None


_READ: dict[str, Callable[[Item], Value | None]] = {
    "conversation_heads": head_of,
    "archives": _archived,
    "members": member_of,
    "messages": entry_of,
    "message_status": status_of,
    "conversations": row_of,
    "blocks": _block,
    "preferences": _choice,
    "devices": _device,
    "rate_overrides": _override,
    "records": record_of,
    "meta": _fact,
}


# --- values to items, by the table that holds them ------------------------------------------------

Items = dict[str, list[Item]]


def _plain_items(table: str, values: Sequence[Value]) -> Items:
    return {table: [to_item(value) for value in values]}


def _message_items(table: str, values: Sequence[Value]) -> Items:
    return {
        "messages": [entry_item(one) for one in values],
        "sent": [sent_item(one) for one in values if has_dedupe(one)],
    }


def _block_items(table: str, values: Sequence[Value]) -> Items:
    return {table: [key | to_item(one) for one in values for key in block_keys(one.user_id, one.blocked_id)]}


def _choice_items(table: str, values: Sequence[Value]) -> Items:
    encode = msgspec.json.encode
    return {table: [attributes(user_id=one.user_id, choices=encode(one.choices).decode()) for one in values]}


def _device_items(table: str, values: Sequence[Value]) -> Items:
    return {table: [item for one in values for item in (to_item(one), token_item(one))]}


def _override_items(table: str, values: Sequence[Value]) -> Items:
    items = [override_key(one.scope, one.name, one.class_name) | to_item(one) for one in values]
    return {table: [*items, VERSION | attributes(version="copied")]}


def _record_item(record: Record) -> Item:
    due_in = None if record.due_ms is None else f"{record.collection}#{zlib.crc32(record.owner.encode()) % DUE_SHARDS}"
    kept = attributes(value=record.value, version=record.version, due_ms=record.due_ms, due_in=due_in)
    return record_key(*record.key) | kept


def _fact_item(fact: Fact) -> Item:
    held: Any = {"fence": int(fact.value)} if fact.key == "archive_fence" else {"value": fact.value}
    return attributes(key=fact.key, **held)


_WRITTEN: dict[str, Callable[[str, Sequence[Value]], Items]] = {
    "messages": _message_items,
    "message_status": lambda table, values: {table: [status_item(one) for one in values]},
    "conversations": lambda table, values: {table: [row_item(one) for one in values]},
    "blocks": _block_items,
    "preferences": _choice_items,
    "devices": _device_items,
    "rate_overrides": _override_items,
    "records": lambda table, values: {table: [_record_item(one) for one in values]},
    "meta": lambda table, values: {table: [_fact_item(one) for one in values]},
}
