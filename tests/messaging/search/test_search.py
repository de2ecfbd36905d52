from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contracts import START_MS, conversation, message
from tests.messaging.lifecycle.test_expiry import send as expiring_send
from tests.messaging.search.test_indexer import patch
from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import BadCursor, BadRequest, NotFound
from tidings.messaging.search.search import LEAST_S, Found, Question, Search
from tidings.stores.tables.sqlite.search import index as sqlite_index
from tidings.stores.tables.values import Group


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
            summaries=core.summaries,
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


class Work:
    """Everything that searches ask of the stores: statements of the index with their messages, rows, keyspace calls.

    `words`: the words that the last search read from the list of all words, which is one for the whole installation.
    """

    def __init__(self, a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self._node = a
        self._steps: list[object] = []
        self.words = 0
        for name in ("_rows", "_matching"):
            monkeypatch.setattr(sqlite_index, name, self._counted(name, getattr(sqlite_index, name)))

    def _counted(self, name: str, plain: Any) -> Any:
        def counted(tx: Any, *words: Any) -> Any:
            found = list(plain(tx, *words))
            is_vocabulary = words[0] == sqlite_index._BEGINNING
            self.words += len(found) if is_vocabulary else 0
            self._steps.append((name, None if is_vocabulary else len(found)))
            return found

        return counted

    async def of(self, search: Search, user_id: str, q: str) -> Any:
        search._scopes.clear()
        await search.find(user_id, Question(q="warm"))  # what a node remembers for a while is there
        search._scopes.clear()
        self._steps, self.words, rows_read = [], 0, self._node.core.metrics.rows_read
        calls, before = len(self._node.keyspace.said), {table: rows.value for table, rows in rows_read.items()}
        found = await search.find(user_id, Question(q=q))
        read = {table: rows.value - before[table] for table, rows in rows_read.items()}
        return found, [*self._steps], self._node.keyspace.said[calls:], read


async def test_a_word_of_others_of_a_left_group_deleted_or_expired_costs_what_a_word_of_nobody_costs(
    a: FaultyNode, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, create = Work(a, monkeypatch), a.core.directory.create
    own, left, others = [
        (await create("alice", kind="group", members=members, name="g"))[0].head.conversation_id
        for members in (["mallory"], ["mallory"], ["bob"])
    ]
    for group, word in ((own, "mine"), (own, "deleted"), (left, "departed"), (others, "strange")):
        await a.send("alice", group, word, f"the word is {word}")
    await expiring_send(a, own, "gone")
    await find(a, search, "mallory", "word")
    assert [await seqs(a, search, "mallory", word) for word in ("deleted", "departed", "minute")] == [[2], [1], [3]]
    await a.core.rewrites.delete("alice", own, 2)
    await a.core.directory.remove("mallory", left, "mallory")
    a.clock.ahead_ms = 61_000
    await a.core.timed.step()
    await find(a, search, "mallory", "word")
    expected = await work.of(search, "mallory", "nobody")
    assert work.words == 0
    has_index = search.index is not None
    # A deleted or expired text takes its words out of the list. A word that others still use is one row of the list,
    # whoever asks and whoever has it: docs/use/search.md says so. No message of theirs is read for it.
    for word, words in (("deleted", 0), ("minute", 0), ("strange", has_index), ("departed", has_index)):
        assert await work.of(search, "mallory", word) == expected, word
        assert work.words == words, word
    assert await work.of(search, "mallory", "mine") != expected


async def test_the_time_of_an_answer_does_not_show_how_little_was_read(
    a: FaultyNode, group: str, search: Search
) -> None:
    await a.send("alice", group, "m1", "zebra")
    for user_id, q in (("bob", "zebra"), ("zoe", "zebra"), ("zoe", "nothing")):
        await find(a, search, user_id, q)
        began_s = a.core.clock.monotonic_s()
        await search.find(user_id, Question(q=q))
        assert a.core.clock.monotonic_s() - began_s >= LEAST_S - 0.001, (user_id, q)  # the loop's own clock is coarser


async def test_a_beginning_reads_a_bounded_number_of_words_however_many_others_have(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, search = Work(a, monkeypatch), a.core.searching.search
    for n in range(2):
        await a.send("alice", group, f"m{n}", " ".join(f"zebra{n}x{i}" for i in range(60)))
    await find(a, search, "stranger", "zebra")
    found, _, _, _ = await work.of(search, "stranger", "zebra")
    assert (found.hits, found.is_complete, work.words) == ([], True, 0)  # who is in no conversation reads no word
    own = (await a.core.directory.create("mallory", kind="group", members=["bob"], name="g"))[0].head.conversation_id
    await a.send("mallory", own, "m1", "mine")
    await find(a, search, "mallory", "zebra")
    found, steps, _, read = await work.of(search, "mallory", "zebra")
    assert (found.hits, work.words) == ([], sqlite_index._SAME_MAX + 1)
    assert all(not messages for name, messages in steps if name == "_matching") and not read.get("messages")


async def test_an_archived_message_of_a_year_ago_is_found(a: FaultyNode, group: str, search: Search) -> None:
    sent = await a.send("alice", group, "m1", "我明天去北京开会")
    a.clock.ahead_ms = 365 * 86_400_000
    assert (await a.core.cold.archiving.run()).archived.messages >= 1
    assert (await a.log(group))[sent.entry.seq_no - 1].s3_ref is not None
    found = await find(a, search, "bob", "北京")
    assert [(hit.entry.seq_no, hit.entry.text) for hit in found.hits] == [(sent.entry.seq_no, "我明天去北京开会")]


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
    for bad in (
        "x",
        "AAAA",
        "_" * 11,
        "é",
        *map(cursor_of, ([-1, "c", 1], [1 << 43, "c", 1], [1, "a/b", 1], [1, "c"])),
    ):
        with pytest.raises(BadCursor):
            await find(a, search, "bob", "word", cursor=bad)


def cursor_of(place: list[object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


async def test_hits_of_one_millisecond_are_in_order_and_no_page_loses_or_repeats_one(
    a: FaultyNode, search: Search
) -> None:
    groups = [await conversation(a.tables, "alice", "bob") for _ in range(3)]
    for group in groups:
        entries = [message(group, seq, f"word {seq}", sent_ms=START_MS) for seq in (1, 2, 3, 4)]
        await a.tables.log.append([Group(conversation_id=group, entries=tuple(entries))])
        a.core.searching.indexer.note(group)
    wanted = sorted(((group, seq) for group in groups for seq in (1, 2, 3, 4)), reverse=True)
    for size in (1, 2, 5, 12):
        seen: list[tuple[str, int]] = []
        cursor: str | None = None
        while True:
            page = await find(a, search, "bob", "word", limit=size, cursor=cursor)
            seen += [(hit.entry.conversation_id, hit.entry.seq_no) for hit in page.hits]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == wanted, size


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


async def test_a_search_of_all_conversations_tells_of_entries_that_are_not_indexed_yet(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, indexer = a.core.searching.search, a.core.searching.indexer
    await a.send("alice", group, "m1", "hello")
    assert (await find(a, search, "bob", "tiger")).is_complete  # from here on the node knows the scope of the search
    await a.send("alice", group, "m2", "tiger")
    question = Question(q="tiger")
    found = await search.find("bob", question)
    assert found.hits == [] and not found.is_complete

    put = a.tables.search.put if a.tables.search is not None else None
    assert put is not None
    at_put: list[Found] = []

    async def put_late(parts: Any) -> Any:
        at_put.append(await search.find("bob", question))
        return await put(parts)

    monkeypatch.setattr(a.tables.search, "put", put_late)
    await indexer.follow()
    assert at_put[0].hits == [] and not at_put[0].is_complete
    found = await search.find("bob", question)
    assert len(found.hits) == 1 and found.is_complete
