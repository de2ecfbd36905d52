"""Indexing: a reply costs a call for each follower, and reaches devices with its counts."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tests.support.messaging.two_nodes import connect, telling
from tests.support.waiting import eventually
from tidings.model import Content
from tidings.pushes import MessageNew


async def test_a_reply_costs_an_index_call_for_each_follower_and_each_connected_member(a: FaultyNode) -> None:
    people = [f"u{at:02d}" for at in range(50)]
    view, _ = await a.core.directory.create("alice", kind="group", members=people, name="many")
    id_ = view.head.conversation_id
    for user_id in ("alice", "u01", "u02"):
        await a.unread(user_id)
    await a.send("alice", id_, "root")
    await a.core.sends.send("u01", id_, "r1", Content("r1", thread_seq=1))
    await connect(a, "u02")
    a.keyspace.runs.clear()
    await a.core.sends.send("u01", id_, "r2", Content("r2", thread_seq=1))
    assert a.keyspace.said.count("inbox_index") == 3  # of two followers, and of one who is connected


async def test_a_reply_reaches_every_device_and_tells_a_follower_the_count_of_the_thread(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    async with telling(a, b):
        await a.send("alice", group, "root")
        here, there, other = await connect(a, "alice", "1"), await connect(b, "alice", "2"), await connect(b, "carol")
        await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
        await eventually(lambda: all(one.seqs()[-1:] == [2] for one in (here, there, other)))
        told = [[one for one in device.events if isinstance(one, MessageNew)][-1] for device in (here, there, other)]
        assert [one.threads for one in told] == [{1: (1, 1)}, {1: (1, 1)}, None]
        assert [(one.unread_count, one.total_unread) for one in told] == [(0, 0), (0, 0), (1, 1)]


async def test_a_reply_whose_index_was_lost_is_counted_by_the_next_read(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
    keys = a.core.scripts.threads.keys
    await a.command("DEL", keys.mark("alice"), keys.inbox("alice"))
    assert (await a.core.unread.totals("alice")).unread_threads == 1
    await a.command("DEL", keys.inbox("alice"))
    await a.core.sends.send("bob", group, "r2", Content("r2", thread_seq=1))
    page = await a.core.threads.page("alice", limit=20, cursor=None, filter_name="unread")
    assert [one.unread_count for one in page.items] == [2]
    assert await a.wrong() == []


async def test_a_member_who_leaves_follows_nothing_and_begins_anew_when_back(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
    await a.core.sends.send("alice", group, "r2", Content("r2", thread_seq=1))
    assert (await a.core.unread.totals("bob")).unread_threads == 1
    await a.core.directory.remove("bob", group, "bob")
    assert (await a.core.unread.totals("bob")).unread_threads == 0
    assert (await a.core.threads.page("bob", limit=20, cursor=None, filter_name="all")).items == []
    await a.core.directory.add("alice", group, ["bob"], is_server=True)
    await a.core.sends.send("alice", group, "r3", Content("r3", thread_seq=1))
    assert (await a.core.threads.page("bob", limit=20, cursor=None, filter_name="all")).items == []
    await a.core.sends.send("alice", group, "r4", Content("r4", thread_seq=1, mentions=("bob",)))
    assert (await a.core.unread.totals("bob")).unread_threads == 1
    assert await a.wrong() == []


async def test_replies_of_a_blocked_person_do_not_count(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
    await a.core.blocks.block("alice", "bob")
    assert (await a.core.unread.totals("alice")).unread_threads == 0
    await a.core.sends.send("bob", group, "r2", Content("r2", thread_seq=1))
    await a.core.sends.send("carol", group, "r3", Content("r3", thread_seq=1))
    state = await a.core.threads.mark_read("alice", group, 1, up_to_seq=0)
    assert (state.unread_count, state.first_unread_seq) == (1, 4)
    await a.core.blocks.unblock("alice", "bob")
    state = await a.core.threads.mark_read("alice", group, 1, up_to_seq=0)
    assert state.unread_count == 3
    assert await a.wrong() == []


async def test_a_deleted_conversation_takes_its_threads_along(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
    assert (await a.core.unread.totals("alice")).unread_threads == 1
    await a.core.directory.delete("alice", group)
    assert (await a.core.unread.totals("alice")).unread_threads == 0
    assert await a.wrong() == []


async def test_a_thread_whose_first_reply_is_silent_is_in_the_list_of_those_who_asked_to_follow(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "root")
    await a.core.threads.follow("carol", group, 1, is_on=True)
    assert (await a.core.threads.page("carol", limit=20, cursor=None, filter_name="all")).items == []
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1, silent=True))
    assert await a.wrong() == []
    [item] = (await a.core.threads.page("carol", limit=20, cursor=None, filter_name="all")).items
    assert (item.thread_seq, item.unread_count) == (1, 0)


async def test_a_reply_costs_an_index_call_for_each_follower_and_none_for_other_members(a: FaultyNode) -> None:
    people = [f"user{at}" for at in range(60)]
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob", *people])
    id_ = view.head.conversation_id
    await a.send("alice", id_, "root")
    await a.core.sends.send("bob", id_, "r1", Content("r1", thread_seq=1))
    for user_id in people[:3]:
        await a.core.threads.follow(user_id, id_, 1, is_on=True)
    a.keyspace.runs.clear()
    await a.core.sends.send("bob", id_, "r2", Content("r2", thread_seq=1))
    assert a.keyspace.said.count("inbox_index") == len(["alice", "bob", *people[:3]])
