"""Wipe: overwrites what SQLite leaves of removed rows in the unused space of its pages.

SQLite leaves copies of moved rows before the first cell of a page, `secure_delete` or not. So a wipe writes zeros,
into the file itself, some hundred pages at a time. Five rules make this safe and complete (docs/decisions/0019):
- A slice holds the write lock, so nobody adds to the log of the file.
- Under the lock it brings the whole log into the file. So each page there is the newest, and nobody else writes to it.
- It changes only bytes that no reader of the page looks at. A kill, or a reader beside it, finds a page that is valid.
- It ends with a commit. Then the connections of all processes forget the pages that they have read, and none of them
  writes the old bytes again.
- It also wipes the pages that the log names since the slice before. A write that balances pages gives them each other's
  numbers, so it moves unused bytes to a page that is wiped. A read transaction keeps the log until the next slice.
"""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file.checkpoint import Gate, lock_wiping, truncate_log
from tidings.stores.tables.sqlite.file.file import connect
from tidings.stores.tables.sqlite.file.turns import Turns

_CELLS_FROM = {2: 12, 5: 12, 10: 8, 13: 8}  # first byte of a b-tree page -> where the list of its cells begins
_NUMBERS = struct.Struct(">HH")  # the number of cells, and where the first of them lies
_PAGES_MAX = 2 << 24  # with so many pages, a page that continues a row can begin like a b-tree page
_TAIL = 52  # of the file's header: four bytes that are zero where no page lists the types of others (auto_vacuum)
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes; a frame of the log is its header and a page
_POLL_S = 0.001
_OTHER_WIPE_S = 0.02  # between two looks whether another wipe has ended


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
        self._log_salt, self._log_frames = b"", 0  # the log when the last slice had brought it into the file

    def run(self) -> bool:
        """Lock the log, then wipe. The read transaction of a wipe is in the way of another one, and of a node that
        empties the log. Without this lock they would wait for it with the write lock in their hands."""
        with open(f"{self._path}-wal", "rb", buffering=0) as log:  # SQLite has its locks on other files
            while not lock_wiping(log.fileno()):
                if self._ended.wait(_OTHER_WIPE_S):
                    return False
            return self._run(log.fileno())

    def _run(self, log: int) -> bool:
        slice_bytes = bounds.WIPE_PAGES * self._page_size
        with closing(connect(self._path)) as copier:
            at = 0
            while at == 0 or at < self._file.xFileSize():
                began_s = self._clock.monotonic_s()
                if not self._slice(copier, log, at, slice_bytes):
                    return False
                at += slice_bytes
                if self._ended.wait(self._clock.monotonic_s() - began_s):  # the others have as much time
                    return False
        self._file.xSync(apsw.SQLITE_SYNC_FULL)
        return self._empty_log()

    def _slice(self, copier: apsw.Connection, log: int, at: int, slice_bytes: int) -> bool:
        self._turns.begin(self._writer)
        try:
            written = self._written(log) if at else set()
            if copier.in_transaction:
                copier.execute("COMMIT")
            if not self._is_copied(copier, log):
                return False
            self._check()
            is_changed = self._overwrite(max(at, self._page_size), at + slice_bytes)
            for begin in sorted(begin for begin in written if self._page_size <= begin < at):
                is_changed |= self._overwrite(begin, begin + self._page_size)
            copier.execute("BEGIN; SELECT 1 FROM sqlite_schema").fetchall()
            is_last = at + slice_bytes >= self._file.xFileSize()
            # A wipe that died may have written zeros without its commit, so the first and the last slice always commit.
            if is_changed or at == 0 or is_last:
                self._writer.execute(f"PRAGMA user_version = {self._version}")  # a commit without a change
            self._writer.execute("COMMIT")
        finally:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        return True

    def _written(self, log: int) -> set[int]:
        """Where the pages begin that were written since the slice before. Some others may be among them."""
        salt, frame_bytes = _salt_of(log), _FRAME_HEADER + self._page_size
        at = _LOG_HEADER + (self._log_frames if salt == self._log_salt else 0) * frame_bytes
        begins: set[int] = set()
        while (frame := os.pread(log, _FRAME_HEADER, at))[8:16] == salt and len(frame) == _FRAME_HEADER:
            begins.add((int.from_bytes(frame[:4], "big") - 1) * self._page_size)
            at += frame_bytes
        return begins

    def _is_copied(self, copier: apsw.Connection, log: int) -> bool:
        """Bring the whole log into the file. With the write lock in our hands, new readers need nothing of the log."""
        until_s = self._clock.monotonic_s() + bounds.EMPTY_S
        while True:
            ((is_busy, in_log, copied),) = copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if not is_busy and in_log == copied:
                assert isinstance(in_log, int)
                self._log_salt, self._log_frames = _salt_of(log), in_log
                return True
            if self._clock.monotonic_s() > until_s:
                return False
            threading.Event().wait(_POLL_S)

    def _check(self) -> None:
        """Raise Unavailable where the first byte of a page does not say what the page is."""
        is_listed = self._file.xRead(4, _TAIL) != bytes(4)
        if is_listed or self._file.xFileSize() >= _PAGES_MAX * self._page_size:
            raise Unavailable("the file uses auto_vacuum, or has 128 GiB or more", store="tables", op="wipe")

    def _overwrite(self, begin: int, end: int) -> bool:
        """Write zeros. The first page is left out: it holds the schema, and the commit writes it from memory."""
        end = min(end, self._file.xFileSize())
        raw = self._file.xRead(end - begin, begin) if begin < end else b""  # a VACUUM makes the file shorter
        ranges = list(unused(raw, self._page_size))
        for first, last in ranges:
            self._file.xWrite(bytes(last - first), begin + first)
        return bool(ranges)

    def _empty_log(self) -> bool:
        with Gate(self._path, self._clock).closed() as is_ours:
            return is_ours and truncate_log(self._writer)


def _salt_of(log: int) -> bytes:
    """The number that frames of the log have, from its header. It is another one when the log begins anew."""
    return os.pread(log, _LOG_HEADER, 0)[16:24]
