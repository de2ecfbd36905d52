from __future__ import annotations

from tests.messaging.unread.test_unread import fail_once
from tests.support.messaging.faulty_stores import FaultyNode, down
from tidings.messaging.search.indexer import Indexer, document_of
from tidings.model import Content, ContentPatch, Entry, File
from tidings.stores.tables.search import Asked, Term


async def found(a: FaultyNode, conversation_id: str, word: str) -> list[int]:
    assert a.tables.search is not None
    asked = Asked(terms=(Term((word,)),), conversation_ids=[conversation_id], limit=10)
    return [place.seq_no for place in await a.tables.search.find(asked)]


def patch(text: str) -> ContentPatch:
    return ContentPatch(text=text)


def indexer(a: FaultyNode) -> Indexer:
    return a.core.searching.indexer


async def test_what_was_sent_edited_and_deleted_is_followed(a: FaultyNode, direct: str) -> None:
    sent = [await a.send("alice", direct, f"m{n}", text) for n, text in enumerate(("first", "second", "third"))]
    await indexer(a).follow()
    assert await found(a, direct, "second") == [sent[1].entry.seq_no]
    await a.core.rewrites.edit("alice", direct, sent[0].entry.seq_no, patch("changed"))
    await a.core.rewrites.delete("alice", direct, sent[1].entry.seq_no)
    await indexer(a).follow()
    assert await found(a, direct, "first") == [] == await found(a, direct, "second")
    assert await found(a, direct, "changed") == [sent[0].entry.seq_no] and await found(a, direct, "third") == [
        sent[2].entry.seq_no
    ]


async def test_a_store_that_is_away_loses_no_note(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "hello")
    fail_once(a.tables.search, "put", down)
    await indexer(a).follow()
    assert await found(a, direct, "hello") == []
    await indexer(a).follow()
    assert await found(a, direct, "hello") == [1]


async def test_the_words_of_a_deleted_conversation_go(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "hello")
    await indexer(a).follow()
    assert await found(a, group, "hello")
    await a.core.directory.delete("alice", group)
    a.core.searching.search.deleted(group)
    await indexer(a).follow()
    assert await found(a, group, "hello") == []


async def test_an_index_that_was_lost_is_made_from_the_log(a: FaultyNode, direct: str) -> None:
    for n in range(120):
        await a.send("alice", direct, f"m{n}", f"word{n}")
    assert a.tables.search is not None
    await a.tables.search.clear()
    assert await indexer(a).catch_up(direct) == 120
    assert await found(a, direct, "word7") == [8] and await indexer(a).catch_up(direct) == 0


async def test_without_an_index_there_is_nothing_to_follow(a: FaultyNode, direct: str) -> None:
    none = Indexer(None, a.core.log, a.tables.conversations)
    none.note(direct)
    await none.follow()
    assert await none.catch_up(direct) == 0


def test_only_messages_with_a_text_have_words() -> None:
    def entry(**fields: object) -> Entry:
        return Entry("c", 1, **{"kind": "message", "sent_ms": 5, "sender_id": "a"} | fields)  # type: ignore[arg-type]

    assert document_of(entry(content=None)) is None and document_of(entry(kind="member")) is None
    assert document_of(entry(content=Content("hi"), is_deleted=True)) is None
    document = document_of(entry(content=Content("see http://x.test", files=(File("f1"),))))
    assert document is not None and document.has_file and document.has_link
