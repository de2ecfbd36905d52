"""Threads: the list of a follower, the replies of one thread, and what a root shows."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, answer_lost, request_lost
from tidings.errors import BadCursor, NotFound, StoreUnavailable, Unavailable
from tidings.messaging.threads.records import put_reply
from tidings.model import Content, Entry, Sent
from tidings.stores.tables.values import Group


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


async def test_a_page_of_a_thread_ends_below_an_open_gap(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    sent = await reply(a, "bob", group, "r1")
    late = Entry(
        conversation_id=group,
        seq_no=4,
        kind="message",
        sent_ms=sent.entry.sent_ms + 2,
        message_id="r3",
        sender_id="bob",
        content=Content("above the gap", thread_seq=1),
        thread_seq=1,
        is_uncounted=True,
    )
    await a.command("HSET", a.core.keys.conv(group), "seq", 4)  # two numbers were handed out, one was stored
    await a.tables.log.append([Group(conversation_id=group, entries=(late,), puts=(put_reply(late),))])
    for place in ({}, {"after_seq": 0}, {"after_seq": 2}):
        page = await a.core.threads.replies("alice", group, 1, **place)
        assert [entry.seq_no for entry in page.entries] == ([] if place.get("after_seq") else [2])
    a.clock.ahead_ms += 10_000
    page = await a.core.threads.replies("alice", group, 1)
    assert [entry.seq_no for entry in page.entries] == [4, 2]


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 30))])
async def test_the_list_of_unread_threads_has_as_many_rows_as_its_total_at_any_moment(
    a: FaultyNode, b: FaultyNode, group: str, seed: int
) -> None:
    """Two nodes write and read at once, die between the tables and the keyspace, and lose the index."""
    dice, users = random.Random(seed), ("alice", "bob", "carol")
    for root in range(1, 6):
        await a.send("alice", group, f"root {root}")
        for user_id in users:
            await a.core.threads.follow(user_id, group, root, is_on=True)

    async def act(node: FaultyNode, number: int) -> None:
        user_id, root = dice.choice(users), dice.randint(1, 5)
        if dice.random() < 0.3:  # the node dies in the middle of what it does
            name = dice.choice(("inbox_index", "unread_read", "unread_put", "inbox_join"))
            node.keyspace.fail(name, dice.choice((request_lost, answer_lost)))
        with suppress(Unavailable, StoreUnavailable):
            what = dice.random()
            if what < 0.5:
                await reply(node, user_id, group, f"r{number}", root)
            elif what < 0.8:
                await node.core.threads.mark_read(user_id, group, root, up_to_seq=dice.randint(1, 60))
            elif what < 0.9:
                await node.core.threads.mark_unread(user_id, group, root, from_seq=dice.randint(1, 60))
            else:
                await node.core.threads.read_all(user_id, group)

    async def look(node: FaultyNode, user_id: str) -> None:
        with suppress(Unavailable, StoreUnavailable):
            page = await node.core.threads.page(user_id, limit=100, cursor=None, filter_name="unread")
            assert len(page.items) == page.unread_threads
            assert all(item.unread_count > 0 for item in page.items)

    for number in range(0, 60, 3):
        acts = [act(dice.choice((a, b)), number + one) for one in range(3)]
        looks = [look(node, user_id) for node in (a, b) for user_id in users]
        await asyncio.gather(*acts, *looks)
        if dice.random() < 0.1:
            await a.command("DEL", a.core.scripts.threads.keys.mark(dice.choice(users)))
    for node in (a, b):
        node.keyspace.forget_faults()
    await a.core.verify.run(None, repair=True)
    for user_id in users:
        pages = [await node.core.threads.page(user_id, limit=100, cursor=None, filter_name="unread") for node in (a, b)]
        assert pages[0] == pages[1] and len(pages[0].items) == pages[0].unread_threads
        assert (await b.core.unread.totals(user_id)).unread_threads == len(pages[0].items)
    assert await a.wrong() == []


async def test_who_joined_after_the_root_is_shown_the_replies_that_they_see_and_no_others(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "root")
    await reply(a, "bob", group, "r1")
    await reply(a, "bob", group, "r2")
    await a.core.directory.add("alice", group, ["dan"], is_server=True)
    for place in ({}, {"after_seq": 0}, {"before_seq": 3}):
        with pytest.raises(NotFound):  # as where there is no such message
            await a.core.threads.replies("dan", group, 1, **place)
    await reply(a, "bob", group, "r3", mentions=("dan",))
    assert [entry.seq_no for entry in (await a.core.threads.replies("dan", group, 1)).entries] == [5]
    assert (await a.core.threads.replies("dan", group, 1, after_seq=5)).entries == []
    await reply(a, "bob", group, "r4")
    page = await a.core.threads.page("dan", limit=20, cursor=None, filter_name="all")
    assert [(one.root, one.thread.replies, one.unread_count) for one in page.items] == [(None, 2, 2)]
    state = await a.core.threads.mark_unread("dan", group, 1, from_seq=1)
    assert (state.unread_count, state.first_unread_seq) == (2, 5)
    await a.core.rewrites.delete("bob", group, 6)
    page = await a.core.threads.page("dan", limit=20, cursor=None, filter_name="all")
    assert [(one.thread.replies, one.unread_count) for one in page.items] == [(1, 1)]
    page = await a.core.threads.page("alice", limit=20, cursor=None, filter_name="all")
    assert [one.thread.replies for one in page.items] == [3]
    assert await a.wrong() == []
