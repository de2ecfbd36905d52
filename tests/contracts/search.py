"""What every search index must do. An adapter without an index of its own skips the suite."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts import START_MS, fresh
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.search import Asked, Document, Part, Place, SearchIndex, Term


def doc(seq_no: int, *words: str, **fields: Any) -> Document:
    given: dict[str, Any] = {"sender_id": "alice", "words": " ".join(words), **fields}
    return Document(seq_no, START_MS + seq_no, **given)


def index_of(tables: Tables) -> SearchIndex:
    if tables.search is None:
        pytest.skip("these tables have no index: messages are read")
    return tables.search


async def put(index: SearchIndex, conversation_id: str, documents: list[Document], *, after: int, up_to: int) -> bool:
    """Put one conversation, and say whether its cursor moved."""
    return not await index.put([Part(conversation_id, documents, after, up_to)])


async def found(index: SearchIndex, ids: list[str], *terms: Term, **fields: Any) -> list[tuple[str, int]]:
    given: dict[str, Any] = {"terms": terms, "conversation_ids": ids, "limit": 10, **fields}
    asked = Asked(**given)
    return [(place.conversation_id, place.seq_no) for place in await index.find(asked)]


class SearchContract:
    async def test_words_prefixes_and_phrases_are_found_newest_first(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        await put(
            index,
            c,
            [doc(1, "counter", "world"), doc(2, "countdown", "北", "京"), doc(3, "京", "北")],
            after=0,
            up_to=3,
        )
        assert await found(index, [c], Term(("count",), True)) == [(c, 2), (c, 1)]
        assert await found(index, [c], Term(("count",))) == []
        assert await found(index, [c], Term(("count",), True), Term(("world",))) == [(c, 1)]
        assert await found(index, [c], Term(("北", "京"))) == [(c, 2)]
        assert await found(index, [c], Term(("京",)), limit=1) == [(c, 3)]

    async def test_words_are_removed_by_a_put_that_leaves_the_cursor_where_it_is(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        await put(index, c, [doc(1, "goes"), doc(2, "stays")], after=0, up_to=2)
        assert await put(index, c, [doc(1)], after=2, up_to=2)
        assert await found(index, [c], Term(("goes",))) == []
        assert await found(index, [c], Term(("stays",))) == [(c, 2)] and await index.cursors([c]) == {c: 2}

    async def test_messages_with_a_date_far_away_are_found_and_removed(self, tables: Tables) -> None:
        index, c, far_ms = index_of(tables), fresh("c"), 253_402_300_799_000  # the end of the year 9999
        far = [Document(seq_no, far_ms, "alice", "hello") for seq_no in (1, 2)]
        assert await put(index, c, [*far, Document(3, -5, "alice", "hello")], after=0, up_to=3)
        assert await found(index, [c], Term(("hello",))) == [(c, 2), (c, 1), (c, 3)]
        assert await put(index, c, [Document(1, far_ms, "alice", "")], after=3, up_to=4)
        assert await found(index, [c], Term(("hello",))) == [(c, 2), (c, 3)]

    async def test_only_the_conversations_asked_about_are_found(self, tables: Tables) -> None:
        index, mine, other = index_of(tables), fresh("c"), fresh("c")
        for c in (mine, other):
            await put(index, c, [doc(1, "secret")], after=0, up_to=1)
        assert await found(index, [mine], Term(("secret",))) == [(mine, 1)]
        assert set(await found(index, [mine, other, fresh("c")], Term(("secret",)))) == {(mine, 1), (other, 1)}
        assert await found(index, [], Term(("secret",))) == [] == await found(index, [fresh("c")], Term(("secret",)))
        many = [mine, *(fresh("c") for _ in range(600))]
        for c in many[1:]:
            await put(index, c, [], after=0, up_to=1)
        assert await found(index, many, Term(("secret",))) == [(mine, 1)]

    async def test_filters_narrow_the_search(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        documents = [doc(1, "a"), doc(2, "a", sender_id="bob", has_link=True), doc(3, "a", has_file=True)]
        await put(index, c, documents, after=0, up_to=3)
        assert await found(index, [c], Term(("a",)), sender_id="bob") == [(c, 2)]
        assert await found(index, [c], Term(("a",)), has_link=True) == [(c, 2)]
        assert await found(index, [c], Term(("a",)), has_file=True) == [(c, 3)]
        assert await found(index, [c], Term(("a",)), after_ms=START_MS + 2) == [(c, 3), (c, 2)]
        assert await found(index, [c], Term(("a",)), below=Place(START_MS + 2, "", 0)) == [(c, 1)]

    async def test_pages_go_on_below_a_place_and_hits_of_one_millisecond_are_in_order(self, tables: Tables) -> None:
        index = index_of(tables)
        ids = sorted((fresh("c") for _ in range(3)), reverse=True)
        for c in (ids[1], ids[0], ids[2]):
            same = [Document(n, START_MS, "alice", "a") for n in range(1, 8)]
            await put(index, c, [*same, Document(8, START_MS + 1, "alice", "a")], after=0, up_to=8)
        newest = [Place(START_MS + 1, c, 8) for c in ids]
        wanted = [*newest, *(Place(START_MS, c, n) for c in ids for n in range(7, 0, -1))]
        for size in (1, 2, 5, 100):
            seen: list[Place] = []
            below = Place(START_MS + 2, "", 0)
            while page := await index.find(Asked(terms=(Term(("a",)),), conversation_ids=ids, below=below, limit=size)):
                seen += page
                below = page[-1]
            assert seen == wanted

    async def test_a_beginning_that_many_words_have_is_found_too(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        documents = [doc(n, f"word{n}", "many" * (n % 2) or "few") for n in range(1, 101)]
        await put(index, c, documents, after=0, up_to=100)
        assert await found(index, [c], Term(("word",), True), limit=3) == [(c, 100), (c, 99), (c, 98)]
        assert await found(index, [c], Term(("wor",), True), Term(("man",), True), limit=2) == [(c, 99), (c, 97)]
        assert await found(index, [c], Term(("word9",), True), limit=3) == [(c, 99), (c, 98), (c, 97)]

    async def test_a_message_is_replaced_and_removed(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        await put(index, c, [doc(1, "old"), doc(2, "gone")], after=0, up_to=2)
        await put(index, c, [doc(1, "new"), doc(2)], after=2, up_to=4)
        for word, seqs in (("old", []), ("gone", []), ("new", [(c, 1)])):
            assert await found(index, [c], Term((word,))) == seqs

    async def test_only_one_of_two_nodes_moves_the_cursor(self, tables: Tables) -> None:
        index, c = index_of(tables), fresh("c")
        assert await index.cursors([c]) == {}
        assert await put(index, c, [doc(1, "a")], after=0, up_to=1)
        assert not await put(index, c, [doc(1, "b")], after=0, up_to=1)
        assert await index.cursors([c, fresh("c")]) == {c: 1}
        assert await found(index, [c], Term(("b",))) == []

    async def test_a_conversation_is_forgotten_as_a_whole(self, tables: Tables) -> None:
        index, c, other = index_of(tables), fresh("c"), fresh("c")
        for one in (c, other):
            await put(index, one, [doc(1, "a")], after=0, up_to=1)
        await index.forget(c)
        assert await index.cursors([c, other]) == {other: 1}
        assert await found(index, [c, other], Term(("a",))) == [(other, 1)]

    async def test_conversations_are_put_together_and_each_moves_by_its_own_cursor(self, tables: Tables) -> None:
        index, first, second, late = index_of(tables), fresh("c"), fresh("c"), fresh("c")
        await put(index, late, [doc(1, "a")], after=0, up_to=1)
        parts = [
            Part(first, [doc(1, "a"), doc(5, "a")], after=0, up_to=5),
            Part(late, [doc(2, "b")], after=0, up_to=2),
            Part(second, [doc(3, "a"), doc(4)], after=0, up_to=4),
        ]
        assert await index.put(parts) == {late}
        ids = [first, second, late]
        assert await index.cursors(ids) == {first: 5, second: 4, late: 1}
        assert await found(index, ids, Term(("a",))) == [
            (first, 5),
            (second, 3),
            *sorted([(first, 1), (late, 1)])[::-1],
        ]
        assert await found(index, ids, Term(("b",))) == []

    @pytest.mark.parametrize("step", [None, 1 << 12], ids=["as a rule", "many share a mark"])
    async def test_messages_of_one_moment_are_all_found_and_each_is_replaced_alone(
        self, tables: Tables, step: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if step is not None:
            monkeypatch.setattr("tidings.stores.tables.search._STEP", step)
        index, c, other = index_of(tables), fresh("c"), fresh("c")
        moment = [Document(n, START_MS, "alice", f"w{n}") for n in range(1, 2_001)]
        await index.put([Part(c, moment[:1_000], after=0, up_to=1_000), Part(other, [], after=0, up_to=1)])
        await put(index, c, moment[1_000:], after=1_000, up_to=2_000)
        gone = [Document(one.seq_no, START_MS, "alice", "") for one in moment if one.seq_no % 2]
        await put(index, c, gone, after=2_000, up_to=3_000)
        for seq_no in (1, 2, 999, 1_000, 1_001, 2_000):
            assert await found(index, [c], Term((f"w{seq_no}",))) == [(c, seq_no)] * (seq_no % 2 == 0)
        left = await found(index, [c], Term(("w",), True), limit=5_000)
        assert left == [(c, seq_no) for seq_no in range(2_000, 0, -2)]
