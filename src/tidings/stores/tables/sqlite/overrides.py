"""rate_overrides on SQLite: the exceptions to the rate limits.

The version is a row of `meta` and changes in the commit of the exception.
"""

from __future__ import annotations

from functools import partial

from tidings.clock import Clock
from tidings.stores.tables.sqlite.file.engine import Port, Threads, Transaction
from tidings.stores.tables.sqlite.file.sql import values_of
from tidings.stores.tables.values import Override
from tidings.stores.tables.whole import OVERRIDES

_TABLE = "rate_overrides"
_FIELDS = OVERRIDES.columns
_PUT = f"INSERT OR REPLACE INTO rate_overrides ({', '.join(_FIELDS)}) VALUES ({','.join('?' * len(_FIELDS))})"
_REMOVE = "DELETE FROM rate_overrides WHERE scope = ? AND name = ? AND class_name = ?"
_ALL = f"SELECT {', '.join(_FIELDS)} FROM rate_overrides ORDER BY scope, name, class_name"
_VERSION = "SELECT value FROM meta WHERE key = 'overrides_version'"
_CHANGE = "INSERT OR REPLACE INTO meta (key, value) VALUES ('overrides_version', ?)"


class SqliteOverrides(Port):
    def __init__(self, clock: Clock, reads: Threads, writes: Threads) -> None:
        super().__init__(reads, writes)
        self._clock = clock

    async def put(self, override: Override) -> None:
        await self._write(partial(_put, override, self._clock.random_id(8)))

    async def remove(self, scope: str, name: str, class_name: str) -> bool:
        return await self._write(partial(_remove, (scope, name, class_name), self._clock.random_id(8)))

    async def all(self) -> list[Override]:
        found = await self._read(lambda tx: tx.rows(_TABLE, _ALL, ()))
        return [OVERRIDES.value_of(row) for row in found]

    async def version(self) -> str:
        found = await self._read(lambda tx: tx.rows(_TABLE, _VERSION, ()))
        return str(found[0][0]) if found else ""


def _put(override: Override, version: str, tx: Transaction) -> None:
    tx.write(_TABLE, _PUT, values_of(override))
    tx.write(_TABLE, _CHANGE, (version,))


def _remove(key: tuple[str, str, str], version: str, tx: Transaction) -> bool:
    is_gone = tx.write(_TABLE, _REMOVE, key) > 0
    if is_gone:
        tx.write(_TABLE, _CHANGE, (version,))
    return is_gone
