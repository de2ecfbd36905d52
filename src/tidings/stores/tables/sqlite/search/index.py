"""The search index of SQLite: an FTS5 table in a file of its own, beside the tables.

A file of its own, because the index may be lost: it is not in copies, its commits never wait for those of messages, and
an index that is damaged, of another form, or of tables before a restore is made anew. Removed words are gone from the
file (`secure-delete`), and the write-ahead log is emptied after a write that removed some.

The row number of a message is its mark, which follows from its time, so FTS5 answers the newest first. Messages are
written in the order of marks: FTS5 gathers words as long as row numbers rise. It reads the words from `messages`. The
column `place` has one word for the conversation. A beginning that few words have (`donau*`) is asked for as these
words, because FTS5 would read all messages of a beginning before the first answer.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from heapq import nlargest
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import apsw

from tidings.errors import Unavailable
from tidings.stores.tables.ports import NO_COUNTS
from tidings.stores.tables.search import Asked, Document, Part, Place, Term, mark_at, marks_of, sent_of
from tidings.stores.tables.sqlite.file.bounds import BUSY_S
from tidings.stores.tables.sqlite.file.engine import Port, Threads, Transaction, read_together, write_together
from tidings.stores.tables.sqlite.file.file import connect, wait_for_locks
from tidings.stores.tables.sqlite.file.sql import Bulk

_READERS = 2
_EMPTY_AGAIN_S = 1.0  # after an emptying of the log that a reader was in the way of
_NAMED_MAX = 500  # conversations that one question of FTS5 names as words
_LOOKED_MAX = 5_000  # messages that a question about more conversations looks at before it names them: 10 ms
_SAME_MAX = 64  # words that a beginning is asked for as: 2 ms
_FILE, _LINK = 1, 2  # bits of `has`
_Row = tuple[int, int, int, str, int, str]  # mark, n, seq_no, sender_id, has, words
_MARK_OF_ROW = itemgetter(0)
_LAST = "\U0010ffff"  # a character behind all that words have
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS conversations (
      n INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL UNIQUE, up_to INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS messages (
      mark INTEGER PRIMARY KEY, n INTEGER NOT NULL, seq_no INTEGER NOT NULL, sender_id TEXT NOT NULL,
      has INTEGER NOT NULL, words TEXT NOT NULL
    ) STRICT;
    CREATE VIEW IF NOT EXISTS documents AS SELECT mark, words, 'c' || n AS place FROM messages;
    CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (
      words, place, tokenize='ascii', content='documents', content_rowid='mark', columnsize=0
    );
    CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab (texts, instance);
    CREATE TABLE IF NOT EXISTS meta (store_epoch TEXT NOT NULL PRIMARY KEY) STRICT;
"""
_FORM = 3  # of these tables: an index of another form is made anew
_OPTION = "INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1)"
_EPOCH = "SELECT store_epoch FROM meta"
_PUT_EPOCH = "INSERT INTO meta (store_epoch) VALUES (?)"
_CURSORS = """
    SELECT c.conversation_id, c.up_to FROM json_each(?) AS named
    CROSS JOIN conversations AS c ON c.conversation_id = named.value
"""
_NUMBER = "SELECT n FROM conversations WHERE conversation_id = ?"
_NUMBERS = """
    SELECT c.n FROM json_each(?) AS named CROSS JOIN conversations AS c ON c.conversation_id = named.value
"""
_MOVE = Bulk(
    "conversations",
    """
    INSERT INTO conversations (conversation_id, up_to) VALUES {values}
    ON CONFLICT (conversation_id) DO UPDATE SET up_to = excluded.up_to RETURNING conversation_id, n
    """,
    columns=2,
)
_PUT = Bulk(
    "messages",
    "INSERT INTO messages (mark, n, seq_no, sender_id, has, words) VALUES {values} ON CONFLICT (mark) DO NOTHING",
    columns=6,
)
_PLACED = """
    SELECT m.mark, m.n, m.seq_no FROM json_each(?) AS named CROSS JOIN messages AS m ON m.mark = named.value
"""
_PUT_WORDS = """
    INSERT INTO texts (rowid, words, place)
    SELECT d.mark, d.words, d.place FROM json_each(?) AS named CROSS JOIN documents AS d ON d.mark = named.value
    UNION ALL
    SELECT mark, words, place FROM documents WHERE mark > ?
"""
_TOP = "SELECT coalesce(max(mark), -1) FROM messages"
_MARK = "SELECT mark FROM messages WHERE mark >= ? AND mark < ? AND n = ? AND seq_no = ?"
_MARKS = "SELECT rowid FROM texts WHERE texts MATCH ?"
_REWRITE = "INSERT INTO texts (texts) VALUES ('rebuild')"
_REMOVE_WORDS = "DELETE FROM texts WHERE rowid = ?"
_REMOVE = "DELETE FROM messages WHERE mark = ?"
_FORGET = "DELETE FROM conversations WHERE n = ?"
_CLEAR_WORDS = "INSERT INTO texts (texts) VALUES ('delete-all')"
_FIND = """
    SELECT m.mark, c.conversation_id, m.seq_no FROM texts
    CROSS JOIN messages AS m ON m.mark = texts.rowid
    CROSS JOIN conversations AS c ON c.n = m.n
    WHERE texts MATCH ?1 AND texts.rowid >= ?2 AND texts.rowid < ?3 AND m.has & ?4 = ?4
      AND (?5 IS NULL OR m.sender_id = ?5)
    ORDER BY texts.rowid DESC LIMIT ?6
"""
_BEGINNING = """
    WITH RECURSIVE found (word) AS (
      SELECT (SELECT term FROM vocabulary WHERE term >= ?1 LIMIT 1)
      UNION ALL
      SELECT (SELECT term FROM vocabulary WHERE term >= found.word || char(1) LIMIT 1) FROM found WHERE word < ?2
    )
    SELECT word FROM found WHERE word < ?2 LIMIT ?3
"""


