"""Follows: a member asks to follow a thread, or to follow it no more."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import NotFound, TooLarge
from tidings.messaging.threads import follows
from tidings.model import Content


async def test_a_new_follower_has_read_all_so_far_and_counts_from_there(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
    state = await a.core.threads.follow("carol", group, 1, is_on=True)
    assert (state.unread_count, state.read_seq, state.thread_seq) == (0, 2, 1)
    assert await a.core.threads.follow("carol", group, 1, is_on=True) == state
    await a.core.sends.send("bob", group, "r2", Content("r2", thread_seq=1))
    assert (await a.core.unread.totals("carol")).unread_threads == 1
    state = await a.core.threads.follow("carol", group, 1, is_on=False)
    assert (state.unread_count, state.unread_threads) == (0, 0)
    assert (await a.core.threads.page("carol", limit=20, cursor=None, filter_name="all")).items == []
    assert await a.wrong() == []


async def test_a_message_can_be_followed_before_its_first_reply(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.threads.follow("carol", group, 1, is_on=True)
    assert (await a.core.threads.page("carol", limit=20, cursor=None, filter_name="all")).items == []
    assert (await a.core.history.page("carol", group)).beside == {}
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
    assert (await a.core.unread.totals("carol")).unread_threads == 1
    assert await a.wrong() == []


async def test_replies_and_follows_at_the_same_moment_leave_every_count_exact(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await asyncio.gather(
        *(a.core.sends.send("bob", group, f"r{at}", Content("x", thread_seq=1)) for at in range(8)),
        *(a.core.threads.follow("carol", group, 1, is_on=at % 2 == 0) for at in range(5)),
    )
    await a.core.unread.totals("carol")
    assert await a.wrong() == []


async def test_only_a_message_that_the_user_may_see_can_be_followed(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
    for user_id, root in (("mallory", 1), ("carol", 2), ("carol", 9)):
        with pytest.raises(NotFound):
            await a.core.threads.follow(user_id, group, root, is_on=True)


async def test_who_was_named_in_a_thread_whose_root_they_do_not_see_may_leave_it(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "root")
    await a.core.sends.send("bob", group, "r1", Content("r1", thread_seq=1))
    await a.core.directory.add("alice", group, ["dan"], is_server=True)
    with pytest.raises(NotFound, match="no such message"):
        await a.core.threads.follow("dan", group, 1, is_on=False)
    await a.core.sends.send("bob", group, "r2", Content("r2", thread_seq=1, mentions=("dan",)))
    assert (await a.core.threads.follow("dan", group, 1, is_on=False)).unread_threads == 0
    assert (await a.core.threads.page("dan", limit=20, cursor=None, filter_name="all")).items == []
    with pytest.raises(NotFound, match="no such message"):
        await a.core.threads.follow("dan", group, 1, is_on=True)
    assert await a.wrong() == []


async def test_a_thread_has_a_bounded_number_of_followers(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a.send("alice", group, "root")
    monkeypatch.setattr(follows, "FOLLOWERS_MAX", 1)
    await a.core.threads.follow("bob", group, 1, is_on=True)
    with pytest.raises(TooLarge):
        await a.core.threads.follow("carol", group, 1, is_on=True)
