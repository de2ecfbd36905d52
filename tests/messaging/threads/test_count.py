"""The rule of unread in threads, applied to the tables alone."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import NotFound
from tidings.messaging.threads.count import ThreadCount
from tidings.messaging.threads.records import thread_id
from tidings.model import Content


def count_of(node: FaultyNode) -> ThreadCount:
    return ThreadCount(node.core.tables, node.core.scripts.threads, node.clock)


async def test_a_count_knows_own_silent_deleted_and_single_read_replies(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    said = [("bob", False), ("alice", False), ("bob", True), ("carol", False), ("bob", False)]
    for at, (user_id, silent) in enumerate(said):
        await a.core.sends.send(user_id, group, f"r{at}", Content("x", thread_seq=1, silent=silent))
    await a.core.rewrites.delete("carol", group, 5)
    counted = await count_of(a).one("alice", thread_id(group, 1))
    assert (counted.unread, counted.mark.first, counted.mark.cursor) == ([6, 2], 2, 1)
    await a.core.threads.mark_read("alice", group, 1, seqs=[2])
    counted = await count_of(a).one("alice", thread_id(group, 1))
    assert (counted.unread, counted.mark.first) == ([6], 6)


async def test_mentions_in_a_thread_are_counted_with_it(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("x", thread_seq=1, mentions=("carol",)))
    await a.core.sends.send("bob", group, "r2", Content("x", thread_seq=1, mention="all"))
    counted = await count_of(a).one("carol", thread_id(group, 1))
    assert (counted.unread, counted.mentions) == ([3, 2], [3, 2])
    assert (await a.core.unread.state("carol", group)).mention_count == 0


async def test_all_has_the_threads_with_replies_that_the_user_follows(a: FaultyNode, group: str) -> None:
    for name in ("root 1", "root 2"):
        await a.send("alice", group, name)
    await a.core.threads.follow("carol", group, 2, is_on=True)
    await a.core.sends.send("bob", group, "r1", Content("x", thread_seq=1))
    assert [one.conversation_id async for chunk in count_of(a).all("alice") for one in chunk] == [thread_id(group, 1)]
    assert [chunk async for chunk in count_of(a).all("carol") if chunk] == []
    with pytest.raises(NotFound):
        await count_of(a).one("carol", thread_id(group, 1))
