"""Saved messages: a list of one's own that shows only messages that one may still see."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import BadCursor, NotFound
from tidings.messaging.reading import saved
from tidings.stores.tables.records import of_user


async def listed(node: FaultyNode, user_id: str) -> list[int]:
    return [one.entry.seq_no for one in (await node.core.saved.page(user_id))[0]]


async def test_the_latest_saved_comes_first_and_nobody_else_sees_it(a: FaultyNode, group: str) -> None:
    for at in range(3):
        await a.send("alice", group, f"m{at}")
    for seq_no in (2, 1, 3):
        a.clock.ahead_ms += 1000
        await a.core.saved.put("bob", group, seq_no)
    assert await listed(a, "bob") == [3, 1, 2]
    assert await listed(a, "alice") == []
    assert len(await a.log(group)) == 3


async def test_twice_is_once_and_a_removal_may_be_repeated(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await asyncio.gather(*(node.core.saved.put("bob", group, 1) for node in (a, b)))
    a.clock.ahead_ms += 1000
    await a.core.saved.put("bob", group, 1)
    assert await listed(a, "bob") == [1]
    await asyncio.gather(*(node.core.saved.remove("bob", group, 1) for node in (a, b)))
    assert await listed(a, "bob") == []
    for collection in (saved.PLACES, saved.TIMES):
        assert await a.tables.records.page(of_user("bob"), collection, limit=10) == []
    await a.core.saved.put("bob", group, 1)
    assert await listed(a, "bob") == [1]


async def test_a_message_that_is_deleted_or_out_of_sight_is_not_shown(a: FaultyNode, group: str) -> None:
    for at in range(2):
        await a.send("alice", group, f"m{at}")
        await a.core.saved.put("bob", group, at + 1)
    await a.core.rewrites.delete("alice", group, 1)
    assert await listed(a, "bob") == [2]
    await a.core.directory.remove("bob", group, "bob")
    assert await listed(a, "bob") == []
    await a.core.saved.remove("bob", group, 2)
    assert await a.tables.records.get(of_user("bob"), saved.PLACES, [f"{group} {2:012d}"]) == {}


async def test_only_messages_that_one_may_see_can_be_saved(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    for user_id, seq_no in (("mallory", 1), ("bob", 2), ("bob", 0)):
        with pytest.raises(NotFound):
            await a.core.saved.put(user_id, group, seq_no)


async def test_pages_go_on_after_the_last_one_shown(a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "PAGE_DEFAULT", 2)
    for at in range(3):
        await a.send("alice", group, f"m{at}")
        a.clock.ahead_ms += 1000
        await a.core.saved.put("bob", group, at + 1)
    first, cursor = await a.core.saved.page("bob")
    assert cursor is not None
    second, end = await a.core.saved.page("bob", cursor)
    assert [one.entry.seq_no for one in (*first, *second)] == [3, 2, 1] and end is None
    for wrong in ("x", "AAAA", "MSBjIHg"):
        with pytest.raises(BadCursor):
            await a.core.saved.page("bob", wrong)