def index_path(tables: Path) -> Path:
    return tables.with_name(f"{tables.name}-search")


async def open_index(tables: Path, store_epoch: str) -> SqliteSearch:
    """Open the index of these tables. One that cannot be read, or is of other tables, is made anew."""
    writer, *readers = await asyncio.to_thread(_open, index_path(tables), store_epoch)
    return SqliteSearch(
        Threads("search-reader", readers, read_together, NO_COUNTS),
        Threads("search-writer", [writer], write_together, NO_COUNTS, _upkeep),
    )


def _open(path: Path, store_epoch: str) -> list[apsw.Connection]:
    try:
        with _alone(path.parent):
            try:
                return _connections(path, store_epoch)
            except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, _OtherTables):
                for suffix in ("", "-wal", "-shm"):
                    with suppress(FileNotFoundError):
                        os.unlink(f"{path}{suffix}")
                return _connections(path, store_epoch)
    except (apsw.Error, OSError) as error:
        raise Unavailable(f"cannot open {path}: {error}; the index may be deleted") from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time: nobody deletes the index that another worker has just made anew."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _OtherTables(Exception):
    """The index is of the tables before a restore, or of another form."""


def _connections(path: Path, store_epoch: str) -> list[apsw.Connection]:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    writer = connect(path)
    try:
        writer.execute("PRAGMA journal_mode=WAL").fetchall()
        writer.execute("PRAGMA synchronous=NORMAL").fetchall()  # a crash loses what is then indexed again
        make_tables(writer, store_epoch)
    except Exception:
        writer.close()
        raise
    return [writer, *(connect(path, is_reader=True) for _ in range(_READERS))]


def make_tables(writer: apsw.Connection, store_epoch: str) -> None:
    """Make what is not there yet."""
    writer.execute("BEGIN IMMEDIATE")
    writer.execute(_SCHEMA)
    known = [epoch for (epoch,) in writer.execute(_EPOCH)]
    if not known:
        writer.execute(_OPTION)
        writer.execute(_PUT_EPOCH, (store_epoch,))
        writer.execute(f"PRAGMA user_version = {_FORM}")
    ((form,),) = writer.execute("PRAGMA user_version").fetchall()
    writer.execute("COMMIT")
    if known not in ([], [store_epoch]) or form != _FORM:
        raise _OtherTables


