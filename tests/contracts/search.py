"""What every search index must do. An adapter without an index of its own skips the suite."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts import START_MS, fresh
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.search import Asked, Document, SearchIndex, Term, mark_at


def doc(seq_no: int, *words: str, **fields: Any) -> Document:
    given: dict[str, Any] = {"sender_id": "alice", "words": words, **fields}
    return Document(seq_no, START_MS + seq_no, **given)


def index_of(tables: Tables) -> SearchIndex:
    if tables.search is None:
        pytest.skip("these tables have no index: messages are read")
    return tables.search


async def found(index: SearchIndex, ids: list[str], *terms: Term, **fields: Any) -> list[tuple[str, int]]:
    given: dict[str, Any] = {"terms": terms, "conversation_ids": ids, "limit": 10, **fields}
    asked = Asked(**given)
    return [place[:2] for place in await index.find(asked)]


class SearchContract:
    async def test_words_prefixes_and_phrases_are_found_newest_first(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        await index.put(
            c, [doc(1, "counter", "world"), doc(2, "countdown", "北", "京"), doc(3, "京", "北")], [], after=0, up_to=3
        )
        assert await found(index, [c], Term(("count",), True)) == [(c, 2), (c, 1)]
        assert await found(index, [c], Term(("count",))) == []
        assert await found(index, [c], Term(("count",), True), Term(("world",))) == [(c, 1)]
        assert await found(index, [c], Term(("北", "京"))) == [(c, 2)]
        assert await found(index, [c], Term(("京",)), limit=1) == [(c, 3)]

    async def test_only_the_conversations_asked_about_are_found(self, tables: Tables) -> None:
        index, mine, other = index_of(tables), fresh("c"), fresh("c")
        for c in (mine, other):
            await index.put(c, [doc(1, "secret")], [], after=0, up_to=1)
        assert await found(index, [mine], Term(("secret",))) == [(mine, 1)]
        assert set(await found(index, [mine, other, fresh("c")], Term(("secret",)))) == {(mine, 1), (other, 1)}
        assert await found(index, [], Term(("secret",))) == [] == await found(index, [fresh("c")], Term(("secret",)))
        many = [mine, *(fresh("c") for _ in range(600))]
        for c in many[1:]:
            await index.put(c, [], [], after=0, up_to=1)
        assert await found(index, many, Term(("secret",))) == [(mine, 1)]

    async def test_filters_narrow_the_search(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        documents = [doc(1, "a"), doc(2, "a", sender_id="bob", has_link=True), doc(3, "a", has_file=True)]
        await index.put(c, documents, [], after=0, up_to=3)
        assert await found(index, [c], Term(("a",)), sender_id="bob") == [(c, 2)]
        assert await found(index, [c], Term(("a",)), has_link=True) == [(c, 2)]
        assert await found(index, [c], Term(("a",)), has_file=True) == [(c, 3)]
        assert await found(index, [c], Term(("a",)), above=mark_at(START_MS + 2)) == [(c, 3), (c, 2)]
        assert await found(index, [c], Term(("a",)), below=mark_at(START_MS + 2)) == [(c, 1)]

    async def test_pages_go_on_below_a_mark(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        same = [Document(n, START_MS, "alice", ("a",)) for n in range(1, 8)]
        await index.put(c, same, [], after=0, up_to=7)
        seen, below = [], mark_at(START_MS + 1)
        while page := await index.find(Asked(terms=(Term(("a",)),), conversation_ids=[c], below=below, limit=2)):
            seen += [place.seq_no for place in page]
            below = page[-1].mark
        assert sorted(seen) == [1, 2, 3, 4, 5, 6, 7]

    async def test_a_message_is_replaced_and_removed(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        await index.put(c, [doc(1, "old"), doc(2, "gone")], [], after=0, up_to=2)
        await index.put(c, [doc(1, "new")], [2], after=2, up_to=4)
        for word, seqs in (("old", []), ("gone", []), ("new", [(c, 1)])):
            assert await found(index, [c], Term((word,))) == seqs

    async def test_only_one_of_two_nodes_moves_the_cursor(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        assert await index.cursors([c]) == {}
        assert await index.put(c, [doc(1, "a")], [], after=0, up_to=1)
        assert not await index.put(c, [doc(1, "b")], [], after=0, up_to=1)
        assert await index.cursors([c, fresh("c")]) == {c: 1}
        assert await found(index, [c], Term(("b",))) == []

    async def test_a_conversation_is_forgotten_as_a_whole(self, tables: Tables) -> None:
        index, c, other = index_of(tables), fresh("c"), fresh("c")
        for one in (c, other):
            await index.put(one, [doc(1, "a")], [], after=0, up_to=1)
        await index.forget(c)
        assert await index.cursors([c, other]) == {other: 1}
        assert await found(index, [c, other], Term(("a",))) == [(other, 1)]
