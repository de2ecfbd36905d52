"""Summaries of threads: what a root shows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, down
from tidings.messaging.threads.records import REPLIES
from tidings.model import Content, Member, ThreadBeside


async def test_a_thread_is_shown_beside_reactions_and_after_the_keyspace_forgot_it(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    assert (await a.core.history.page("carol", group)).beside == {}
    sent = await a.core.sends.send("bob", group, "r1", Content("x", thread_seq=1))
    await a.core.pins.set("alice", group, 1, is_on=True)
    shown = (await a.core.history.page("carol", group)).beside[1]
    assert shown.is_pinned and shown.thread == ThreadBeside(1, 2, sent.entry.sent_ms)
    await a.command("DEL", a.core.keys.conv(group))
    assert (await a.core.history.page("carol", group)).beside[1] == shown


async def test_a_cold_index_is_counted_from_the_tables(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("x", thread_seq=1))
    expected = (await a.core.history.page("alice", group)).beside[1].thread
    assert expected is not None and (expected.unread_count, expected.following) == (1, True)
    await a.command("DEL", a.core.scripts.threads.keys.mark("alice"))
    assert (await a.core.history.page("alice", group)).beside[1].thread == expected
    a.keyspace.fail("HMGET", *[down] * 3)
    assert (await a.core.history.page("alice", group)).beside[1].thread == expected


async def test_a_follower_is_told_so_though_the_node_forgot_the_member_list(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node keeps the lists of the conversations that were used last, and a page may come from an older one."""
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("x", thread_seq=1))
    expected = (await a.core.history.page("alice", group)).beside[1].thread
    page = await a.core.history.page("alice", group)
    a.core.access.forget([group])
    reads: list[str] = []
    members = a.tables.conversations.members

    async def counted(conversation_id: str) -> Sequence[Member]:
        reads.append(conversation_id)
        return await members(conversation_id)

    monkeypatch.setattr(a.tables.conversations, "members", counted)
    beside = await a.core.summaries.beside_each("alice", page.entries)
    assert beside[group, 1].thread == expected and expected is not None and expected.following
    assert not reads, "the list of members may be long, and a page of hits may be of a hundred conversations"


async def test_the_cold_threads_of_a_page_are_counted_together(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [(await a.send("alice", group, f"root{n}")).entry.seq_no for n in range(4)]
    for seq_no in roots:
        await a.core.sends.send("bob", group, f"r{seq_no}", Content("x", thread_seq=seq_no))
    await a.command("DEL", a.core.scripts.threads.keys.mark("alice"))
    records, asked = a.core.tables.records, list[str]()
    all_asked, page = asyncio.Event(), a.core.tables.records.page

    async def together(owner: str, collection: str, **fields: Any) -> Any:
        if collection == REPLIES:
            asked.append(fields["after"])
            if len(asked) == len(roots):
                all_asked.set()
            await asyncio.wait_for(all_asked.wait(), 30)
        return await page(owner, collection, **fields)

    monkeypatch.setattr(records, "page", together)
    beside = (await a.core.history.page("alice", group)).beside
    counts = {seq_no: one.thread.unread_count for seq_no, one in beside.items() if one.thread is not None}
    assert counts == dict.fromkeys(roots, 1)
