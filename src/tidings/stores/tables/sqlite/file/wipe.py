"""Wipe: overwrites what SQLite leaves of removed rows in the unused space of its pages.

SQLite divides and rebuilds pages. It leaves copies of moved rows between the list of a page's cells and its first cell,
and the delete of a row does not reach such copies, `secure_delete` or not. So a wipe writes zeros there, into the file
itself, some hundred pages at a time. Other work goes on between two slices. Four rules make this safe and complete:

- A slice holds the write lock, so nobody adds to the log of the file.
- Under the lock it brings the whole log into the file. So each page there is the newest, and nobody else writes to it.
- It changes only bytes that no reader of the page looks at. A kill, or a reader beside it, finds a page that is valid.
- It ends with a commit, and the wipe begins with one. A commit makes the connections of all processes forget the pages
  that they have read. So none of them writes the old bytes again.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file.checkpoint import Gate, truncate_log
from tidings.stores.tables.sqlite.file.file import connect
from tidings.stores.tables.sqlite.file.turns import Turns

_CELLS_FROM = {2: 12, 5: 12, 10: 8, 13: 8}  # first byte of a b-tree page -> where the list of its cells begins
_NUMBERS = struct.Struct(">HH")  # the number of cells, and where the first of them lies
_PAGES_MAX = 2 << 24  # with more pages, a page that continues a row can begin like a b-tree page
_TAIL = 52  # of the file's header: four bytes that are zero where no page lists the types of others (auto_vacuum)
_POLL_S = 0.001


async def wipe(path: Path, clock: Clock) -> bool:
    """Wipe a file that nodes may use, then empty its log. False: a long reader is in the way. Raises Unavailable."""
    ended = threading.Event()
    try:
        return await asyncio.to_thread(_wipe, path, clock, ended)
    finally:
        ended.set()  # a thread cannot be cancelled: it ends after its slice


def _wipe(path: Path, clock: Clock, ended: threading.Event) -> bool:
    try:
        with _opened(path) as file, closing(connect(path, busy_s=bounds.TURN_S)) as writer:
            return _Wipe(path, file, writer, clock, ended).run()
    except (apsw.Error, OSError) as error:
        raise Unavailable(f"cannot wipe {path}: {error}", store="tables", op="wipe") from error


def unused(raw: bytes, page_size: int) -> Iterator[tuple[int, int]]:
    """The ranges of unused bytes in these pages that are not zero yet."""
    zeros = bytes(page_size)
    for at in range(0, len(raw), page_size):
        cells_from = _CELLS_FROM.get(raw[at])
        if cells_from is None:
            continue
        cells, first = _NUMBERS.unpack_from(raw, at + 3)
        begin, end = at + cells_from + 2 * cells, at + (first or 65_536)
        if begin < end <= at + page_size and raw[begin:end] != zeros[: end - begin]:
            yield begin, end


@contextmanager
def _opened(path: Path) -> Iterator[apsw.VFSFile]:
    """The file itself. SQLite opens it: a file closed by others would drop the locks of this process on it."""
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
    try:
        yield file
    finally:
        file.xClose()


class _Wipe:
    def __init__(
        self, path: Path, file: apsw.VFSFile, writer: apsw.Connection, clock: Clock, ended: threading.Event
    ) -> None:
        self._path = path
        self._file = file
        self._writer = writer
        self._clock = clock
        self._ended = ended
        self._turns = Turns(path, clock)
        self._page_size = int(writer.pragma("page_size"))
        self._version = int(writer.pragma("user_version"))

    def run(self) -> bool:
        slice_bytes = bounds.WIPE_PAGES * self._page_size
        with closing(connect(self._path)) as copier:
            at = 0
            while at == 0 or at < self._file.xFileSize():
                began_s = self._clock.monotonic_s()
                if not self._slice(copier, at, slice_bytes):
                    return False
                at += slice_bytes
                if self._ended.wait(self._clock.monotonic_s() - began_s):  # the others have as much time
                    return False
            self._file.xSync(apsw.SQLITE_SYNC_FULL)
            return self._empty_log()

    def _slice(self, copier: apsw.Connection, at: int, slice_bytes: int) -> bool:
        self._turns.begin(self._writer)
        try:
            if not self._is_copied(copier):
                return False
            if at == 0:
                self._check()
            is_changed = self._overwrite(max(at, self._page_size), at + slice_bytes)
            if is_changed or at == 0:
                self._writer.execute(f"PRAGMA user_version = {self._version}")  # a commit without a change
            self._writer.execute("COMMIT")
        finally:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        return True

    def _is_copied(self, copier: apsw.Connection) -> bool:
        """Bring the whole log into the file. With the write lock in our hands, new readers need nothing of the log."""
        until_s = self._clock.monotonic_s() + bounds.EMPTY_S
        while True:
            ((is_busy, in_log, copied),) = copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if not is_busy and in_log == copied:
                return True
            if self._clock.monotonic_s() > until_s:
                return False
            threading.Event().wait(_POLL_S)

    def _check(self) -> None:
        """Raise Unavailable where the first byte of a page does not say what the page is."""
        is_listed = self._file.xRead(4, _TAIL) != bytes(4)
        if is_listed or self._file.xFileSize() > _PAGES_MAX * self._page_size:
            raise Unavailable("the file uses auto_vacuum, or has more than 128 GiB", store="tables", op="wipe")

    def _overwrite(self, begin: int, end: int) -> bool:
        """Write zeros. The first page is left out: it holds the schema, and the commit writes it from memory."""
        raw = self._file.xRead(min(end, self._file.xFileSize()) - begin, begin)
        ranges = list(unused(raw, self._page_size))
        for first, last in ranges:
            self._file.xWrite(bytes(last - first), begin + first)
        return bool(ranges)

    def _empty_log(self) -> bool:
        with Gate(self._path, self._clock).closed() as is_ours:
            return is_ours and truncate_log(self._writer)
