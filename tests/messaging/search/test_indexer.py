from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.messaging.unread.test_unread import fail_once
from tests.support.messaging.faulty_stores import Do, FaultyNode, down
from tidings.messaging.search.indexer import Indexer, document_of
from tidings.model import Content, ContentPatch, Entry, File
from tidings.stores.tables.search import Asked, Document, Part, Term


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


async def test_what_was_just_stored_is_indexed_without_reading_the_log(a: FaultyNode, direct: str) -> None:
    for n in range(3):
        await a.send("alice", direct, f"m{n}", "hello")
    fail_once(a.tables.log, "page", down)
    await indexer(a).follow()
    assert await found(a, direct, "hello") == [3, 2, 1]


async def test_a_message_that_was_changed_before_it_was_indexed_is_found_as_it_is_now(
    a: FaultyNode, direct: str
) -> None:
    sent = [await a.send("alice", direct, f"m{n}", text) for n, text in enumerate(("first", "second"))]
    await a.core.rewrites.edit("alice", direct, sent[0].entry.seq_no, patch("changed"))
    await a.core.rewrites.delete("alice", direct, sent[1].entry.seq_no)
    await indexer(a).follow()
    assert await found(a, direct, "first") == [] == await found(a, direct, "second")
    assert await found(a, direct, "changed") == [sent[0].entry.seq_no]


