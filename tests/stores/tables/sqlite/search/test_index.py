from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from tests.contracts.search import doc, found, put
from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.stores.tables.search import Asked, Term
from tidings.stores.tables.sqlite.file.engine import Transaction
from tidings.stores.tables.sqlite.file.file import connect
from tidings.stores.tables.sqlite.file.wipe import wipe
from tidings.stores.tables.sqlite.search import index as sqlite_index
from tidings.stores.tables.sqlite.search.index import SqliteSearch, _find, _match, index_path, open_index


async def opened(tmp_path: Path, epoch: str = "e1") -> SqliteSearch:
    return await open_index(tmp_path / "t.db", epoch)


async def test_an_index_stays_and_is_private(tmp_path: Path) -> None:
    index = await opened(tmp_path)
    await put(index, "c", [doc(1, "hello")], after=0, up_to=1)
    await index.close()
    assert index_path(tmp_path / "t.db").stat().st_mode & 0o077 == 0
    index = await opened(tmp_path)
    assert await found(index, ["c"], Term(("hello",))) == [("c", 1)]
    await index.close()


async def test_an_index_that_is_damaged_or_of_tables_before_a_restore_is_made_anew(tmp_path: Path) -> None:
    index = await opened(tmp_path)
    await put(index, "c", [doc(1, "hello")], after=0, up_to=9)
    await index.close()
    index = await opened(tmp_path, "e2")
    assert await index.cursors(["c"]) == {}
    await index.close()
    index_path(tmp_path / "t.db").write_bytes(b"no database at all" * 500)
    index = await opened(tmp_path, "e2")
    assert await put(index, "c", [doc(1, "hello")], after=0, up_to=1)
    await index.clear()
    assert await index.cursors(["c"]) == {}
    await index.close()


async def test_removed_words_are_gone_from_the_file(tmp_path: Path) -> None:
    index = await opened(tmp_path)
    await put(index, "c", [doc(1, "xyzzyplugh"), doc(2, "stays")], after=0, up_to=2)
    await put(index, "c", [doc(1)], after=2, up_to=3)
    await index.close()
    content = index_path(tmp_path / "t.db").read_bytes()
    assert b"xyzzyplugh" not in content and b"stays" in content


async def test_a_cleared_index_has_no_words_in_its_log(tmp_path: Path) -> None:
    index = await opened(tmp_path)
    path = index_path(tmp_path / "t.db")
    await put(index, "c", [doc(1, "xyzzyplugh")], after=0, up_to=1)
    await index.clear()
    log = path.with_name(path.name + "-wal")
    await eventually(lambda: b"xyzzyplugh" not in path.read_bytes() + log.read_bytes(), within_s=10)
    await index.close()


async def test_removed_words_leave_the_log_soon_after_a_reader_was_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_index, "_EMPTY_AGAIN_S", 0.01)
    index = await opened(tmp_path)
    path = index_path(tmp_path / "t.db")
    log, reader = path.with_name(path.name + "-wal"), connect(path, is_reader=True)
    await put(index, "c", [doc(1, "xyzzyplugh")], after=0, up_to=1)
    reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
    await put(index, "c", [doc(1)], after=1, up_to=2)
    assert b"xyzzyplugh" in log.read_bytes()
    reader.execute("COMMIT")
    await eventually(lambda: b"xyzzyplugh" not in log.read_bytes(), within_s=10)
    await index.close()


async def test_an_index_that_is_written_anew_keeps_no_word_as_a_signpost(tmp_path: Path) -> None:
    """FTS5 notes where a page of words begins, and keeps the note when the word is removed."""
    index, count, size = await opened(tmp_path), 3_000, 100
    words = {seq: f"word{seq:05}" for seq in range(1, count + 1)}
    for at in range(0, count, size):
        docs = [doc(seq, words[seq], f"{words[seq]}s") for seq in range(at + 1, at + size + 1)]
        assert await put(index, "c", docs, after=at, up_to=at + size)
    gone = list(range(3, count, 3))
    assert await put(index, "c", [doc(seq) for seq in gone], after=count, up_to=count)
    file = index_path(tmp_path / "t.db")
    assert await wipe(file, Clock())
    assert [words[seq] for seq in gone if words[seq].encode() in file.read_bytes()], "as FTS5 leaves it"
    await index.rewrite()
    assert await wipe(file, Clock())
    raw = file.read_bytes()
    assert [words[seq] for seq in gone if words[seq].encode() in raw] == []
    assert await found(index, ["c"], Term(("word00004",))) == [("c", 4)]
    assert await found(index, ["c"], Term(("word00003",))) == []
    await index.close()
    connect(file).execute("INSERT INTO texts (texts, rank) VALUES ('integrity-check', 1)")


def pages_touched(tmp_path: Path, asked: Asked) -> int:
    """The pages of the file that a question with a full page of hits looks at."""
    reader = connect(index_path(tmp_path / "t.db"), is_reader=True)
    assert len(_find(asked, Transaction(reader))) == asked.limit
    touched = sum(reader.status(what)[0] for what in (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS))
    reader.close()
    return touched


