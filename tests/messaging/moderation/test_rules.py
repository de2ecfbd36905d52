"""Rules: who may post, exactly from the entry of the change on, on every node."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import Forbidden, NotFound
from tidings.model import Rules


async def test_only_admins_post_where_the_rule_says_so_on_every_node(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.send("bob", group, "m1")  # node b has the list in memory
    await a.core.rules.change("alice", group, {"post": "admins"})
    assert [await node.code("bob", group, f"{at}") for at, node in enumerate((a, b))] == ["forbidden"] * 2
    assert await b.code("alice", group, "m2") == "stored"
    await a.core.rules.change("alice", group, {"post": "all"})
    assert await b.code("bob", group, "m3") == "stored"


async def test_the_change_is_a_numbered_entry_that_counts_for_nobody(a: FaultyNode, group: str) -> None:
    await a.core.rules.change("alice", group, {"slow_s": 30, "data": {"color": "red"}})
    (entry,) = await a.log(group)
    assert (entry.kind, entry.sender_id, entry.member) == ("conversation", "alice", None)
    assert entry.content is not None and entry.content.conversation == {"slow_s": 30, "data": {"color": "red"}}
    assert await a.unread("bob") == 0 and await a.wrong() == []
    view = await a.core.directory.view("bob", group)
    assert view.rules == Rules(slow_s=30, data={"color": "red"})
    assert [member.role for member in view.members] == ["owner", "member", "member"]


async def test_in_a_frozen_conversation_nobody_writes_and_messages_can_be_deleted(a: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1")
    await a.core.rules.change("alice", group, {"frozen": True})
    assert [await a.code(user_id, group, "m2") for user_id in ("alice", "bob")] == ["forbidden"] * 2
    await a.core.rewrites.delete("bob", group, 1)
    await a.core.rules.change("alice", group, {"frozen": False})
    assert await a.code("bob", group, "m3") == "stored"


async def test_only_leaders_change_rules_and_a_direct_conversation_has_few(a: FaultyNode, group: str) -> None:
    with pytest.raises(Forbidden):
        await a.core.rules.change("bob", group, {"frozen": True})
    with pytest.raises(NotFound):
        await a.core.rules.change("mallory", group, {"frozen": True})
    view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
    direct = view.head.conversation_id
    with pytest.raises(Forbidden):
        await a.core.rules.change("bob", direct, {"frozen": True})
    await a.core.rules.change("bob", direct, {"retention_s": 60})
    assert (await a.core.directory.view("alice", direct)).rules.retention_s == 60


async def test_two_changes_at_the_same_time_both_hold(a: FaultyNode, b: FaultyNode, group: str) -> None:
    import asyncio

    await asyncio.gather(
        a.core.rules.change("alice", group, {"post": "admins"}), b.core.rules.change("alice", group, {"slow_s": 5})
    )
    assert (await a.core.directory.view("alice", group)).rules == Rules(post="admins", slow_s=5)
