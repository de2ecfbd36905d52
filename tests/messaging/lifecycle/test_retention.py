"""Retention: old messages go from rows, counts and previews, and numbers go on."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.config.settings import Settings
from tidings.errors import StoreError, Unavailable
from tidings.messaging.lifecycle.retention import Retention
from tidings.model import Content, ContentPatch
from tidings.stores.tables.search import Asked, Part, Term


@pytest.fixture(params=[500, 1], ids=["small", "large"])
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Both sides of the line."""
    return dataclasses.replace(settings, members_large=request.param)


async def test_old_messages_go_and_new_ones_stay(a: FaultyNode, group: str) -> None:
    for at in range(5):
        await a.send("alice", group, f"old{at}", f"old words {at}")
    await a.core.rules.change("alice", group, {"retention_s": 3600})
    await a.core.timed.step()
    assert len(await a.log(group)) == 6 and await a.unread("bob") == 5
    await a.core.retention.cut(group, a.clock.now_ms() + 60_000)
    left = await a.log(group)
    assert all(entry.text is None for entry in left)
    assert (await a.tables.conversations.heads([group]))[group].floor_seq >= 5
    assert await a.unread("bob") == 0 and await a.wrong() == []
    assert await a.code("alice", group, "new") == "stored"
    assert (await a.log(group))[-1].seq_no == left[-1].seq_no + 1
    page = await a.core.history.page("bob", group, limit=100)
    assert [entry.text for entry in page.entries if entry.text] == ["hi"]


async def test_the_last_message_goes_too_and_its_number_is_not_given_again(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "the only words")
    await a.core.retention.cut(direct, a.clock.now_ms() + 60_000)
    (top,) = await a.log(direct)
    assert (top.seq_no, top.kind, top.text) == (2, "delete", None)
    await a.core.retention.cut(direct, a.clock.now_ms() + 60_000)
    assert [entry.seq_no for entry in await a.log(direct)] == [2]
    (row,) = (await a.core.inbox.page("bob", limit=10, cursor=None)).items
    assert row.row.last_message_preview is None and row.state.unread_count == 0
    await a.command("DEL", a.core.keys.conv(direct))  # the counter is lost
    await a.send("alice", direct, "m2")
    assert [entry.seq_no for entry in await a.log(direct)] == [2, 3]
    assert [entry.seq_no for entry in (await a.core.history.page("bob", direct, limit=10)).entries] == [3, 2]


async def test_the_rule_is_kept_when_its_time_has_come(a: FaultyNode, group: str) -> None:
    await a.core.rules.change("alice", group, {"retention_s": 60})
    await a.send("bob", group, "m1", "for a minute")
    await a.core.timed.step()
    assert (await a.log(group))[-1].text == "for a minute"
    a.clock.ahead_ms = 120_000
    await a.core.timed.step()
    assert all(entry.text is None for entry in await a.log(group))
    assert a.core.metrics.expired.value == 1


class Failing:
    """A real store or part that refuses one request: that with the number `at`, of all that share `requests`."""

    def __init__(self, real: Any, requests: itertools.count[int], at: int) -> None:
        self._real = real
        self._requests = requests
        self._at = at

    def __getattr__(self, name: str) -> Any:
        async def ask(*args: Any, **fields: Any) -> Any:
            if next(self._requests) == self._at:
                raise Unavailable(f"{name}: down, says the test")
            return await getattr(self._real, name)(*args, **fields)

        return ask


def failing(whole: Retention, at: int) -> Retention:
    """Retention on stores of which one request fails."""
    requests = itertools.count()
    ports = ("records", "log", "archive", "conversations", "inboxes")
    failing_ports: Any = {name: Failing(getattr(whole.tables, name), requests, at) for name in ports}
    parts: Any = {name: Failing(getattr(whole, name), requests, at) for name in ("access", "keyspace", "rewrites")}
    return dataclasses.replace(whole, tables=dataclasses.replace(whole.tables, **failing_ports), **parts)