async def test_a_common_word_reads_no_more_in_a_larger_index(tmp_path: Path) -> None:
    touched: list[list[int]] = []
    ids = [f"c{number}" for number in range(600)]
    for size in (10, 300):
        folder = tmp_path / str(size)
        folder.mkdir()
        index = await opened(folder)
        for id_ in ids[:20]:
            documents = [doc(n, f"other{n % 7}", "common", "and", "more") for n in range(1, size + 1)]
            assert await put(index, id_, documents, after=0, up_to=size)
        await index.close()
        asked = [Asked(terms=(Term(("common",)),), conversation_ids=among, limit=20) for among in (ids, ids[:20])]
        touched.append([pages_touched(folder, one) for one in asked])
    assert all(large < 2 * small for small, large in zip(*touched, strict=True)), touched


async def test_a_beginning_that_few_words_have_is_asked_for_as_these_words(tmp_path: Path) -> None:
    """FTS5 would read all messages of a beginning before it answers the first."""
    index = await opened(tmp_path)
    documents = [doc(1, "donau", "donaudampf", "done"), *(doc(n, f"word{n}") for n in range(2, 70))]
    await put(index, "c", documents, after=0, up_to=70)
    await index.close()
    reader = Transaction(connect(index_path(tmp_path / "t.db"), is_reader=True))
    assert _match(reader, Term(("dona",), True)) == '("donau" OR "donaudampf")'
    assert _match(reader, Term(("donau",))) == '"donau"'
    assert _match(reader, Term(("word",), True)) == '"word" *' and _match(reader, Term(("x",), True)) == '"x" *'
    reader.connection.close()


async def test_the_messages_of_others_in_between_are_not_looked_at_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_index, "_LOOKED_MAX", 50)
    index = await opened(tmp_path)
    await put(index, "own0", [doc(n, "word") for n in (1, 2, 3)], after=0, up_to=3)
    await put(index, "own599", [doc(4, "word")], after=0, up_to=4)
    await put(index, "other", [doc(n, "word") for n in range(100, 200)], after=0, up_to=200)
    ids = [f"own{number}" for number in range(600)]
    wanted = [("own599", 4), ("own0", 3), ("own0", 2), ("own0", 1)]
    assert await found(index, ids, Term(("word",))) == wanted
    assert await found(index, [*ids, "other"], Term(("word",)), limit=2) == [("other", 199), ("other", 198)]
    await index.close()


async def test_an_index_of_an_earlier_form_is_made_anew_once_by_nodes_that_start_together(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    index = await opened(tmp_path)
    await put(index, "c", [doc(1, "hello")], after=0, up_to=1)
    await index.close()
    apsw.Connection(str(index_path(path))).execute("PRAGMA user_version = 0")
    nodes = await asyncio.gather(*(opened(tmp_path) for _ in range(4)))
    assert await nodes[0].cursors(["c"]) == {}
    for seq_no, node in enumerate(nodes, start=1):
        assert await put(node, "c", [doc(seq_no, "again")], after=seq_no - 1, up_to=seq_no)
    assert await found(nodes[0], ["c"], Term(("again",))) == [("c", seq_no) for seq_no in (4, 3, 2, 1)]
    for node in nodes:
        await node.close()


def contents(file: Path) -> bytes:
    return file.read_bytes() + Path(f"{file}-wal").read_bytes()


async def test_the_words_before_an_edit_are_gone_from_the_file(tmp_path: Path) -> None:
    index = await opened(tmp_path)
    await put(index, "c", [doc(1, "xyzzyplugh")], after=0, up_to=1)
    await put(index, "c", [doc(1, "other")], after=1, up_to=2)
    await put(index, "d", [doc(1, "more")], after=0, up_to=1)  # the writer has emptied the log before it
    left = contents(index_path(tmp_path / "t.db"))
    await index.close()
    assert b"xyzzyplugh" not in left and b"more" in left


async def test_messages_between_those_of_others_are_written_once(tmp_path: Path) -> None:
    """FTS5 takes the words of all messages between two marks, where no others are among them."""
    index = await opened(tmp_path)
    await put(index, "c", [doc(1, "one"), doc(5, "one")], after=0, up_to=5)
    await put(index, "d", [doc(2, "one"), doc(6, "one")], after=0, up_to=6)  # some are among them
    await put(index, "e", [doc(3, "one"), doc(4, "one")], after=0, up_to=4)  # all are between two others
    await put(index, "f", [doc(7, "one"), doc(8, "one")], after=0, up_to=8)
    await put(index, "c", [doc(9, "one"), doc(1, "two")], after=5, up_to=9)
    await put(index, "d", [doc(2)], after=6, up_to=10)
    wanted = [("c", 9), ("f", 8), ("f", 7), ("d", 6), ("c", 5), ("e", 4), ("e", 3)]
    assert await found(index, [*"cdef"], Term(("one",))) == wanted
    assert await found(index, [*"cdef"], Term(("two",))) == [("c", 1)]
    await index.close()
    connect(index_path(tmp_path / "t.db")).execute("INSERT INTO texts (texts, rank) VALUES ('integrity-check', 1)")
