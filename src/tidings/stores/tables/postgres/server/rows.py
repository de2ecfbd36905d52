"""Rows of PostgreSQL: the columns of a part of the tables with their types, and values as rows and back.

Most parts need nothing special. A text of a user may hold the character NUL, which a column of type text cannot: such a
column is bytea.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

from tidings.stores.tables.whole import Part, V

_TYPES = {"text": "text", "int": "bigint", "bool": "boolean", "bytes": "bytea"}
_TEXTS_OF_USERS = frozenset(("preview", "last_message_preview"))


class Rows(Generic[V]):
    """One table: `value_of` reads a row of the database, `row_of` makes one."""

    def __init__(self, part: Part[V]) -> None:
        self._part = part
        self.columns = part.columns
        pairs = zip(part.columns, part.types, strict=True)
        self.types = tuple("bytea" if name in _TEXTS_OF_USERS else _TYPES[type_] for name, type_ in pairs)
        self._texts = [at for at, name in enumerate(part.columns) if name in _TEXTS_OF_USERS]

    def row_of(self, value: V) -> tuple[Any, ...]:
        return tuple(self._changed(self._part.row_of(value), str.encode))

    def value_of(self, row: Sequence[Any]) -> V:
        return self._part.value_of(self._changed(row, bytes.decode))

    def _changed(self, row: Sequence[Any], change: Callable[[Any], Any]) -> Sequence[Any]:
        if not self._texts:
            return row
        values = list(row)
        for at in self._texts:
            values[at] = None if values[at] is None else change(values[at])
        return values


def to_bytes(text: str | None) -> bytes | None:
    """A text of a user, as the database has it."""
    return None if text is None else text.encode()
