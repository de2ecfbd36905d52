"""The exceptions to the rate limits on SQLite: the port of ports_limits.py, on the threads of tables_sqlite.py.

The version stands in `meta` and changes in the commit of the row. The table is made when it is missing, so an older
file gets it. Opened by opening.py with `open_overrides`, after the tables themselves.
"""

from __future__ import annotations

from functools import partial

import msgspec

from tidings.clock import Clock
from tidings.model import Override
from tidings.stores.sqlite_engine import Hop, Threads

_TABLE = "rate_overrides"
_FIELDS = Override.__struct_fields__
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS rate_overrides (
      scope      TEXT    NOT NULL,
      name       TEXT    NOT NULL,
      class_name TEXT    NOT NULL,
      count      INTEGER,          -- NULL: no limit at all
      window_s   INTEGER NOT NULL,
      changed_ms INTEGER NOT NULL,
      PRIMARY KEY (scope, name, class_name)
    ) STRICT, WITHOUT ROWID
"""
_PUT = f"INSERT OR REPLACE INTO rate_overrides ({', '.join(_FIELDS)}) VALUES ({','.join('?' * len(_FIELDS))})"
_REMOVE = "DELETE FROM rate_overrides WHERE scope = ? AND name = ? AND class_name = ?"
_ALL = f"SELECT {', '.join(_FIELDS)} FROM rate_overrides ORDER BY scope, name, class_name"
_VERSION = "SELECT value FROM meta WHERE key = 'overrides_version'"
_CHANGE = "INSERT OR REPLACE INTO meta (key, value) VALUES ('overrides_version', ?)"


async def open_overrides(reads: Threads, writes: Threads, clock: Clock) -> SqliteOverrides:
    await writes.run(lambda hop: hop.execute(_SCHEMA))
    return SqliteOverrides(reads, writes, clock)


class SqliteOverrides:
    """Each method is one errand; its promises are written in ports_limits.py."""

    def __init__(self, reads: Threads, writes: Threads, clock: Clock) -> None:
        self._read = reads.run
        self._write = writes.run
        self._clock = clock

    async def put_override(self, override: Override) -> None:
        await self._write(partial(_put, override, self._clock.random_id(8)))

    async def remove_override(self, scope: str, name: str, class_name: str) -> bool:
        return await self._write(partial(_remove, (scope, name, class_name), self._clock.random_id(8)))

    async def overrides(self) -> list[Override]:
        return await self._read(_all)

    async def overrides_version(self) -> str:
        return await self._read(_version)


def _put(override: Override, version: str, hop: Hop) -> None:
    hop.write(_TABLE, _PUT, msgspec.structs.astuple(override))
    hop.write(_TABLE, _CHANGE, (version,))


def _remove(key: tuple[str, str, str], version: str, hop: Hop) -> bool:
    is_gone = hop.write(_TABLE, _REMOVE, key) > 0
    if is_gone:
        hop.write(_TABLE, _CHANGE, (version,))
    return is_gone


def _all(hop: Hop) -> list[Override]:
    return [Override(**dict(zip(_FIELDS, row, strict=True))) for row in hop.rows(_TABLE, _ALL, ())]


def _version(hop: Hop) -> str:
    found = hop.rows(_TABLE, _VERSION, ())
    return str(found[0][0]) if found else ""
