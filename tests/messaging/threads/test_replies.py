"""Replies: what may have replies, who follows by them, and what a delete takes away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, answer_lost
from tidings.errors import BadRequest, IdConflict, NotFound
from tidings.messaging.threads.records import Thread, read_threads, thread_id
from tidings.model import Content, ContentPatch, Sent


async def reply(node: FaultyNode, user_id: str, id_: str, name: str, root: int = 1, **more: Any) -> Sent:
    return await node.core.sends.send(user_id, id_, name, Content(name, thread_seq=root, **more))


async def thread_of(node: FaultyNode, id_: str, root: int = 1) -> Thread:
    place = thread_id(id_, root)
    return (await read_threads(node.tables.records, [place]))[place]


async def test_the_author_of_the_root_the_authors_of_replies_and_everybody_named_follow(
    a: FaultyNode, group: str
) -> None:
    await a.core.directory.add("alice", group, ["dan", "eve"], is_server=True)
    root = (await a.send("alice", group, "root")).entry.seq_no
    await reply(a, "bob", group, "r1", root, mentions=("dan", "nobody"), mention="all")
    assert set((await thread_of(a, group, root)).followers) == {"alice", "bob", "dan"}
    await a.core.threads.follow("alice", group, root, is_on=False)
    await reply(a, "carol", group, "r2", root)
    assert set((await thread_of(a, group, root)).followers) == {"bob", "carol", "dan"}


@pytest.mark.parametrize("root", [0, 99])
async def test_a_thread_has_a_message_as_its_root(a: FaultyNode, group: str, root: int) -> None:
    with pytest.raises(BadRequest):
        await reply(a, "bob", group, "r1", root)


async def test_a_reply_or_a_deleted_message_is_no_root_but_a_thread_outlives_its_root(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "root")
    await a.send("alice", group, "gone")
    await reply(a, "bob", group, "r1")
    await a.core.rewrites.delete("alice", group, 2)
    for root in (2, 3, 4):
        with pytest.raises(BadRequest):
            await reply(a, "bob", group, f"to {root}", root)
    await a.core.rewrites.delete("alice", group, 1)
    await reply(a, "bob", group, "r2")
    assert (await thread_of(a, group)).replies == 2
    page = await a.core.threads.page("alice", limit=20, cursor=None, filter_name="unread")
    assert [(one.root and one.root.is_deleted, one.unread_count) for one in page.items] == [(True, 2)]


async def test_a_stranger_cannot_tell_a_conversation_from_none(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    for id_, root in ((group, 1), (group, 9), ("c-none", 1)):
        with pytest.raises(NotFound, match="no such conversation"):
            await reply(a, "mallory", id_, "r1", root)


async def test_a_resend_is_the_first_reply_and_another_thread_under_its_id_is_a_conflict(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "root")
    await a.send("alice", group, "root 2")
    a.faulty_log.faults.append(answer_lost)
    first = await reply(a, "bob", group, "r1")
    again = await reply(a, "bob", group, "r1")
    assert again.is_duplicate and again.entry.seq_no == first.entry.seq_no
    with pytest.raises(IdConflict):
        await reply(a, "bob", group, "r1", 2)
    assert (await thread_of(a, group)).replies == 1
    assert await a.wrong() == []


async def test_replies_of_many_at_once_are_all_counted(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    nodes = (a, b)
    await asyncio.gather(*(reply(nodes[at % 2], "bob", group, f"r{at}") for at in range(20)))
    assert (await thread_of(a, group)).replies == 20
    page = await a.core.threads.page("alice", limit=20, cursor=None, filter_name="unread")
    assert [one.unread_count for one in page.items] == [20]
    assert await a.wrong() == []


async def test_a_deleted_reply_leaves_the_counts_and_an_edited_one_changes_none(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await reply(a, "bob", group, "r1")
    await reply(a, "bob", group, "r2")
    edited = await a.core.rewrites.edit("bob", group, 2, ContentPatch("new"))
    gone = await a.core.rewrites.delete("bob", group, 2)
    assert (edited.entry.thread_seq, gone.entry.thread_seq) == (1, 1)
    assert (await thread_of(a, group)).replies == 1
    state = await a.core.threads.mark_read("alice", group, 1, up_to_seq=0)
    assert (state.unread_count, state.first_unread_seq) == (1, 3)
    page = await a.core.threads.replies("alice", group, 1)
    assert [(entry.seq_no, entry.is_deleted) for entry in page.entries] == [(3, False), (2, True)]
    assert await a.wrong() == []


async def test_a_silent_reply_counts_nowhere_and_moves_nothing(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await reply(a, "bob", group, "r1")
    await reply(a, "bob", group, "r2", silent=True, also_here=True)
    state = await a.core.threads.mark_read("alice", group, 1, up_to_seq=0)
    assert (state.unread_count, state.total_unread) == (1, 0)
    thread = await thread_of(a, group)
    assert (thread.replies, thread.last_seq) == (2, 2)
    assert await a.wrong() == []


async def test_a_reply_that_only_its_sender_sees_is_no_reply_to_anybody_else(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await reply(a, "bob", group, "r1")
    hidden = await reply(a, "bob", group, "r2", only_sender=True, mentions=("carol",))
    thread = await thread_of(a, group)
    assert (thread.replies, set(thread.followers)) == (1, {"alice", "bob"})
    assert [one.seq_no for one in (await a.core.threads.replies("alice", group, 1)).entries] == [2]
    await a.core.rewrites.delete("bob", group, hidden.entry.seq_no)
    assert (await thread_of(a, group)).replies == 1
    assert await a.wrong() == []


async def test_who_joined_after_the_root_cannot_reply_to_it_until_a_reply_names_them(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "root")
    await reply(a, "bob", group, "r1")
    await a.core.directory.add("alice", group, ["dan"], is_server=True)
    for node in (a, b):
        with pytest.raises(BadRequest, match="`thread_seq` names no message"):
            await reply(node, "dan", group, "d1")
    assert set((await thread_of(a, group)).followers) == {"alice", "bob"}
    await reply(a, "bob", group, "r2", mentions=("dan",))
    stored = await reply(b, "dan", group, "d1")
    await a.core.threads.follow("dan", group, 1, is_on=False)
    again = await reply(a, "dan", group, "d1")
    assert again.is_duplicate and again.entry.seq_no == stored.entry.seq_no
    assert await a.wrong() == []


async def test_a_thread_whose_root_went_with_time_goes_on(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await reply(a, "bob", group, "r1")
    await a.tables.archive.cut(group, up_to_seq=1)
    await reply(a, "carol", group, "r2")
    assert (await thread_of(a, group)).replies == 2
