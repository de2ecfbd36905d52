"""Connections to one PostgreSQL database: statements, transactions, and errors in the words of the ports.

A statement writes `@messages` for the table of the schema in use. No connection has a state of its own, so that a
pooler in transaction mode may stand between. A statement outside a transaction is one commit.

Whether an error is ambiguous is decided here: a statement that writes, or a COMMIT, that gets no answer may have
happened. A statement inside a transaction that fails has changed nothing, because its COMMIT was never sent.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from types import FrameType
from typing import Any

import asyncpg

from tidings.errors import StoreError, Throttled, Unavailable
from tidings.stores.tables.ports import Counts

_FOLDER = os.path.dirname(os.path.dirname(__file__))  # of the ports
COMMAND_S = 5.0  # a statement without an answer for this long counts as failed
_LOST = (OSError, asyncio.TimeoutError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError)
_ENDED = (asyncpg.AdminShutdownError, asyncpg.CrashShutdownError, asyncpg.QueryCanceledError)
_IN_THE_WAY = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.LockNotAvailableError)


class Link(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    def get_reset_query(self) -> str:
        """Nothing is left behind on a connection, so nothing is reset when it goes back to the pool."""
        return ""


class Statements:
    """Runs SQL on one connection and counts rows by table."""

    def __init__(self, link: Any, schema: str, counts: Counts) -> None:
        self._link = link
        self._schema = schema
        self._counts = counts

    async def rows(self, table: str, sql: str, *bindings: Any) -> list[Any]:
        found: list[Any] = await self._link.fetch(_qualified(sql, self._schema), *bindings)
        self._counts.read(table, len(found))
        return found

    async def write(self, table: str, sql: str, *bindings: Any) -> int:
        """Run a statement that writes, and answer how many rows it changed."""
        status: str = await self._link.execute(_qualified(sql, self._schema), *bindings)
        changed = int(status.rpartition(" ")[2])
        self._counts.write(table, changed)
        return changed

    async def changed(self, table: str, sql: str, *bindings: Any) -> list[Any]:
        """Write, and answer the RETURNING values of the changed rows."""
        found: list[Any] = await self._link.fetch(_qualified(sql, self._schema), *bindings)
        self._counts.write(table, len(found))
        return found

    async def copy(self, table: str, fields: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add rows in the binary form of COPY. A key that is taken raises UniqueViolationError, and none is added."""
        await self._link.copy_records_to_table(table, schema_name=self._schema, columns=fields, records=rows)
        self._counts.write(table, len(rows))


class Database:
    """A pool of connections. Each method is one round trip and, if it writes, one commit."""

    def __init__(self, pool: Any, schema: str, counts: Counts) -> None:
        self._pool = pool
        self.schema = schema
        self._counts = counts

    async def rows(self, table: str, sql: str, *bindings: Any) -> list[Any]:
        async with self._statements(is_write=False) as statements:
            return await statements.rows(table, sql, *bindings)

    async def write(self, table: str, sql: str, *bindings: Any) -> int:
        async with self._statements(is_write=True) as statements:
            return await statements.write(table, sql, *bindings)

    async def changed(self, table: str, sql: str, *bindings: Any) -> list[Any]:
        async with self._statements(is_write=True) as statements:
            return await statements.changed(table, sql, *bindings)

    async def copy(self, table: str, fields: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        async with self._statements(is_write=True) as statements:
            await statements.copy(table, fields, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Statements]:
        """Commit at the end of the block; an exception in the block undoes all of it."""
        async with self._statements(is_write=False) as statements:
            transaction = statements._link.transaction()
            await transaction.start()
            try:
                yield statements
            except BaseException:
                await transaction.rollback()
                raise
            try:
                await transaction.commit()
            except Exception as error:
                raise _store_error(error, is_write=True) from error

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def _statements(self, *, is_write: bool) -> AsyncIterator[Statements]:
        """A connection, and its errors as store errors. The operation is the caller's function."""
        is_sent = False
        try:
            async with self._pool.acquire(timeout=COMMAND_S) as link:
                is_sent = True
                yield Statements(link, self.schema, self._counts)
        except StoreError as error:
            error.locate("tables", _caller())
            raise
        except asyncpg.UniqueViolationError:
            raise
        except (*_LOST, asyncpg.PostgresError) as error:
            located = _store_error(error, is_write=is_write and is_sent)
            located.locate("tables", _caller())
            raise located from error


class Port:
    """One port of the adapter."""

    def __init__(self, database: Database) -> None:
        self._database = database


def _store_error(error: Exception, *, is_write: bool) -> StoreError:
    if isinstance(error, StoreError):
        return error
    if isinstance(error, _IN_THE_WAY):
        return Throttled(str(error))
    is_unanswered = isinstance(error, (*_LOST, *_ENDED))
    return Unavailable(str(error) or type(error).__name__, is_ambiguous=is_write and is_unanswered)


def _caller() -> str:
    """The name of the port's method, for the log line of a store error."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        is_port = code.co_filename.startswith(_FOLDER) and code.co_filename != __file__
        if is_port and not code.co_name.startswith("_"):
            return code.co_name
        frame = frame.f_back
    return ""


_NAME = re.compile("@(?=[a-z])")  # the operator @@ stays


@lru_cache(maxsize=1024)
def _qualified(sql: str, schema: str) -> str:
    return _NAME.sub(f'"{schema}".', sql)


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """The rows as one list for each column: a statement takes them as arrays, and unnests them."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def names(fields: Sequence[str], table: str = "") -> str:
    return ", ".join(f"{table}.{field}" if table else field for field in fields)


def unnested(types: Sequence[str], start: int = 1) -> str:
    """`unnest($1::text[], $2::bigint[])` for columns of these types."""
    return f"unnest({', '.join(f'${start + at}::{type_}[]' for at, type_ in enumerate(types))})"
