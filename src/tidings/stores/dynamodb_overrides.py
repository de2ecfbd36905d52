"""The exceptions to the rate limits on DynamoDB: the port of ports_limits.py, on the store of tables_dynamodb.py.

All rows share one partition, so that a query reads them together and consistently; the version is a row of its own
beside them, in another partition, and changes in the same transaction. Opened by opening.py as
`DynamoOverrides(tables.store)`.
"""

from __future__ import annotations

from tidings.model import Override
from tidings.stores.dynamodb_calls import Op, Store, delete, put
from tidings.stores.dynamodb_items import attributes, from_item, plain, to_item, values
from tidings.stores.dynamodb_wire import Canceled, Item

_TABLE = "rate_overrides"
_VERSION = attributes(part="version", row="version")


class DynamoOverrides:
    """Its promises are written in ports_limits.py."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put_override(self, override: Override) -> None:
        key = _key(override.scope, override.name, override.class_name)
        await self._store.transact([put(_TABLE, key, key | to_item(override)), self._change()])

    async def remove_override(self, scope: str, name: str, class_name: str) -> bool:
        key = _key(scope, name, class_name)
        try:
            await self._store.transact([delete(_TABLE, key, "attribute_exists(#row)"), self._change()])
        except Canceled as canceled:
            if not canceled.reasons[0].is_failed:
                raise
            return False
        return True

    async def overrides(self) -> list[Override]:
        pages = self._store.query(_TABLE, "#part = :part", values(part="override"))
        found = [from_item(Override, item) for item in await self._store.all(pages)]
        return sorted(found, key=lambda one: (one.scope, one.name, one.class_name))

    async def overrides_version(self) -> str:
        item = await self._store.get(_TABLE, _VERSION)
        return str(plain(item["version"])) if item is not None else ""

    def _change(self) -> Op:
        return put(_TABLE, _VERSION, _VERSION | attributes(version=self._store.clock.random_id(8)))


def _key(scope: str, name: str, class_name: str) -> Item:
    """Ids have no `#`, so two overrides never make one key."""
    return attributes(part="override", row=f"{scope}#{name}#{class_name}")
