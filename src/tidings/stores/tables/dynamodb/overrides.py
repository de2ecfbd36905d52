"""The exceptions to the rate limits on DynamoDB.

All rows share one partition, so that a query reads them together and consistently; the version is a row of its own
beside them, in another partition, and changes in the same transaction.
"""

from __future__ import annotations

from tidings.stores.tables.dynamodb.client.client import Canceled, Item
from tidings.stores.tables.dynamodb.client.items import attributes, from_item, plain, to_item, values
from tidings.stores.tables.dynamodb.client.operations import Op, Port, delete, put
from tidings.stores.tables.values import Override

_TABLE = "rate_overrides"
VERSION = attributes(part="version", row="version")


class DynamoOverrides(Port):
    """The Overrides port on DynamoDB."""

    async def put(self, override: Override) -> None:
        key = override_key(override.scope, override.name, override.class_name)
        await self._store.transact([put(_TABLE, key, key | to_item(override)), self._change()])

    async def remove(self, scope: str, name: str, class_name: str) -> bool:
        key = override_key(scope, name, class_name)
        try:
            await self._store.transact([delete(_TABLE, key, "attribute_exists(#row)"), self._change()])
        except Canceled as canceled:
            if not canceled.reasons[0].is_failed:
                raise
            return False
        return True

    async def all(self) -> list[Override]:
        pages = self._store.query(_TABLE, "#part = :part", values(part="override"))
        found = [from_item(Override, item) for item in await self._store.all(pages)]
        return sorted(found, key=lambda one: (one.scope, one.name, one.class_name))

    async def version(self) -> str:
        item = await self._store.get(_TABLE, VERSION)
        return str(plain(item["version"])) if item is not None else ""

    def _change(self) -> Op:
        return put(_TABLE, VERSION, VERSION | attributes(version=self._store.clock.random_id(8)))


def override_key(scope: str, name: str, class_name: str) -> Item:
    """The key of an override. Ids have no `#`, so two overrides never make one key."""
    return attributes(part="override", row=f"{scope}#{name}#{class_name}")