async def test_the_counts_follow_a_cut_whichever_request_fails(a: FaultyNode, group: str) -> None:
    for at in itertools.count():
        root = await a.send("alice", group, f"m{at}")
        await a.core.sends.send("bob", group, f"r{at}", Content("reply", thread_seq=root.entry.seq_no))
        await a.send("alice", group, f"n{at}")
        assert (await a.unread("bob"), (await a.core.unread.totals("alice")).unread_threads) == (2, 1)
        before_ms, is_whole = a.clock.now_ms() + 60_000, True
        try:
            await failing(a.core.retention, at).cut(group, before_ms)
        except StoreError:
            is_whole = False
            await a.core.retention.cut(group, before_ms)
        assert (await a.unread("bob"), (await a.core.unread.totals("alice")).unread_threads) == (0, 0)
        assert await a.wrong() == []
        if is_whole:
            break
    assert at > 10


async def test_the_counts_follow_a_cut_though_the_rule_ended_meanwhile(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a.core.rules.change("alice", group, {"retention_s": 60})
    await a.send("alice", group, "m1")
    await a.send("alice", group, "m2")
    assert await a.unread("bob") == 2
    await a.core.timed.step()
    a.clock.ahead_ms = 120_000
    with monkeypatch.context() as patch:
        patch.setattr(a.core.retention, "access", Failing(a.core.access, itertools.count(), at=0))
        await a.core.timed.step()
    await a.core.rules.change("alice", group, {"retention_s": None})
    a.clock.elapsed_s = 2.0  # what failed is tried again after a second
    await a.core.timed.step()
    assert await a.unread("bob") == 0 and await a.wrong() == []
    (record,) = await a.tables.records.page(f"c:{group}", "rules", limit=10)
    assert record.due_ms is None


def holding(folder: Path, word: bytes) -> list[str]:
    """The files of the tables and of the index that hold this word."""
    return [file.name for file in folder.glob("tidings.db*") if word in file.read_bytes()]


async def test_no_word_of_an_old_message_stays_in_the_search_index(a: FaultyNode, group: str, tmp_path: Path) -> None:
    await a.send("bob", group, "m1", "xyzzyplugh")
    await a.send("alice", group, "m2", "later")
    await a.core.searching.indexer.catch_up(group)
    await a.core.retention.cut(group, a.clock.now_ms() + 60_000)
    await a.core.searching.indexer.catch_up(group)
    assert await a.tables.wipe()
    assert holding(tmp_path, b"xyzzyplugh") == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_words_of_an_edit_that_is_indexed_beside_the_cut_go_too(
    a: FaultyNode, group: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edit was read before the cut. Its words are put before it or after it."""
    sent = await a.send("bob", group, "m1", "xyzzyplugh")
    await a.send("alice", group, "m2", "later")
    indexer = a.core.searching.indexer
    await indexer.catch_up(group)
    await a.core.rewrites.edit("bob", group, sent.entry.seq_no, ContentPatch(text="frobnicate"))
    assert a.tables.search is not None
    cut, put, read, is_cut = a.tables.archive.cut, a.tables.search.put, asyncio.Event(), asyncio.Event()

    async def put_late(parts: Sequence[Part]) -> set[str]:
        if any(document.words for part in parts for document in part.documents):
            read.set()
            await is_cut.wait()
        return await put(parts)

    async def cut_beside(conversation_id: str, *, up_to_seq: int) -> bool:
        if when == "before":
            await indexer.catch_up(group)
        return await cut(conversation_id, up_to_seq=up_to_seq)

    monkeypatch.setattr(a.tables.archive, "cut", cut_beside)
    if when == "after":
        monkeypatch.setattr(a.tables.search, "put", put_late)
    indexing = asyncio.ensure_future(indexer.catch_up(group) if when == "after" else asyncio.sleep(0))
    if when == "after":
        await read.wait()
    await a.core.retention.cut(group, a.clock.now_ms() + 60_000)
    is_cut.set()
    await indexing
    asked = Asked(terms=(Term(("frobnicate",)),), conversation_ids=[group], limit=10)
    assert await a.tables.search.find(asked) == []


async def test_no_byte_of_an_old_message_stays_in_the_file(
    a: FaultyNode, group: str, tmp_path: Path, settings: Settings
) -> None:
    await a.send("bob", group, "m1", "a text that must go away")
    await a.core.retention.cut(group, a.clock.now_ms() + 60_000)
    assert b"must go away" not in (tmp_path / "tidings.db").read_bytes()
