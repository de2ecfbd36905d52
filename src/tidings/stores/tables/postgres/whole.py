"""Every row of every table on PostgreSQL, as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from tidings.stores.tables.postgres.server.database import Port, columns, names, unnested
from tidings.stores.tables.postgres.server.rows import Rows
from tidings.stores.tables.whole import IDENTITY, PARTS, Part, Value


def _walk_sql(table: str, part: Part[Any]) -> str:
    key, marks = names(part.key), ", ".join(f"${at}" for at in range(1, len(part.key) + 1))
    only = f"AND key IN ({', '.join(map(repr, IDENTITY))})" if table == "meta" else ""
    return (
        f"SELECT {names(part.columns)} FROM @{table} WHERE ({key}) > ({marks}) {only} "
        f"ORDER BY {key} LIMIT ${len(part.key) + 1}"
    )


def _put_sql(table: str, part: Part[Any]) -> str:
    changed = ", ".join(f"{name} = excluded.{name}" for name in part.columns if name not in part.key)
    return (
        f"INSERT INTO @{table} ({names(part.columns)}) SELECT * FROM {unnested(_ROWS[table].types)} "
        f"ON CONFLICT ({names(part.key)}) DO UPDATE SET {changed}"
    )


_ROWS = {table: Rows(part) for table, part in PARTS.items()}
_WALKS = {table: _walk_sql(table, part) for table, part in PARTS.items()}
_PUTS = {table: _put_sql(table, part) for table, part in PARTS.items()}


class PostgresWhole(Port):
    async def walk(self, table: str, *, after: str, limit: int) -> tuple[list[Value], str]:
        part = PARTS[table]
        rows = await self._database.rows(table, _WALKS[table], *part.place(after), limit)
        values = [_ROWS[table].value_of(row) for row in rows]
        return values, part.place_after(values, limit)

    async def put(self, table: str, values: Sequence[Value]) -> None:
        """Most rows are new. Where one is there already, all are put by a statement that goes over it."""
        names = PARTS[table].columns
        rows = [_ROWS[table].row_of(value) for value in values]
        try:
            await self._database.copy(table, names, rows)
        except asyncpg.UniqueViolationError:
            await self._database.write(table, _PUTS[table], *columns(rows, len(names)))
