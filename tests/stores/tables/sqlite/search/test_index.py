from __future__ import annotations

from pathlib import Path

from tests.contracts.search import doc, found
from tidings.stores.tables.search import Term
from tidings.stores.tables.sqlite.search.index import SqliteSearch, index_path, open_index


async def opened(tmp_path: Path, epoch: str = "e1") -> SqliteSearch:
    return await open_index(tmp_path / "t.db", epoch)


async def test_an_index_stays_and_is_private(tmp_path: Path) -> None:
    index = await opened(tmp_path)
    await index.put("c", [doc(1, "hello")], [], after=0, up_to=1)
    await index.close()
    assert index_path(tmp_path / "t.db").stat().st_mode & 0o077 == 0
    index = await opened(tmp_path)
    assert await found(index, ["c"], Term(("hello",))) == [("c", 1)]
    await index.close()


async def test_an_index_that_is_damaged_or_of_tables_before_a_restore_is_made_anew(tmp_path: Path) -> None:
    index = await opened(tmp_path)
    await index.put("c", [doc(1, "hello")], [], after=0, up_to=9)
    await index.close()
    index = await opened(tmp_path, "e2")
    assert await index.cursors(["c"]) == {}
    await index.close()
    index_path(tmp_path / "t.db").write_bytes(b"no database at all" * 500)
    index = await opened(tmp_path, "e2")
    assert await index.put("c", [doc(1, "hello")], [], after=0, up_to=1)
    await index.clear()
    assert await index.cursors(["c"]) == {}
    await index.close()


async def test_removed_words_are_gone_from_the_file(tmp_path: Path) -> None:
    index = await opened(tmp_path)
    await index.put("c", [doc(1, "xyzzyplugh"), doc(2, "stays")], [], after=0, up_to=2)
    await index.put("c", [], [1], after=2, up_to=3)
    await index.close()
    content = index_path(tmp_path / "t.db").read_bytes()
    assert b"xyzzyplugh" not in content and b"stays" in content
