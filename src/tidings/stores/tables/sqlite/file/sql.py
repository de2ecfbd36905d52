"""SQL texts: statements over many rows, lists of column names, and ids as one binding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from tidings.stores.tables.sqlite.file.engine import Transaction


def names(fields: Sequence[str], table: str = "") -> str:
    return ", ".join(f"{table}.{field}" if table else field for field in fields)


def values_of(value: msgspec.Struct) -> tuple[Any, ...]:
    return msgspec.structs.astuple(value)


def json_of(ids: Iterable[Any]) -> str:
    """Encode ids as one binding, each id once, so that each row is read once."""
    return msgspec.json.encode(list(dict.fromkeys(ids))).decode()


class Bulk:
    """One statement over many rows: `{values}` in the SQL becomes as many rows of placeholders as there are.

    Between two statements a thread may have to wait for the interpreter, inside one it does not, so rows written
    together should be one statement. The texts are made once, in few sizes, and stay prepared.
    """

    def __init__(self, table: str, sql: str, columns: int) -> None:
        row = f"({','.join('?' * columns)})"
        self._table = table
        self._texts = {size: sql.format(values=",".join([row] * size)) for size in _BULK_SIZES}

    def write(self, tx: Transaction, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run a statement that writes. Returns how many rows it changed."""
        return sum(tx.write(self._table, text, flat) for text, flat in self._pieces(rows))

    def changed(self, tx: Transaction, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Write, and answer the RETURNING values of the changed rows."""
        return [row for text, flat in self._pieces(rows) for row in tx.changed(self._table, text, flat)]

    def _pieces(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        start = 0
        while start < len(rows):
            size = _bulk_size(len(rows) - start)
            yield self._texts[size], tuple(chain.from_iterable(rows[start : start + size]))
            start += size


_BULK_SIZES = (*range(1, 17), 32, 64)


def _bulk_size(rows: int) -> int:
    """The largest size that is not above `rows`."""
    return rows if rows <= 16 else 64 if rows >= 64 else 32 if rows >= 32 else 16
