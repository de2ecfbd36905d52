"""The search index of SQLite: an FTS5 table in a file of its own, beside the tables.

A file of its own, because the index may be lost: it is not in copies, its commits never wait for those of messages, and
an index that is damaged, or of tables before a restore, is deleted and made anew. The row number of a message is its
mark, so FTS5 itself answers the newest first. The column `place` has one word for the conversation, so a question about
few conversations reads only theirs. Removed words are gone from the file (`secure-delete`), and the write-ahead log is
emptied after a write that removed some.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from tidings.errors import Unavailable
from tidings.stores.tables.search import Asked, Document, Place, Term, mark_of
from tidings.stores.tables.sqlite.file.bounds import BUSY_S
from tidings.stores.tables.sqlite.file.file import connect, wait_for_locks

T = TypeVar("T")
_READERS = 2
_NAMED_MAX = 500  # conversations that a question names as words; more are compared one by one
_FILE, _LINK = 1, 2  # bits of `has`
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS conversations (
      n INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL UNIQUE, up_to INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS messages (
      mark INTEGER PRIMARY KEY, n INTEGER NOT NULL, seq_no INTEGER NOT NULL, sender_id TEXT NOT NULL,
      has INTEGER NOT NULL, UNIQUE (n, seq_no)
    ) STRICT;
    CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (words, place, tokenize='ascii');
    CREATE TABLE IF NOT EXISTS meta (store_epoch TEXT NOT NULL PRIMARY KEY) STRICT;
"""
_OPTION = "INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1)"
_EPOCH = "SELECT store_epoch FROM meta"
_PUT_EPOCH = "INSERT INTO meta (store_epoch) VALUES (?)"
_CURSORS = """
    SELECT c.conversation_id, c.up_to FROM json_each(?) AS named
    CROSS JOIN conversations AS c ON c.conversation_id = named.value
"""
_NUMBER = "SELECT n, up_to FROM conversations WHERE conversation_id = ?"
_NUMBERS = """
    SELECT c.n FROM json_each(?) AS named CROSS JOIN conversations AS c ON c.conversation_id = named.value
"""
_ADD = "INSERT INTO conversations (conversation_id, up_to) VALUES (?, 0)"
_MOVE = "UPDATE conversations SET up_to = ? WHERE n = ?"
_MARK = "SELECT mark FROM messages WHERE n = ? AND seq_no = ?"
_TAKEN = "SELECT 1 FROM messages WHERE mark = ?"
_PUT = "INSERT INTO messages (mark, n, seq_no, sender_id, has) VALUES (?, ?, ?, ?, ?)"
_PUT_WORDS = "INSERT INTO texts (rowid, words, place) VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM messages WHERE mark = ?"
_REMOVE_WORDS = "DELETE FROM texts WHERE rowid = ?"
_MARKS = "SELECT mark FROM messages WHERE n = ?"
_FORGET = "DELETE FROM conversations WHERE n = ?"
_FIND = """
    SELECT c.conversation_id, m.seq_no, m.mark FROM texts
    CROSS JOIN messages AS m ON m.mark = texts.rowid
    CROSS JOIN conversations AS c ON c.n = m.n
    WHERE texts MATCH ?1 AND texts.rowid >= ?2 AND texts.rowid < ?3 AND m.has & ?4 = ?4
      AND (?5 IS NULL OR m.sender_id = ?5) AND (?6 IS NULL OR m.n IN (SELECT value FROM json_each(?6)))
    ORDER BY texts.rowid DESC LIMIT ?7
"""


def index_path(tables: Path) -> Path:
    return tables.with_name(f"{tables.name}-search")


async def open_index(tables: Path, store_epoch: str) -> SqliteSearch:
    """Open the index of these tables. One that cannot be read, or is of other tables, is made anew."""
    return SqliteSearch(await asyncio.to_thread(_open, index_path(tables), store_epoch))


def _open(path: Path, store_epoch: str) -> list[apsw.Connection]:
    try:
        try:
            return _connections(path, store_epoch)
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, _OtherTables):
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{path}{suffix}")
            return _connections(path, store_epoch)
    except (apsw.Error, OSError) as error:
        raise Unavailable(f"cannot open {path}: {error}; the index may be deleted") from error


class _OtherTables(Exception):
    """The index is of the tables before a restore."""


def _connections(path: Path, store_epoch: str) -> list[apsw.Connection]:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    writer = connect(path)
    try:
        writer.execute("PRAGMA journal_mode=WAL").fetchall()
        writer.execute("PRAGMA synchronous=NORMAL").fetchall()  # a crash loses what is then indexed again
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(_SCHEMA)
        known = [epoch for (epoch,) in writer.execute(_EPOCH)]
        if not known:
            writer.execute(_OPTION)
            writer.execute(_PUT_EPOCH, (store_epoch,))
        writer.execute("COMMIT")
        if known not in ([], [store_epoch]):
            raise _OtherTables
    except Exception:
        writer.close()
        raise
    return [writer, *(connect(path, is_reader=True) for _ in range(_READERS))]


