"""Threads through the client: replies, counts, the list, follows and reads."""

from __future__ import annotations

from tidings.testing import TestServer
from tidings_client import Client, MessageNew, ReadSynced


async def test_a_thread_is_answered_listed_read_and_unfollowed(server: TestServer) -> None:
    alice = server.server().account("alice")
    name = await alice.direct("bob")
    root = (await alice.send(name, "root")).seq
    async with Client(server.url, server.token("alice")) as device:
        events = device.events(MessageNew, ReadSynced)
        async with Client(server.url, server.token("bob")) as bob:
            await bob.send(name, "one", thread_seq=root)
            last = await bob.threads.replies(name, root)
            await bob.send(name, "two", thread_seq=root, also_here=True)
        one, two = await anext(events), await anext(events)
        assert isinstance(one, MessageNew) and isinstance(two, MessageNew)
        assert (one.message.thread_seq, one.message.also_here, one.unread_count) == (root, False, 0)
        assert (one.thread_unread_count, one.unread_threads) == (1, 1)
        assert (two.message.also_here, two.unread_count, two.thread_unread_count) == (True, 1, 2)
        assert [reply.text for reply in last.messages] == ["one"]
        (row,) = [row async for row in device.threads.all(filter="unread")]
        assert row.root is not None and (row.root.text, row.replies, row.unread_count) == ("root", 2, 2)
        state = await device.threads.mark_read(name, root, one.message.seq)
        assert (state.thread_seq, state.unread_count, state.unread_threads, state.total_unread) == (root, 1, 1, 1)
        synced = await anext(events)
        assert isinstance(synced, ReadSynced) and (synced.thread_seq, synced.unread_count) == (root, 1)
        (shown,) = [one for one in (await device.page(name)).messages if one.seq == root]
        assert shown.thread is not None and (shown.thread.replies, shown.thread.unread_count) == (2, 1)
        assert (await device.threads.read_all(name)).unread_threads == 0
        assert (await device.unread()).unread_threads == 0
        assert (await device.threads.mark_unread(name, root, 1)).unread_count == 2
        assert (await device.threads.unfollow(name, root)).unread_count == 0
        assert (await device.threads.page()).threads == []
        assert (await device.threads.follow(name, root)).unread_count == 0
