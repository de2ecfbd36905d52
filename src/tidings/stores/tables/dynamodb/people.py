"""blocks and preferences on DynamoDB.

A block is two rows in one transaction: one under the user who set it, one under the user who is blocked. So both lists
are one consistent query.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidings.stores.tables.dynamodb.client.client import Canceled, Item
from tidings.stores.tables.dynamodb.client.items import attributes, from_item, plain, to_item, unique, values
from tidings.stores.tables.dynamodb.client.operations import Op, Port, delete, put
from tidings.stores.tables.values import Block, Preferences

_TABLE = "blocks"
_NEW = "attribute_not_exists(#row)"
_THERE = "attribute_exists(#row)"


class DynamoPeople(Port):
    async def block(self, block: Block) -> bool:
        keys = block_keys(block.user_id, block.blocked_id)
        return await self._both([put(_TABLE, key, key | to_item(block), _NEW) for key in keys])

    async def unblock(self, user_id: str, blocked_id: str) -> bool:
        return await self._both([delete(_TABLE, key, _THERE) for key in block_keys(user_id, blocked_id)])

    async def blocks_of(self, user_id: str) -> list[Block]:
        pages = self._store.query(_TABLE, "#part = :part", values(part=f"by#{user_id}"))
        return [from_item(Block, item) for item in await self._store.all(pages)]

    async def blockers_of(self, user_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        ids = unique(user_ids)
        found = await self._store.each(ids, self._blockers_of)
        return dict(zip(ids, found, strict=True))

    async def preferences(self, user_ids: Iterable[str]) -> dict[str, Preferences]:
        keys = [attributes(user_id=user_id) for user_id in unique(user_ids)]
        items = await self._store.batch_get("preferences", keys)
        return {plain(item["user_id"]): msgspec.json.decode(plain(item["choices"]), type=Preferences) for item in items}

    async def put_preferences(self, user_id: str, preferences: Preferences) -> None:
        key, choices = attributes(user_id=user_id), msgspec.json.encode(preferences).decode()
        await self._store.write(put("preferences", key, key | attributes(choices=choices)))

    async def _blockers_of(self, user_id: str) -> frozenset[str]:
        pages = self._store.query(_TABLE, "#part = :part", values(part=f"of#{user_id}"), only="#user_id")
        return frozenset(plain(item["user_id"]) for item in await self._store.all(pages))

    async def _both(self, ops: list[Op]) -> bool:
        """False: the rows are as they should be already."""
        try:
            await self._store.transact(ops)
        except Canceled as canceled:
            if not canceled.reasons[0].is_failed:
                raise
            return False
        return True


def block_keys(user_id: str, blocked_id: str) -> tuple[Item, Item]:
    return attributes(part=f"by#{user_id}", row=blocked_id), attributes(part=f"of#{blocked_id}", row=user_id)
