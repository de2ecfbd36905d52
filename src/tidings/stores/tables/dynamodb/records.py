"""records on DynamoDB. A record is one item: its owner is the partition, its collection and name the place in it.

The index by time is sparse: only records with a time are in it, in a few parts. It is read a moment late.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from tidings.errors import Conflict
from tidings.stores.tables.dynamodb.append.puts import put_op, record_key
from tidings.stores.tables.dynamodb.client.client import Canceled, Item
from tidings.stores.tables.dynamodb.client.items import plain, unique, values
from tidings.stores.tables.dynamodb.client.operations import Port, Store
from tidings.stores.tables.records import DUE_SHARDS, Put, Record, RecordKey

_TABLE = "records"


class DynamoRecords(Port):
    async def get(self, owner: str, collection: str, names: Iterable[str]) -> dict[str, Record]:
        keys = [record_key(owner, collection, name) for name in unique(names)]
        found = [record_of(item) for item in await self._store.batch_get(_TABLE, keys)]
        return {record.name: record for record in found}

    async def get_each(self, keys: Sequence[RecordKey]) -> dict[RecordKey, Record]:
        found = [record_of(item) for item in await self._store.batch_get(_TABLE, [record_key(*key) for key in keys])]
        return {record.key: record for record in found}

    async def page(
        self, owner: str, collection: str, *, limit: int, after: str = "", before: str = "", newest_first: bool = False
    ) -> list[Record]:
        # `$` follows `#`, so it ends the collection. DynamoDB has no open range: the bounds themselves are left out.
        low, high = f"{collection}#{after}", f"{collection}#{before}" if before else f"{collection}$"
        if low >= high:
            return []
        where, held = "#owner = :owner AND #place BETWEEN :low AND :high", values(owner=owner, low=low, high=high)
        pages = self._store.query(_TABLE, where, held, newest_first=newest_first, limit=limit + 2)
        found = [item for item in await self._store.first(pages, limit + 2) if low < plain(item["place"]) < high]
        return [record_of(item) for item in found[:limit]]

    async def put(self, puts: Sequence[Put]) -> None:
        try:
            await self._store.transact([put_op(put) for put in puts])
        except Canceled as canceled:
            if not any(reason.is_failed for reason in canceled.reasons):
                raise
            raise Conflict("a record has another version") from canceled

    async def due(self, collection: str, *, until_ms: int, limit: int) -> list[Record]:
        parts = [f"{collection}#{shard}" for shard in range(DUE_SHARDS)]
        found = await self._store.each(parts, lambda part: self._due(part, until_ms, limit))
        order = [[(record.due_ms, record.key, record) for record in records] for records in found]
        return [record for _, _, record in heapq.merge(*order, key=lambda each: each[:2])][:limit]

    async def _due(self, part: str, until_ms: int, limit: int) -> list[Record]:
        where, held = "#due_in = :part AND #due_ms <= :until_ms", values(part=part, until_ms=until_ms)
        pages = self._store.query(_TABLE, where, held, index="by_due", limit=limit)
        return [record_of(item) for item in await self._store.first(pages, limit)]


async def delete_records(store: Store, owner: str) -> None:
    pages = store.query(_TABLE, "#owner = :owner", values(owner=owner), only="#owner, #place")
    async for items in pages:
        await store.delete_many(_TABLE, [{name: item[name] for name in ("owner", "place")} for item in items])


def record_of(item: Item) -> Record:
    collection, _, name = plain(item["place"]).partition("#")
    due_ms = plain(item["due_ms"]) if "due_ms" in item else None
    return Record(plain(item["owner"]), collection, name, plain(item["value"]), plain(item["version"]), due_ms)
