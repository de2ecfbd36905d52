"""A change that was carried out after the answer was given up is counted, also where the keyspace forgot the note."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.messaging.faulty import FaultyNode, down
from tidings.errors import Unavailable
from tidings.messaging.rebuild import HOLD_MS


def give_up(node: FaultyNode, name: str) -> Callable[[], Any]:
    """The next call of this table is not answered; what is returned carries it out, late."""
    held: list[Any] = []

    async def unanswered(*args: Any, **fields: Any) -> None:
        held.append((getattr(node.tables._tables, name), args, fields))
        delattr(node.tables, name)
        raise Unavailable("no answer yet")

    setattr(node.tables, name, unanswered)
    return lambda: held[0][0](*held[0][1], **held[0][2])


async def settle_late(node: FaultyNode) -> None:
    await node.core.doubts.settle()  # too early: it may still come
    node.clock.elapsed_s += HOLD_MS / 1000 + 1
    await node.core.doubts.settle()


async def test_a_read_mark_that_lands_late_counts_although_the_keyspace_was_lost(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    land = give_up(a, "put")
    with pytest.raises(Unavailable):
        await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    await a.command("FLUSHALL", "ASYNC")
    assert await a.unread("bob") == 1  # warm again, and without a note
    await land()
    assert await a.wrong()
    await settle_late(a)
    assert await a.unread("bob") == 0 and not await a.wrong()


async def test_a_conversation_that_lands_late_is_in_the_inbox_although_the_keyspace_was_lost(a: FaultyNode) -> None:
    land = give_up(a, "create")
    with pytest.raises(Unavailable):
        await a.core.directory.create("alice", kind="group", members=["bob"], name="crew")
    await a.command("FLUSHALL", "ASYNC")
    await a.unread("alice"), await a.unread("bob")
    await land()
    await settle_late(a)
    for user_id in ("alice", "bob"):
        page = await a.core.inbox.page(user_id, limit=5, cursor=None)
        assert [item.row.name for item in page.items] == ["crew"]


async def test_doubts_stay_until_the_keyspace_takes_them(a: FaultyNode, direct: str) -> None:
    give_up(a, "put")
    await a.send("alice", direct, "m1")
    with pytest.raises(Unavailable):
        await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    a.clock.elapsed_s += HOLD_MS / 1000 + 1
    a.keyspace.fail("unread_put", down)
    await a.core.doubts.settle()
    assert a.core.doubts._due_s
    await a.core.doubts.settle()
    assert not a.core.doubts._due_s
