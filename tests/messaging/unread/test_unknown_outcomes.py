"""A commit that happens after its answer was given up is counted, also where the keyspace lost the marker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, down
from tidings.bounds import REINDEX_S
from tidings.errors import Unavailable
from tidings.messaging.unread.rebuild import HOLD_MS


def give_up(port: Any, name: str) -> Callable[[], Any]:
    """Leave the next call of this port unanswered. The function that is returned carries the call out, late."""
    held: list[Any] = []
    real = getattr(port, name)

    async def unanswered(*args: Any, **fields: Any) -> None:
        held.append((real, args, fields))
        delattr(port, name)
        raise Unavailable("no answer yet", is_ambiguous=True)

    setattr(port, name, unanswered)
    return lambda: held[0][0](*held[0][1], **held[0][2])


async def settle_late(node: FaultyNode) -> None:
    await node.core.unknown_outcomes.settle()  # too early: the commit may still come
    node.clock.elapsed_s += HOLD_MS / 1000 + 1
    await node.core.unknown_outcomes.settle()


async def test_a_read_mark_that_lands_late_counts_although_the_keyspace_was_lost(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    land = give_up(a.tables.statuses, "put")
    with pytest.raises(Unavailable):
        await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    await a.command("FLUSHALL", "ASYNC")
    assert await a.unread("bob") == 1  # warm again, and without a marker
    await land()
    assert await a.wrong()
    await settle_late(a)
    assert await a.unread("bob") == 0 and not await a.wrong()


async def test_a_conversation_that_lands_late_is_in_the_inbox_although_the_keyspace_was_lost(a: FaultyNode) -> None:
    land = give_up(a.tables.conversations, "create")
    with pytest.raises(Unavailable):
        await a.core.directory.create("alice", kind="group", members=["bob"], name="crew")
    await a.command("FLUSHALL", "ASYNC")
    await a.unread("alice"), await a.unread("bob")
    await land()
    await settle_late(a)
    for user_id in ("alice", "bob"):
        page = await a.core.inbox.page(user_id, limit=5, cursor=None)
        assert [item.row.name for item in page.items] == ["crew"]


async def test_an_unknown_outcome_is_remembered_until_the_keyspace_is_up(a: FaultyNode, direct: str) -> None:
    give_up(a.tables.statuses, "put")
    await a.send("alice", direct, "m1")
    with pytest.raises(Unavailable):
        await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    a.clock.elapsed_s += HOLD_MS / 1000 + 1
    a.keyspace.fail("unread_put", down)
    await a.core.unknown_outcomes.settle()
    assert a.core.unknown_outcomes._due_s
    await a.core.unknown_outcomes.settle()
    assert not a.core.unknown_outcomes._due_s


async def test_a_mark_on_a_primary_that_is_gone_is_counted_again_on_the_other(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    assert await a.unread("bob") == 1
    filter_key = f"{a.core.keys.inbox('bob')}:unread"
    keys = (a.core.keys.mark("bob"), a.core.keys.unread("bob", direct), filter_key)
    other = [await a.command("DUMP", key) for key in keys]
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    for key, dump in zip(keys, other, strict=True):
        await a.command("RESTORE", key, 0, dump, "REPLACE")
    assert await a.wrong()
    a.core.unknown_outcomes.epoch_changed("old", "new")
    await a.core.unknown_outcomes.settle()
    assert await a.unread("bob") == 0 and not await a.wrong()


async def test_marks_of_more_than_a_minute_ago_are_left_alone(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    a.clock.elapsed_s += REINDEX_S + 1
    a.core.unknown_outcomes.epoch_changed("old", "new")
    assert not a.core.unknown_outcomes._due_s
