"""Every row of every table on SQLite, as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidings.stores.tables.sqlite.file.engine import Port
from tidings.stores.tables.sqlite.file.sql import Bulk, names
from tidings.stores.tables.whole import IDENTITY, PARTS, Part, Value


def _walk_sql(table: str, part: Part[Any]) -> str:
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
        bindings = (*part.place(after), limit)
        values = [part.value_of(row) for row in await self._read(lambda tx: tx.rows(table, _WALKS[table], bindings))]
        return values, part.place_after(values, limit)

    async def put(self, table: str, values: Sequence[Value]) -> None:
        rows = [PARTS[table].row_of(value) for value in values]
        await self._write(lambda tx: _PUTS[table].write(tx, rows))
