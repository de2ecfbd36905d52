"""records on SQLite. `put_records` is also a part of the commit of a group (log.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tidings.errors import Conflict
from tidings.stores.tables.records import Put, Record, RecordKey
from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import Bulk, json_of, names

_COLUMNS = Record.__struct_fields__
_GET = f"""
    SELECT {names(_COLUMNS, "r")} FROM json_each(?3) AS named
    CROSS JOIN records AS r ON r.owner = ?1 AND r.collection = ?2 AND r.name = named.value
"""
_GET_EACH = f"""
    SELECT {names(_COLUMNS, "r")} FROM json_each(?) AS named CROSS JOIN records AS r
    ON r.owner = named.value ->> 0 AND r.collection = named.value ->> 1 AND r.name = named.value ->> 2
"""
_OLDEST = f"""
    SELECT {names(_COLUMNS)} FROM records
    WHERE owner = ?1 AND collection = ?2 AND name > ?3 AND (?4 = '' OR name < ?4) ORDER BY name LIMIT ?5
"""
_NEWEST = _OLDEST.replace("ORDER BY name", "ORDER BY name DESC")
_DUE = f"""
    SELECT {names(_COLUMNS)} FROM records WHERE collection = ? AND due_ms <= ? ORDER BY due_ms, owner, name LIMIT ?
"""
_VERSION = "SELECT version FROM records WHERE owner = ? AND collection = ? AND name = ?"
_PUT = Bulk(
    "records",
    """
    INSERT INTO records (owner, collection, name, value, version, due_ms) VALUES {values}
    ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, due_ms = excluded.due_ms
    """,
    columns=6,
)
_REMOVE = "DELETE FROM records WHERE owner = ? AND collection = ? AND name = ?"


class SqliteRecords(Port):
    async def get(self, owner: str, collection: str, names: Iterable[str]) -> dict[str, Record]:
        bindings = (owner, collection, json_of(names))
        found = await self._read(lambda tx: tx.rows("records", _GET, bindings))
        return {row[2]: Record(*row) for row in found}

    async def get_each(self, keys: Sequence[RecordKey]) -> dict[RecordKey, Record]:
        found = await self._read(lambda tx: tx.rows("records", _GET_EACH, (json_of(keys),)))
        return {RecordKey(*row[:3]): Record(*row) for row in found}

    async def page(
        self, owner: str, collection: str, *, limit: int, after: str = "", before: str = "", newest_first: bool = False
    ) -> list[Record]:
        sql, bindings = _NEWEST if newest_first else _OLDEST, (owner, collection, after, before, limit)
        return [Record(*row) for row in await self._read(lambda tx: tx.rows("records", sql, bindings))]

    async def put(self, puts: Sequence[Put]) -> None:
        await self._write(partial(_put, puts))

    async def due(self, collection: str, *, until_ms: int, limit: int) -> list[Record]:
        found = await self._read(lambda tx: tx.rows("records", _DUE, (collection, until_ms, limit)))
        return [Record(*row) for row in found]


def _put(puts: Sequence[Put], tx: Transaction) -> None:
    if are_stale(tx, puts):
        raise Conflict("a record has another version")
    put_records(tx, puts)


def are_stale(tx: Transaction, puts: Sequence[Put]) -> bool:
    """Whether a record has another version than its put expects."""
    return any(put.expected is not None and _version(tx, put) != put.expected for put in puts)


def _version(tx: Transaction, put: Put) -> int:
    found = tx.rows("records", _VERSION, put.key)
    return int(found[0][0]) if found else 0


def put_records(tx: Transaction, puts: Sequence[Put]) -> None:
    for put in puts:
        if put.value is None:
            tx.has_erased = True
            tx.write("records", _REMOVE, put.key)
    _PUT.write(tx, [(*put.key, put.value, 1, put.due_ms) for put in puts if put.value is not None])