async def test_more_than_may_be_held_is_read_from_the_log(
    a: FaultyNode, direct: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.messaging.search.indexer.HELD_CHARS_MAX", 300)
    for n, id_ in enumerate((direct, group, direct)):
        await a.send("alice", id_, f"m{n}", "hello")
    fail_once(a.tables.log, "page", down)
    await indexer(a).follow()
    assert sorted([await found(a, direct, "hello"), await found(a, group, "hello")]) != [[1], [2, 1]]  # it was read
    await indexer(a).follow()
    assert await found(a, direct, "hello") == [2, 1] and await found(a, group, "hello") == [1]


async def test_a_conversation_that_was_forgotten_meanwhile_gets_no_words_from_memory(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "hello")
    await indexer(a).follow()
    sent = await a.send("alice", group, "m2", "again")
    await a.core.directory.delete("alice", group)
    assert a.tables.search is not None
    await a.tables.search.forget(group)  # by the node that deleted it
    fresh = Indexer(a.tables.search, a.core.log, a.tables.conversations)
    fresh.stored(group, [sent.entry])
    await fresh.follow()
    assert await found(a, group, "again") == [] and await a.tables.search.cursors([group]) == {}


async def test_nothing_of_a_conversation_is_indexed_that_is_gone_by_then(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "hello")
    await a.core.directory.delete("alice", group)
    await indexer(a).follow()
    assert await found(a, group, "hello") == []


@pytest.mark.parametrize("is_held", [True, False], ids=["memory", "log"])
async def test_a_conversation_that_is_deleted_beside_its_first_words_keeps_none(
    a: FaultyNode, group: str, is_held: bool
) -> None:
    await a.send("alice", group, "m1", "hello")
    if not is_held:
        indexer(a).note(group)  # so it is read from the log
    assert a.tables.search is not None
    forget = a.tables.search.forget

    async def deleted_first(do: Do) -> object:
        await a.core.directory.delete("alice", group)
        await forget(group)  # by the node that deleted it
        return await do()

    fail_once(a.tables.search, "put", deleted_first)
    await indexer(a).follow()
    assert await found(a, group, "hello") == [] and await a.tables.search.cursors([group]) == {}


async def test_a_store_that_is_away_loses_no_note(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "hello")
    indexer(a).note(direct)  # so it is read from the log
    fail_once(a.tables.search, "put", down)
    await indexer(a).follow()
    assert await found(a, direct, "hello") == []
    await indexer(a).follow()
    assert await found(a, direct, "hello") == [1]


async def test_one_conversation_that_fails_holds_up_no_other(a: FaultyNode, direct: str, group: str) -> None:
    await a.send("alice", direct, "m1", "hello")
    await a.send("alice", group, "m1", "hello")
    for id_ in (direct, group):
        indexer(a).note(id_)  # so it is read from the log
    fail_once(a.tables.search, "put", down)
    await indexer(a).follow()
    assert [await found(a, id_, "hello") for id_ in (direct, group)] == [[], [1]]
    await indexer(a).follow()
    assert await found(a, direct, "hello") == [1]


async def test_conversations_that_cannot_be_put_together_are_put_one_by_one(
    a: FaultyNode, direct: str, group: str
) -> None:
    for id_ in (direct, group):
        await a.send("alice", id_, "m1", "hello")
    fail_once(a.tables.search, "put", down)
    await indexer(a).follow()
    assert [await found(a, id_, "hello") for id_ in (direct, group)] == [[1], [1]]


async def test_entries_that_another_node_did_not_see_are_indexed_after_it(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "hello")
    await a.send("alice", direct, "m2", "again")
    assert a.tables.search is not None
    put = a.tables.search.put

    async def other_node_first(do: Do) -> object:
        await put([Part(direct, [Document(1, 5, "alice", "hello")], after=0, up_to=1)])
        return await do()

    fail_once(a.tables.search, "put", other_node_first)
    await indexer(a).follow()
    assert await found(a, direct, "hello") == [1] and await found(a, direct, "again") == [2]


async def test_a_cursor_that_cannot_be_read_loses_no_note(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "hello")
    indexer(a).note(direct)  # so it is read from the log
    fail_once(a.tables.search, "cursors", down)
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


@pytest.mark.parametrize("indexed", [0, 1, 3], ids=["none", "some", "all"])
async def test_words_of_entries_that_leave_the_log_go_however_far_it_is_indexed(
    a: FaultyNode, direct: str, indexed: int
) -> None:
    for n in range(1, 4):
        await a.send("alice", direct, f"m{n}", f"hello{n}")
        if n == indexed:
            await indexer(a).catch_up(direct)
    await indexer(a).remove(direct, (await a.log(direct))[:2])
    await indexer(a).catch_up(direct)
    assert await found(a, direct, "hello1") == [] == await found(a, direct, "hello2")
    assert await found(a, direct, "hello3") == [3]


async def test_words_go_although_another_node_moves_the_cursor(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a.send("alice", direct, "m1", "hello")
    await indexer(a).catch_up(direct)
    assert a.tables.search is not None
    put, answers = a.tables.search.put, [{direct}]

    async def put_late(parts: Sequence[Part]) -> set[str]:
        return answers.pop() if answers else await put(parts)

    monkeypatch.setattr(a.tables.search, "put", put_late)
    await indexer(a).remove(direct, await a.log(direct))
    assert answers == [] and await found(a, direct, "hello") == []


async def test_without_an_index_there_is_nothing_to_follow(a: FaultyNode, direct: str) -> None:
    none = Indexer(None, a.core.log, a.tables.conversations)
    none.note(direct)
    await none.follow()
    await none.remove(direct, await a.log(direct))
    assert await none.catch_up(direct) == 0


def test_only_messages_with_a_text_have_words() -> None:
    def entry(**fields: object) -> Entry:
        return Entry("c", 1, **{"kind": "message", "sent_ms": 5, "sender_id": "a"} | fields)  # type: ignore[arg-type]

    for nothing in (entry(content=None), entry(content=Content("hi"), is_deleted=True), entry(content=Content("!"))):
        assert document_of(nothing).words == ""
    document = document_of(entry(content=Content("see http://x.test", files=(File("f1"),))))
    assert document.words and document.has_file and document.has_link


async def test_a_conversation_is_caught_up_with_although_another_node_is_at_it(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a.send("alice", direct, "m1", "hello")
    assert a.tables.search is not None
    put, answers = a.tables.search.put, [{direct}]

    async def put_late(parts: Sequence[Part]) -> set[str]:
        return answers.pop() if answers else await put(parts)

    monkeypatch.setattr(a.tables.search, "put", put_late)
    assert await indexer(a).catch_up(direct) == 1
    assert await found(a, direct, "hello") == [1]


async def test_entries_with_a_gap_between_them_are_read_from_the_log(a: FaultyNode, direct: str) -> None:
    sent = [(await a.send("alice", direct, f"m{n}", "hello")).entry for n in range(4)]
    fresh = Indexer(a.tables.search, a.core.log, a.tables.conversations)
    fresh.stored(direct, [])
    fresh.stored(direct, sent[:2])
    fresh.stored(direct, sent[3:])  # another node stored the third
    await fresh.follow()
    assert await found(a, direct, "hello") == [4, 3, 2, 1]


@pytest.mark.parametrize("failing", ["cursors", "put"])
async def test_conversations_that_wait_for_their_turn_lose_no_note(
    a: FaultyNode, direct: str, group: str, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.messaging.search.indexer.TOGETHER", 1)
    for id_ in (direct, group):
        await a.send("alice", id_, "m1", "hello")
        indexer(a).note(id_)  # so it is read from the log
    fail_once(a.tables.search, failing, down)
    await indexer(a).follow()
    assert [await found(a, id_, "hello") for id_ in (direct, group)] == [[], []]
    await indexer(a).follow()
    assert [await found(a, id_, "hello") for id_ in (direct, group)] == [[1], [1]]
