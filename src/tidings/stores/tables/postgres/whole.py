"""Every row of every table on PostgreSQL, as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
import msgspec

from tidings.stores.tables.postgres.server.database import Database, columns, names, unnested
from tidings.stores.tables.whole import IDENTITY, PARTS, Part, Value

_TYPES = {"text": "text", "int": "bigint", "bool": "boolean", "bytes": "bytea"}
_TEXTS_OF_USERS = frozenset(("preview", "last_message_preview"))  # bytea: a text of a user may hold the character NUL


def _type(name: str, type_: str) -> str:
    return "bytea" if name in _TEXTS_OF_USERS else _TYPES[type_]


def _types(part: Part) -> tuple[str, ...]:
    return tuple(_type(*pair) for pair in zip(part.columns, part.types, strict=True))


def _walk_sql(table: str, part: Part) -> str:
    key, marks = names(part.key), ", ".join(f"${at}" for at in range(1, len(part.key) + 1))
    only = f"AND key IN ({', '.join(map(repr, IDENTITY))})" if table == "meta" else ""
    return (
        f"SELECT {names(part.columns)} FROM @{table} WHERE ({key}) > ({marks}) {only} "
        f"ORDER BY {key} LIMIT ${len(part.key) + 1}"
    )


def _put_sql(table: str, part: Part) -> str:
    changed = ", ".join(f"{name} = excluded.{name}" for name in part.columns if name not in part.key)
    return (
        f"INSERT INTO @{table} ({names(part.columns)}) SELECT * FROM {unnested(_types(part))} "
        f"ON CONFLICT ({names(part.key)}) DO UPDATE SET {changed}"
    )


_WALKS = {table: _walk_sql(table, part) for table, part in PARTS.items()}
_PUTS = {table: _put_sql(table, part) for table, part in PARTS.items()}


class PostgresWhole:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def walk(self, table: str, *, after: str, limit: int) -> tuple[list[Value], str]:
        part = PARTS[table]
        place = msgspec.json.decode(after) if after else _beginning(part)
        rows = await self._database.rows(table, _WALKS[table], *place, limit)
        values = [part.value_of(row) for row in _texts(table, rows)]
        if len(rows) < limit:
            return values, ""
        return values, msgspec.json.encode([getattr(values[-1], name) for name in part.key]).decode()

    async def put(self, table: str, values: Sequence[Value]) -> None:
        """Most rows are new. Where one is there already, all are put by a statement that goes over it."""
        part = PARTS[table]
        rows = _bytes(table, [part.row_of(value) for value in values])
        try:
            await self._database.copy(table, part.columns, rows)
        except asyncpg.UniqueViolationError:
            await self._database.write(table, _PUTS[table], *columns(rows, len(part.columns)))


def _beginning(part: Part) -> list[Any]:
    types = dict(zip(part.columns, part.types, strict=True))
    return [-1 if types[name] == "int" else "" for name in part.key]


_TEXTS_AT = {
    table: [at for at, name in enumerate(part.columns) if name in _TEXTS_OF_USERS] for table, part in PARTS.items()
}


def _texts(table: str, rows: Sequence[Any]) -> Sequence[Any]:
    """Rows of the database, with the texts of users as texts."""
    at = _TEXTS_AT[table]
    return [_changed(row, at, bytes.decode) for row in rows] if at else rows


def _bytes(table: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
    """Rows as the database has them."""
    at = _TEXTS_AT[table]
    return [_changed(row, at, str.encode) for row in rows] if at else rows


def _changed(row: Sequence[Any], places: Sequence[int], change: Callable[[Any], Any]) -> list[Any]:
    values = list(row)
    for at in places:
        values[at] = None if values[at] is None else change(values[at])
    return values