class SqliteSearch(Port):
    """One thread writes, and others read. Writes that wait together share one commit."""

    def __init__(self, reads: Threads, writes: Threads) -> None:
        super().__init__(reads, writes)
        self._threads = reads, writes

    async def cursors(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        asked = (_json(conversation_ids),)
        return dict(await self._read(lambda tx: _rows(tx, _CURSORS, asked)))

    async def put(self, parts: Sequence[Part]) -> set[str]:
        return await self._write(partial(_put, parts))

    async def find(self, asked: Asked) -> list[Place]:
        return await self._read(partial(_find, asked))

    async def forget(self, conversation_id: str) -> None:
        await self._write(partial(_forget, conversation_id))

    async def clear(self) -> None:
        await self._write(_clear)

    async def rewrite(self) -> None:
        """Make the lists of words anew from the texts: FTS5 keeps beginnings of removed words as signposts."""
        await self._write(_rewrite)

    async def close(self) -> None:
        for threads in self._threads:
            await threads.close()


def _upkeep(tx: Transaction, is_last: bool) -> float | None:
    """Empty the write-ahead log after a commit that removed words: it may still hold them."""
    if tx.has_erased:
        tx.has_erased = not _empty_log(tx.connection)
    return _EMPTY_AGAIN_S if tx.has_erased else None


def _empty_log(writer: apsw.Connection) -> bool:
    """False: somebody reads. Then it is tried again soon."""
    wait_for_locks(writer, 0)
    try:
        ((is_busy, _, _),) = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return is_busy == 0
    except apsw.BusyError:
        return False
    finally:
        wait_for_locks(writer, BUSY_S)


def _put(parts: Sequence[Part], tx: Transaction) -> set[str]:
    cursors = dict(_rows(tx, _CURSORS, (_json(part.conversation_id for part in parts),)))
    moved = [part for part in parts if cursors.get(part.conversation_id, 0) == part.after]
    numbers = dict(_MOVE.changed(tx, [(part.conversation_id, part.up_to) for part in moved]))
    rows: list[_Row] = []
    for part in moved:
        n, after, documents = numbers[part.conversation_id], part.after, part.documents
        marks = marks_of(part.conversation_id, documents)
        for mark, one in [old for old in zip(marks, documents, strict=True) if old[1].seq_no <= after]:
            _replace(tx, n, mark, one)  # nothing above the cursor is in the index
        rows += [
            (mark, n, one.seq_no, one.sender_id, _FILE * one.has_file | _LINK * one.has_link, one.words)
            for mark, one in zip(marks, documents, strict=True)
            if one.words
        ]
    if rows:
        _write(tx, rows)
    return {part.conversation_id for part in parts} - numbers.keys()


def _write(tx: Transaction, rows: list[_Row]) -> None:
    """Write messages, and give their words to FTS5 in ONE statement: it would begin a segment for each."""
    ((top,),) = _rows(tx, _TOP, ())
    below = [mark for mark in _place(tx, rows) if mark <= top]
    tx.execute(_PUT_WORDS, (_json(below), top))  # all that is above was written here, and need not be named


def _place(tx: Transaction, rows: list[_Row]) -> list[int]:
    """Put each row at its mark, or at the next one that is free. Answers the marks, in their order."""
    marks: list[int] = []
    while rows:
        rows.sort(key=_MARK_OF_ROW)
        left: list[_Row] = []
        if _PUT.write(tx, rows) < len(rows):
            there = {mark: place for mark, *place in _rows(tx, _PLACED, (_json(row[0] for row in rows),))}
            left = [row for row in rows if there[row[0]] != [row[1], row[2]]]
            taken = set(left)
            rows = [row for row in rows if row not in taken]
        marks += [row[0] for row in rows]
        rows = [(row[0] + 1, *row[1:]) for row in left]
    return sorted(marks)


def _replace(tx: Transaction, n: int, mark: int, document: Document) -> None:
    """Remove the words that the message had."""
    near = (mark, mark_at(document.sent_ms + 2), n, document.seq_no)
    for (old,) in _rows(tx, _MARK, near):
        tx.has_erased = True
        _remove(tx, old)


def _remove(tx: Transaction, mark: int) -> None:
    tx.execute(_REMOVE_WORDS, (mark,))  # FTS5 reads the words from the message
    tx.execute(_REMOVE, (mark,))


def _forget(conversation_id: str, tx: Transaction) -> None:
    tx.has_erased = True
    for (n,) in _rows(tx, _NUMBER, (conversation_id,)):
        for (mark,) in _rows(tx, _MARKS, (f"place : c{n}",)):
            _remove(tx, mark)
        tx.execute(_FORGET, (n,))


def _rewrite(tx: Transaction) -> None:
    tx.execute(_REWRITE, ())


def _clear(tx: Transaction) -> None:
    tx.has_erased = True
    tx.execute(_CLEAR_WORDS, ())
    for table in ("messages", "conversations"):
        tx.execute(f"DELETE FROM {table}", ())


def _find(asked: Asked, tx: Transaction) -> list[Place]:
    words = " AND ".join(_match(tx, term) for term in asked.terms)
    ids = asked.conversation_ids
    if len(ids) > _NAMED_MAX and (found := _among(tx, asked, frozenset(ids), words)) is not None:
        return found
    parts = (_named(tx, asked, ids[at : at + _NAMED_MAX], words) for at in range(0, len(ids), _NAMED_MAX))
    return nlargest(asked.limit, chain.from_iterable(parts))


def _among(tx: Transaction, asked: Asked, conversation_ids: frozenset[str], words: str) -> list[Place] | None:
    """The newest of all conversations, less those of others. None: too many of others are in between."""
    found: list[Place] = []
    looked = 0
    for same in _matching(tx, asked, f"words : ({words})", _LOOKED_MAX):
        looked += len(same)
        if looked == _LOOKED_MAX:
            return None
        found += [place for place in same if place < asked.below and place.conversation_id in conversation_ids]
        if len(found) >= asked.limit:
            break
    return found[: asked.limit]


def _named(tx: Transaction, asked: Asked, conversation_ids: Sequence[str], words: str) -> list[Place]:
    """The newest of these conversations. Messages of others are not looked at."""
    places = " OR ".join(f"c{n}" for (n,) in _rows(tx, _NUMBERS, (_json(conversation_ids),)))
    found: list[Place] = []
    for same in _matching(tx, asked, f"place : ({places}) AND words : ({words})", -1) if places else ():
        found += [place for place in same if place < asked.below]
        if len(found) >= asked.limit:
            break
    return found[: asked.limit]


def _matching(tx: Transaction, asked: Asked, match: str, most: int) -> Iterator[list[Place]]:
    """Messages, the newest first, those of one millisecond together and in their order. FTS5 has them in any order."""
    above, below = mark_at(asked.after_ms), mark_at(asked.below.sent_ms + 1)
    has = _FILE * asked.has_file | _LINK * asked.has_link
    rows = tx.execute(_FIND, (match, above, below, has, asked.sender_id, most))
    places = (Place(sent_of(mark), conversation_id, seq_no) for mark, conversation_id, seq_no in rows)
    for _, same in groupby(places, lambda place: place.sent_ms):
        yield sorted(same, reverse=True)


def _rows(tx: Transaction, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
    return list(tx.execute(sql, bindings))


def _json(values: Iterable[Any]) -> str:
    return json.dumps(list(values))


def _match(tx: Transaction, term: Term) -> str:
    """A phrase of FTS5, or one of a few. Words have no quotation mark in them."""
    if not term.is_prefix:
        return f'"{" ".join(term.words)}"'
    (beginning,) = term.words
    words = [word for (word,) in _rows(tx, _BEGINNING, (beginning, beginning + _LAST, _SAME_MAX + 1))]
    if not 0 < len(words) <= _SAME_MAX:
        return f'"{beginning}" *'
    return "(" + " OR ".join(f'"{word}"' for word in words) + ")"
