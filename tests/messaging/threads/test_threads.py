"""Threads: the list of a follower, the replies of one thread, and what a root shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import BadCursor, NotFound
from tidings.model import Content, Sent


async def reply(node: FaultyNode, user_id: str, id_: str, name: str, root: int = 1, **more: Any) -> Sent:
    return await node.core.sends.send(user_id, id_, name, Content(name, thread_seq=root, **more))


async def listed(node: FaultyNode, user_id: str, filter_name: Any = "unread") -> list[tuple[int, int]]:
    """(root, unread) of every thread in the list, one row at a time."""
    found, cursor = list[tuple[int, int]](), None
    while True:
        page = await node.core.threads.page(user_id, limit=1, cursor=cursor, filter_name=filter_name)
        found += [(item.thread_seq, item.unread_count) for item in page.items]
        if (cursor := page.next_cursor) is None:
            return found


async def test_a_reply_counts_in_its_thread_for_followers_and_in_the_conversation_for_nobody(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "root")
    await a.core.rows.flush()
    before = await a.core.inbox.page("carol", limit=20, cursor=None)
    await reply(a, "bob", group, "r1")
    await reply(a, "bob", group, "r2")
    assert await listed(a, "alice") == [(1, 2)]
    assert await listed(a, "bob") == [] and await listed(a, "bob", "all") == [(1, 0)]
    assert await listed(a, "carol", "all") == []
    assert (await a.core.unread.totals("alice")).unread_threads == 1
    assert await a.core.inbox.page("carol", limit=20, cursor=None) == before
    assert (await a.core.unread.state("alice", group)).unread_count == 0
    assert await a.wrong() == []


async def test_a_reply_that_is_also_here_counts_in_both(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await reply(a, "bob", group, "r1", also_here=True)
    assert (await a.core.unread.state("carol", group)).unread_count == 2
    assert (await a.core.unread.state("alice", group)).unread_count == 1
    assert await listed(a, "alice") == [(1, 1)]


async def test_the_list_pages_by_the_latest_reply_and_reading_takes_a_thread_off_the_unread_ones(
    a: FaultyNode, group: str
) -> None:
    for name in ("root 1", "root 2", "root 3"):
        await a.send("alice", group, name)
    for root in (1, 3, 2):
        await reply(a, "bob", group, f"to {root}", root)
    assert await listed(a, "alice", "all") == [(2, 1), (3, 1), (1, 1)]
    state = await a.core.threads.mark_read("alice", group, 3, up_to_seq=1_000)
    assert (state.conversation_id, state.thread_seq, state.unread_count, state.unread_threads) == (group, 3, 0, 2)
    assert await listed(a, "alice") == [(2, 1), (1, 1)]
    state = await a.core.threads.mark_unread("alice", group, 3, from_seq=1)
    assert (state.unread_count, state.first_unread_seq, state.unread_threads) == (1, 5, 3)
    with pytest.raises(BadCursor):
        page = await a.core.threads.page("alice", limit=1, cursor=None, filter_name="all")
        await a.core.threads.page("alice", limit=1, cursor=page.next_cursor, filter_name="unread")
    await a.core.threads.read_all("alice", group)
    assert await listed(a, "alice") == [] and (await a.core.unread.totals("alice")).unread_threads == 0
    assert await a.wrong() == []


async def test_a_page_of_a_thread_has_its_replies_only_and_cursors_both_ways(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    for at in range(5):
        await reply(a, "bob", group, f"r{at}")
        await a.send("carol", group, f"between {at}")
    page = await a.core.threads.replies("alice", group, 1, limit=2)
    assert [entry.seq_no for entry in page.entries] == [10, 8]
    assert (page.next_before_seq, page.next_after_seq, page.first_unread_seq) == (8, None, 2)
    page = await a.core.threads.replies("alice", group, 1, before_seq=8, limit=20)
    assert [entry.seq_no for entry in page.entries] == [6, 4, 2] and page.next_before_seq is None
    page = await a.core.threads.replies("alice", group, 1, after_seq=2, limit=2)
    assert [entry.seq_no for entry in page.entries] == [6, 4] and page.next_after_seq == 6
    assert page.next_before_seq == 4
    page = await a.core.threads.replies("alice", group, 1, after_seq=0)
    assert (page.next_before_seq, page.next_after_seq) == (None, None)
    with pytest.raises(NotFound):
        await a.core.threads.replies("alice", group, 99)
    with pytest.raises(NotFound):
        await a.core.threads.replies("mallory", group, 1)


async def test_a_root_shows_its_thread_to_every_member_and_the_counts_to_followers(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await reply(a, "bob", group, "r1")
    last = await reply(a, "carol", group, "r2")
    found = {}
    for user_id in ("alice", "bob", "carol"):
        thread = (await a.core.history.page(user_id, group)).beside[1].thread
        assert thread is not None
        assert (thread.replies, thread.last_seq, thread.last_sent_at) == (2, 3, last.entry.sent_ms)
        found[user_id] = (thread.unread_count, thread.following)
    assert found == {"alice": (2, True), "bob": (1, True), "carol": (0, True)}
    await a.core.threads.follow("bob", group, 1, is_on=False)
    thread = (await a.core.history.page("bob", group)).beside[1].thread
    assert thread is not None and (thread.unread_count, thread.following) == (0, False)
