"""Every row of every table on SQLite, as it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from tidings.stores.tables.sqlite.file.engine import Port, Transaction
from tidings.stores.tables.sqlite.file.sql import Bulk, names
from tidings.stores.tables.whole import IDENTITY, PARTS, Part, Value


def _walk_sql(table: str, part: Part) -> str:
    key, marks = names(part.key), ", ".join("?" * len(part.key))
    only = f"AND key IN ({', '.join(map(repr, IDENTITY))})" if table == "meta" else ""
    return f"SELECT {names(part.columns)} FROM {table} WHERE ({key}) > ({marks}) {only} ORDER BY {key} LIMIT ?"


_WALKS = {table: _walk_sql(table, part) for table, part in PARTS.items()}
_PUTS = {
    table: Bulk(table, f"INSERT OR REPLACE INTO {table} ({names(part.columns)}) VALUES {{values}}", len(part.columns))
    for table, part in PARTS.items()
}


class SqliteWhole(Port):
    async def walk(self, table: str, *, after: str, limit: int) -> tuple[list[Value], str]:
        part = PARTS[table]
        place = msgspec.json.decode(after) if after else _beginning(part)
        rows = await self._read(lambda tx: tx.rows(table, _WALKS[table], (*place, limit)))
        values = [part.value_of(row) for row in rows]
        if len(rows) < limit:
            return values, ""
        return values, msgspec.json.encode([getattr(values[-1], name) for name in part.key]).decode()

    async def put(self, table: str, values: Sequence[Value]) -> None:
        await self._write(partial(_put, table, [PARTS[table].row_of(value) for value in values]))


def _beginning(part: Part) -> list[Any]:
    """Before every key: SQLite orders an empty text below all texts, and no number is negative."""
    types = dict(zip(part.columns, part.types, strict=True))
    return [-1 if types[name] == "int" else "" for name in part.key]


def _put(table: str, rows: Sequence[tuple[Any, ...]], tx: Transaction) -> None:
    _PUTS[table].write(tx, rows)
