"""A spool: messages of a mixed export, sorted by conversation and time in a file without a name.

Exports of some products hold all messages in one run, in no order that helps. They are read once, written aside, and
read again conversation by conversation, so only their places are in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec


class Spool:
    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the source
        self._places: dict[str, list[tuple[int, int]]] = {}  # key -> time and place
        self._end = 0

    def add(self, key: str, at_ms: int, value: dict[str, Any]) -> None:
        line = msgspec.json.encode(value) + b"\n"
        self._places.setdefault(key, []).append((at_ms, self._end))
        self._file.write(line)
        self._end += len(line)

    def read(self, key: str) -> Iterator[dict[str, Any]]:
        """In the order of time; what came at the same time, as it was added."""
        self._file.flush()
        for _, place in sorted(self._places.get(key, ())):
            self._file.seek(place)
            yield msgspec.json.decode(self._file.readline())
