"""rate_overrides on PostgreSQL: the exceptions to the rate limits.

The version is a row of `meta` and changes in the commit of the exception.
"""

from __future__ import annotations

from tidings.clock import Clock
from tidings.stores.tables.postgres.server.database import Database, names
from tidings.stores.tables.values import Override
from tidings.stores.tables.whole import OVERRIDES

_TABLE = "rate_overrides"
_FIELDS = OVERRIDES.columns
_PUT = f"""
    INSERT INTO @rate_overrides ({names(_FIELDS)}) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (scope, name, class_name) DO UPDATE SET
      count = excluded.count, window_s = excluded.window_s, changed_ms = excluded.changed_ms
"""
_REMOVE = "DELETE FROM @rate_overrides WHERE scope = $1 AND name = $2 AND class_name = $3"
_ALL = f"SELECT {names(_FIELDS)} FROM @rate_overrides ORDER BY scope, name, class_name"
_VERSION = "SELECT value FROM @meta WHERE key = 'overrides_version'"
_CHANGE = """
    INSERT INTO @meta (key, value) VALUES ('overrides_version', $1)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""


class PostgresOverrides:
    def __init__(self, clock: Clock, database: Database) -> None:
        self._clock = clock
        self._database = database

    async def put(self, override: Override) -> None:
        async with self._database.transaction() as tx:
            await tx.write(_TABLE, _PUT, *(getattr(override, field) for field in _FIELDS))
            await tx.write(_TABLE, _CHANGE, self._clock.random_id(8))

    async def remove(self, scope: str, name: str, class_name: str) -> bool:
        async with self._database.transaction() as tx:
            is_gone = await tx.write(_TABLE, _REMOVE, scope, name, class_name) > 0
            if is_gone:
                await tx.write(_TABLE, _CHANGE, self._clock.random_id(8))
        return is_gone

    async def all(self) -> list[Override]:
        return [OVERRIDES.value_of(row) for row in await self._database.rows(_TABLE, _ALL)]

    async def version(self) -> str:
        found = await self._database.rows(_TABLE, _VERSION)
        return str(found[0][0]) if found else ""
