from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.messaging.search.test_indexer import patch
from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import BadCursor, BadRequest, NotFound
from tidings.messaging.search.search import Found, Question, Search


@pytest.fixture(params=["index", "reading"])
async def search(request: pytest.FixtureRequest, a: FaultyNode) -> AsyncIterator[Search]:
    """Search with the index of the tables, and where the tables have none."""
    core = a.core
    if request.param == "index":
        yield core.searching.search
    else:
        yield Search(
            index=None,
            indexer=core.searching.indexer,
            access=core.access,
            blocks=core.blocks,
            entries=core.log,
            inboxes=core.tables.inboxes,
            clock=core.clock,
            observe=lambda seconds: None,
        )


async def find(a: FaultyNode, search: Search, user_id: str, q: str, **fields: object) -> Found:
    await a.core.searching.indexer.follow()
    await a.core.rows.flush()
    search._scopes.clear()
    return await search.find(user_id, Question(q=q, **fields))  # type: ignore[arg-type]


async def seqs(a: FaultyNode, search: Search, user_id: str, q: str, **fields: object) -> list[int]:
    return [hit.entry.seq_no for hit in (await find(a, search, user_id, q, **fields)).hits]


async def test_messages_are_found_newest_first_with_snippets(a: FaultyNode, direct: str, search: Search) -> None:
    for n, text in enumerate(("我明天去北京开会", "Die Donaudampfschifffahrt", "gut 👍", "in Élodies Haus")):
        await a.send("alice", direct, f"m{n}", text)
    for q, seq in (("北京", 1), ("donaudampf", 2), ("👍", 3), ("ELODIE", 4)):
        assert await seqs(a, search, "bob", q) == [seq], q
    found = await find(a, search, "bob", "haus")
    assert found.hits[0].snippet == [("in Élodies ", False), ("Haus", True)]
    assert found.is_complete and found.next_cursor is None
    await a.send("bob", direct, "m9", "noch ein Haus")
    assert await seqs(a, search, "alice", "haus") == [5, 4]


async def test_a_stranger_finds_nothing_and_learns_nothing(a: FaultyNode, group: str, search: Search) -> None:
    await a.send("alice", group, "m1", "secret plan")
    assert await seqs(a, search, "stranger", "secret") == []
    with pytest.raises(NotFound):
        await find(a, search, "stranger", "secret", conversation_id=group)
    with pytest.raises(NotFound):
        await find(a, search, "stranger", "secret", conversation_id="no-such")
    assert await seqs(a, search, "bob", "secret", conversation_id=group)
    await a.core.directory.remove("alice", group, "bob")
    assert await seqs(a, search, "bob", "secret") == []


async def test_a_newcomer_finds_nothing_from_before(a: FaultyNode, search: Search) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], name="g", history="joined")
    group = view.head.conversation_id
    await a.send("alice", group, "m1", "early words")
    await a.core.directory.add("alice", group, ["carol"])
    await a.send("alice", group, "m2", "late words")
    assert len(await seqs(a, search, "alice", "words")) == 2
    assert len(await seqs(a, search, "carol", "words")) == 1


async def test_deleted_edited_and_blocked_messages_are_no_hits_at_once(
    a: FaultyNode, group: str, search: Search
) -> None:
    one, two = [await a.send("alice", group, f"m{n}", f"word{n}") for n in range(2)]
    assert await seqs(a, search, "bob", "word1") == [two.entry.seq_no]
    await a.core.rewrites.delete("alice", group, two.entry.seq_no)
    await a.core.rewrites.edit("alice", group, one.entry.seq_no, patch("changed"))
    for word in ("word1", "word0"):
        found = await search.find("bob", Question(q=word))  # the index does not know it yet
        assert found.hits == []
    assert await seqs(a, search, "bob", "changed") == [one.entry.seq_no]
    await a.core.blocks.block("bob", "alice")
    assert await seqs(a, search, "bob", "changed") == []


async def test_filters(a: FaultyNode, group: str, direct: str, search: Search) -> None:
    first = await a.send("alice", group, "m1", "word https://example.com")
    second = await a.send("bob", group, "m2", "word two")
    third = await a.send("alice", direct, "m3", "word three")
    assert await seqs(a, search, "bob", "word", conversation_id=direct) == [third.entry.seq_no]
    assert await seqs(a, search, "alice", "word", sender_id="bob") == [second.entry.seq_no]
    assert await seqs(a, search, "alice", "word", has="link") == [first.entry.seq_no]
    assert await seqs(a, search, "alice", "word", has="file") == []
    assert await seqs(a, search, "alice", "word", before=1) == []
    assert len(await seqs(a, search, "alice", "word", after=first.entry.sent_ms)) == 3
    assert await seqs(a, search, "alice", "word", after=third.entry.sent_ms + 60_000) == []


async def test_pages_go_on_where_the_last_one_ended(a: FaultyNode, group: str, search: Search) -> None:
    for n in range(7):
        await a.send("alice", group, f"m{n}", f"word {n}")
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = await find(a, search, "bob", "word", limit=3, cursor=cursor)
        seen += [hit.entry.seq_no for hit in page.hits]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(seen) == [1, 2, 3, 4, 5, 6, 7]
    for bad in ("x", "AAAA", "_" * 11, "é"):
        with pytest.raises(BadCursor):
            await find(a, search, "bob", "word", cursor=bad)


async def test_a_query_without_a_word_is_refused(a: FaultyNode, search: Search) -> None:
    with pytest.raises(BadRequest):
        await find(a, search, "alice", " ... ")


async def test_a_conversation_that_is_not_indexed_yet_is_told_and_indexed(a: FaultyNode, group: str) -> None:
    search, indexer = a.core.searching.search, a.core.searching.indexer
    await a.send("alice", group, "m1", "hello")
    assert a.tables.search is not None
    await indexer.follow()
    await a.tables.search.clear()
    question = Question(q="hello", conversation_id=group)
    found = await search.find("bob", question)
    assert found.hits == [] and not found.is_complete
    await indexer.follow()
    found = await search.find("bob", question)
    assert len(found.hits) == 1 and found.is_complete
