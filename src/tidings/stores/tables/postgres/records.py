"""records on PostgreSQL. `put_records` is also a part of the commit of a group (log.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidings.errors import Conflict
from tidings.stores.tables.postgres.server.database import Port, Statements, columns, names
from tidings.stores.tables.records import Put, Record, RecordKey

_COLUMNS = names(Record.__struct_fields__)
_GET = f"SELECT {_COLUMNS} FROM @records WHERE owner = $1 AND collection = $2 AND name = ANY($3::text[])"
_GET_EACH = f"""
    SELECT {", ".join(f"r.{name}" for name in Record.__struct_fields__)} FROM @records AS r
    JOIN unnest($1::text[], $2::text[], $3::text[]) AS k (owner, collection, name)
      ON r.owner = k.owner AND r.collection = k.collection AND r.name = k.name
"""
_OLDEST = f"""
    SELECT {_COLUMNS} FROM @records
    WHERE owner = $1 AND collection = $2 AND name > $3 AND ($4 = '' OR name < $4) ORDER BY name LIMIT $5
"""
_NEWEST = _OLDEST.replace("ORDER BY name", "ORDER BY name DESC")
_DUE = f"""
    SELECT {_COLUMNS} FROM @records WHERE collection = $1 AND due_ms <= $2 ORDER BY due_ms, owner, name LIMIT $3
"""
_VERSIONS = """
    SELECT r.owner, r.collection, r.name, r.version FROM @records AS r
    JOIN unnest($1::text[], $2::text[], $3::text[]) AS k (owner, collection, name)
      ON r.owner = k.owner AND r.collection = k.collection AND r.name = k.name
    ORDER BY r.owner, r.collection, r.name FOR UPDATE OF r
"""
_PUT = """
    INSERT INTO @records AS r (owner, collection, name, value, version, due_ms) VALUES ($1, $2, $3, $4, 1, $5)
    ON CONFLICT (owner, collection, name)
    DO UPDATE SET value = excluded.value, version = r.version + 1, due_ms = excluded.due_ms
"""
# A put of a new record must not meet one that another transaction has just made.
_MAKE = """
    INSERT INTO @records (owner, collection, name, value, version, due_ms) VALUES ($1, $2, $3, $4, 1, $5)
    ON CONFLICT DO NOTHING
"""
_REMOVE = "DELETE FROM @records WHERE owner = $1 AND collection = $2 AND name = $3"


class PostgresRecords(Port):
    async def get(self, owner: str, collection: str, names: Iterable[str]) -> dict[str, Record]:
        found = await self._database.rows("records", _GET, owner, collection, list(names))
        return {row[2]: Record(*row) for row in found}

    async def get_each(self, keys: Sequence[RecordKey]) -> dict[RecordKey, Record]:
        found = await self._database.rows("records", _GET_EACH, *columns(keys, 3))
        return {RecordKey(*row[:3]): Record(*row) for row in found}

    async def page(
        self, owner: str, collection: str, *, limit: int, after: str = "", before: str = "", newest_first: bool = False
    ) -> list[Record]:
        sql = _NEWEST if newest_first else _OLDEST
        return [
            Record(*row) for row in await self._database.rows("records", sql, owner, collection, after, before, limit)
        ]

    async def put(self, puts: Sequence[Put]) -> None:
        async with self._database.transaction() as tx:
            if not await put_records(tx, puts):
                raise Conflict("a record has another version")

    async def due(self, collection: str, *, until_ms: int, limit: int) -> list[Record]:
        return [Record(*row) for row in await self._database.rows("records", _DUE, collection, until_ms, limit)]


async def are_stale(tx: Statements, puts: Sequence[Put]) -> bool:
    """Lock the records, and say whether one of them has another version than its put expects."""
    guarded = [put for put in puts if put.expected is not None]
    if not guarded:
        return False
    found = await tx.rows("records", _VERSIONS, *columns([put.key for put in guarded], 3))
    versions = {tuple(row[:3]): row[3] for row in found}
    return any(versions.get(put.key, 0) != put.expected for put in guarded)


async def put_records(tx: Statements, puts: Sequence[Put]) -> bool:
    """Make all changes in the order of the keys, so that two transactions never wait for each other.

    False: a version is another one than expected. Then the transaction must be undone.
    """
    if await are_stale(tx, puts):
        return False
    for put in sorted(puts, key=lambda put: put.key):
        if put.value is None:
            await tx.write("records", _REMOVE, *put.key)
        elif not await tx.write("records", _MAKE if put.expected == 0 else _PUT, *put.key, put.value, put.due_ms):
            return False
    return True
