"""Operations on tables: get, batch get, query, conditional write, transaction, batch delete, many at once.

In an expression every attribute is written `#name` and every value `:name`; the aliases that DynamoDB wants are made
from that. Reads are consistent. Items that a batch leaves unprocessed are asked for again until the operation's
deadline, so an answer is never partial. The modules of the ports call DynamoDB through this module only.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from copy import copy
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

from tidings.errors import Throttled
from tidings.stores.tables.dynamodb.client import bounds
from tidings.stores.tables.dynamodb.client.client import ConditionFailed, Item, Place, Wire
from tidings.stores.tables.dynamodb.client.items import attribute
from tidings.stores.tables.ports import Counts

T = TypeVar("T")
R = TypeVar("R")
Verb = Literal["Put", "Update", "Delete", "ConditionCheck"]
Pages = AsyncGenerator[list[Item], None]
_ALIAS = re.compile(r"#(\w+)")


@lru_cache(maxsize=512)
def _names(*texts: str) -> dict[str, str]:
    return {f"#{name}": name for text in texts for name in _ALIAS.findall(text)}


def _expressions(values: Item | None = None, **texts: str) -> dict[str, Any]:
    """Build the expressions of a request, with their names and values."""
    used = {name: text for name, text in texts.items() if text}
    parts: dict[str, Any] = {f"{name}Expression": text for name, text in used.items()}
    if names := _names(*used.values()):
        parts["ExpressionAttributeNames"] = names
    if values:
        parts["ExpressionAttributeValues"] = values
    return parts


def assign(values: dict[str, object]) -> tuple[str, Item]:
    """An update that gives these attributes their values, and takes away those that are None; and its values."""
    there = {name: value for name, value in values.items() if value is not None}
    gone = [f"#{name}" for name in values if name not in there]
    change = f"SET {', '.join(f'#{name} = :{name}' for name in there)}" if there else ""
    change += f" REMOVE {', '.join(gone)}" if gone else ""
    return change.strip(), {f":{name}": attribute(value) for name, value in there.items()}


class Op(NamedTuple):
    """One write: a request of its own, or a part of a transaction. `key` reads back what stood in its way."""

    verb: Verb
    table: str
    key: Item
    body: dict[str, Any]


def put(table: str, key: Item, item: Item, condition: str = "", values: Item | None = None) -> Op:
    return Op("Put", table, key, {"Item": item, **_expressions(values, Condition=condition)})


def update(table: str, key: Item, change: str, values: Item, condition: str = "") -> Op:
    return Op("Update", table, key, {"Key": key, **_expressions(values, Update=change, Condition=condition)})


def delete(table: str, key: Item, condition: str = "", values: Item | None = None) -> Op:
    return Op("Delete", table, key, {"Key": key, **_expressions(values, Condition=condition)})


def check(table: str, key: Item, condition: str, values: Item | None = None) -> Op:
    return Op("ConditionCheck", table, key, {"Key": key, **_expressions(values, Condition=condition)})


class Store:
    """The tables of one prefix."""

    def __init__(self, wire: Wire, place: Place, counts: Counts) -> None:
        self._wire = wire
        self._prefix = place.prefix
        self._count_read = counts.read
        self._count_write = counts.write
        self._bulk = asyncio.Semaphore(place.links // 2)
        self._throttled_s: float | None = None
        self.clock = wire.clock

    def with_throttled_s(self, throttled_s: float) -> Store:
        """The same tables for writes that are given up sooner while DynamoDB throttles them."""
        hurried = copy(self)
        hurried._throttled_s = throttled_s
        return hurried

    # --- reads ------------------------------------------------------------------------------------
    async def get(self, table: str, key: Item) -> Item | None:
        reply = await self._wire.call("GetItem", self._request(table, Key=key, ConsistentRead=True))
        item: Item | None = reply.get("Item")
        self._count_read(table, item is not None)
        return item

    async def batch_get(self, table: str, keys: Sequence[Item]) -> list[Item]:
        """Read the items that exist, in no order. `keys` must have each key once."""
        chunks = [keys[at : at + bounds.BATCH_GET_MAX] for at in range(0, len(keys), bounds.BATCH_GET_MAX)]
        found = await self.each(chunks, lambda chunk: self._batch_get(table, chunk))
        return [item for items in found for item in items]

    async def _batch_get(self, table: str, keys: Sequence[Item]) -> list[Item]:
        name, effort = self._prefix + table, self._wire.effort()
        wanted: dict[str, Any] = {name: {"Keys": keys, "ConsistentRead": True}}
        found: list[Item] = []
        while True:
            payload = {"RequestItems": wanted, "ReturnConsumedCapacity": "TOTAL"}
            reply = await self._wire.call("BatchGetItem", payload, effort)
            found += reply["Responses"].get(name, ())
            wanted = reply.get("UnprocessedKeys") or {}
            if not wanted:
                self._count_read(table, len(found))
                return found
            await effort.pause(Throttled("DynamoDB leaves keys unprocessed"))

    def query(
        self,
        table: str,
        where: str,
        values: Item,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        only: str = "",
        matching: str = "",
        index: str | None = None,
    ) -> Pages:
        """Read the pages of a query until the end. A page reads `limit` rows before `matching` is applied."""
        request = self._request(table, ScanIndexForward=not newest_first, ConsistentRead=index is None)
        request |= _expressions(values, KeyCondition=where, Projection=only, Filter=matching)
        request |= {} if limit is None else {"Limit": limit}
        request |= {} if index is None else {"IndexName": index}
        return self._pages("Query", table, request)

    async def first(self, pages: Pages, limit: int) -> list[Item]:
        """The first `limit` rows of a query."""
        found: list[Item] = []
        async with aclosing(pages):
            async for page in pages:
                found += page
                if len(found) >= limit:
                    break
        return found[:limit]

    async def all(self, pages: Pages) -> list[Item]:
        return [item async for page in pages for item in page]

    def scan(self, table: str, limit: int) -> Pages:
        """A whole small table in no order, `limit` rows a page."""
        return self._pages("Scan", table, self._request(table, Limit=limit, ConsistentRead=True))

    async def _pages(self, op: str, table: str, request: dict[str, Any]) -> Pages:
        after: Item | None = None
        while True:
            reply = await self._wire.call(op, request | ({"ExclusiveStartKey": after} if after else {}))
            self._count_read(table, reply["ScannedCount"])
            yield reply["Items"]
            after = reply.get("LastEvaluatedKey")
            if not after:
                return

    async def walk(
        self, table: str, limit: int, after: Item | None, *, is_consistent: bool = False
    ) -> tuple[list[Item], Item | None]:
        """Read some rows of a whole table in any order, and the place of the next rows; None: that was the end."""
        request = self._request(table, Limit=limit, ConsistentRead=is_consistent)
        request |= {"ExclusiveStartKey": after} if after else {}
        reply = await self._wire.call("Scan", request)
        self._count_read(table, reply["ScannedCount"])
        return reply["Items"], reply.get("LastEvaluatedKey") or None

    # --- writes -----------------------------------------------------------------------------------
    async def write(self, op: Op, *, returns: str = "NONE") -> Item:
        """Write, and with returns="ALL_NEW" answer the row as it is now. Raises ConditionFailed."""
        request = self._request(op.table, **op.body, ReturnValues=returns)
        if "ConditionExpression" in op.body:
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        reply = await self._wire.call(f"{op.verb}Item", request)
        self._count_write(op.table, 1)
        item: Item = reply.get("Attributes", {})
        return item

    async def standing(self, op: Op, failed: ConditionFailed) -> Item | None:
        """The row that a write met. Older versions of DynamoDB do not answer the row, so it is read."""
        return failed.item or await self.get(op.table, op.key)

    async def transact(self, ops: Sequence[Op]) -> None:
        """Write all or nothing. Raises Canceled. After a lost reply, the token makes the retry answer like the first
        try. It is new for each transaction, because the same rows may be written again after they were deleted."""
        assert 0 < len(ops) <= bounds.TRANSACTION_ITEMS_MAX
        parts = [{op.verb: {"TableName": self._prefix + op.table, **op.body, **_told(op)}} for op in ops]
        token = self.clock.random_id(16)
        payload = {"TransactItems": parts, "ClientRequestToken": token, "ReturnConsumedCapacity": "TOTAL"}
        await self._wire.call("TransactWriteItems", payload, self._wire.effort(self._throttled_s))
        for op in ops:
            if op.verb != "ConditionCheck":
                self._count_write(op.table, 1)

    async def put_many(self, table: str, items: Iterable[Item]) -> None:
        """Put items without a condition. Use it only where writing the same row again changes nothing."""
        await self._batch_write(table, [{"PutRequest": {"Item": item}} for item in items])

    async def delete_many(self, table: str, keys: Iterable[Item]) -> None:
        await self._batch_write(table, [{"DeleteRequest": {"Key": key}} for key in keys])

    async def _batch_write(self, table: str, writes: Sequence[dict[str, Any]]) -> None:
        size = bounds.BATCH_WRITE_MAX
        chunks = [writes[at : at + size] for at in range(0, len(writes), size)]
        await self.each(chunks, lambda chunk: self._write_chunk(table, chunk))

    async def _write_chunk(self, table: str, writes: Sequence[dict[str, Any]]) -> None:
        effort = self._wire.effort()
        waiting: dict[str, Any] = {self._prefix + table: writes}
        while waiting:
            payload = {"RequestItems": waiting, "ReturnConsumedCapacity": "TOTAL"}
            reply = await self._wire.call("BatchWriteItem", payload, effort)
            waiting = reply.get("UnprocessedItems") or {}
            if waiting:
                effort.is_unclear = True  # some are written, some are not
                await effort.pause(Throttled("DynamoDB leaves items unprocessed"))
        self._count_write(table, len(writes))

    # --- many at once -----------------------------------------------------------------------------
    async def each(self, things: Sequence[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
        """Do the work for each item and return the answers in order. Every item is tried; then the first error is
        raised. Together they use half of the connections, so that a rename of a thousand rows delays no send. `work`
        must not call `each` again."""
        if len(things) == 1:
            return [await work(things[0])]

        async def one(thing: T) -> R:
            async with self._bulk:
                return await work(thing)

        tasks = [asyncio.ensure_future(one(thing)) for thing in things]
        await asyncio.gather(*tasks, return_exceptions=True)
        return [task.result() for task in tasks]  # an answer may be an error too, which nobody raised

    def _request(self, table: str, **parts: Any) -> dict[str, Any]:
        return {"TableName": self._prefix + table, "ReturnConsumedCapacity": "TOTAL", **parts}


class Port:
    """One port of the adapter."""

    def __init__(self, store: Store) -> None:
        self._store = store


async def remove(store: Store, op: Op) -> bool:
    """Delete a row on a condition. True: this call removed it."""
    try:
        await store.write(op)
    except ConditionFailed as failed:
        return failed.is_repeated and await store.standing(op, failed) is None
    return True


def _told(op: Op) -> dict[str, str]:
    return {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if "ConditionExpression" in op.body else {}