class SqliteSearch:
    """One thread writes, and others read; each has a connection of its own."""

    def __init__(self, connections: Sequence[apsw.Connection]) -> None:
        self._writer, *readers = connections
        self._readers: SimpleQueue[apsw.Connection] = SimpleQueue()
        for reader in readers:
            self._readers.put(reader)
        self._has_removed = False  # the write-ahead log may hold words that were removed
        self._writing = ThreadPoolExecutor(1, "search-writer")
        self._reading = ThreadPoolExecutor(len(readers), "search-reader")

    async def cursors(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        asked = (_json(conversation_ids),)
        return dict(await self._read(lambda tx: _rows(tx, _CURSORS, asked)))

    async def put(
        self, conversation_id: str, documents: Sequence[Document], removed: Sequence[int], *, after: int, up_to: int
    ) -> bool:
        self._has_removed |= bool(removed)
        return await self._write(partial(_put, conversation_id, documents, removed, after, up_to))

    async def find(self, asked: Asked) -> list[Place]:
        return await self._read(partial(_find, asked))

    async def forget(self, conversation_id: str) -> None:
        self._has_removed = True
        await self._write(partial(_forget, conversation_id))

    async def clear(self) -> None:
        await self._write(_clear)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        for threads in (self._writing, self._reading):
            threads.shutdown()
        while not self._readers.empty():
            self._readers.get().close()
        self._writer.close()

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        def run() -> T:
            connection = self._readers.get()
            try:
                return work(connection)
            finally:
                self._readers.put(connection)

        return await self._run(self._reading, run)

    async def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        def run() -> T:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                answer = work(self._writer)
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")
            if self._has_removed:
                self._has_removed = not _empty_log(self._writer)
            return answer

        return await self._run(self._writing, run)

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        except (apsw.Error, RuntimeError) as error:  # RuntimeError: closed
            raise Unavailable(f"search index: {error}") from error


def _empty_log(writer: apsw.Connection) -> bool:
    """False: somebody reads. Then the next write tries again."""
    wait_for_locks(writer, 0)
    try:
        ((is_busy, _, _),) = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return is_busy == 0
    except apsw.BusyError:
        return False
    finally:
        wait_for_locks(writer, BUSY_S)


def _put(
    conversation_id: str,
    documents: Sequence[Document],
    removed: Sequence[int],
    after: int,
    up_to: int,
    tx: apsw.Connection,
) -> bool:
    if not _rows(tx, _NUMBER, (conversation_id,)):
        tx.execute(_ADD, (conversation_id,))
    ((n, at),) = _rows(tx, _NUMBER, (conversation_id,))
    if at != after:
        return False
    for seq_no in (*removed, *(document.seq_no for document in documents)):
        for (mark,) in _rows(tx, _MARK, (n, seq_no)):
            _remove(tx, mark)
    for document in documents:
        mark = mark_of(conversation_id, document)
        while _rows(tx, _TAKEN, (mark,)):
            mark += 1
        has = _FILE * document.has_file | _LINK * document.has_link
        tx.execute(_PUT, (mark, n, document.seq_no, document.sender_id, has))
        tx.execute(_PUT_WORDS, (mark, " ".join(document.words), f"c{n}"))
    tx.execute(_MOVE, (up_to, n))
    return True


def _remove(tx: apsw.Connection, mark: int) -> None:
    tx.execute(_REMOVE, (mark,))
    tx.execute(_REMOVE_WORDS, (mark,))


def _forget(conversation_id: str, tx: apsw.Connection) -> None:
    for n, _ in _rows(tx, _NUMBER, (conversation_id,)):
        for (mark,) in _rows(tx, _MARKS, (n,)):
            _remove(tx, mark)
        tx.execute(_FORGET, (n,))


def _clear(tx: apsw.Connection) -> None:
    for table in ("texts", "messages", "conversations"):
        tx.execute(f"DELETE FROM {table}", ())


def _find(asked: Asked, tx: apsw.Connection) -> list[Place]:
    numbers = [n for (n,) in _rows(tx, _NUMBERS, (_json(asked.conversation_ids),))]
    if not numbers:
        return []
    match = f"words : ({' AND '.join(map(_match, asked.terms))})"
    if len(numbers) <= _NAMED_MAX:
        match = f"place : ({' OR '.join(f'c{n}' for n in numbers)}) AND {match}"
    among = None if len(numbers) <= _NAMED_MAX else _json(numbers)
    has = _FILE * asked.has_file | _LINK * asked.has_link
    found = _rows(tx, _FIND, (match, asked.above, asked.below, has, asked.sender_id, among, asked.limit))
    return [Place(*row) for row in found]


def _rows(tx: apsw.Connection, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
    return list(tx.execute(sql, bindings))


def _json(values: Iterable[Any]) -> str:
    return json.dumps(list(values))


def _match(term: Term) -> str:
    """A phrase of FTS5. Words have no quotation mark in them."""
    return f'"{" ".join(term.words)}"{" *" if term.is_prefix else ""}'
