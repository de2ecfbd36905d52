"""Who may begin a conversation with whom, and who may put whom into a group."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, Recorded
from tidings.errors import Forbidden
from tidings.messaging.people.consent import Consent
from tidings.stores.tables.values import Preferences, WhoMay


async def wants(node: FaultyNode, user_id: str, *, write: WhoMay = "anybody", add: WhoMay = "anybody") -> None:
    await node.core.consent.put_preferences(user_id, Preferences(write, add))


async def test_without_a_preference_anybody_may(a: FaultyNode) -> None:
    assert not await a.core.consent.is_request("stranger", "bob")
    assert await a.core.consent.split("stranger", ["bob", "carol"]) == (["bob", "carol"], [])


async def test_nobody_may_begin_where_nobody_is_wanted_but_a_server_may(a: FaultyNode) -> None:
    await wants(a, "bob", write="nobody")
    with pytest.raises(Forbidden):
        await a.core.directory.create("stranger", kind="direct", members=["bob"])
    _, is_new = await a.core.directory.create("stranger", kind="direct", members=["bob"], is_server=True)
    assert is_new


async def test_people_of_a_shared_group_are_no_strangers(a: FaultyNode, group: str) -> None:
    await wants(a, "bob", write="shared", add="shared")
    assert not await a.core.consent.is_request("alice", "bob")
    assert await a.core.consent.is_request("stranger", "bob")
    assert await a.core.consent.split("alice", ["bob"]) == (["bob"], [])
    assert await a.core.consent.split("stranger", ["bob"]) == ([], ["bob"])
    await a.core.directory.remove("alice", group, "bob")
    assert await a.core.consent.is_request("alice", "bob")


async def test_an_invitation_makes_nobody_acquainted(a: FaultyNode) -> None:
    await wants(a, "bob", write="shared", add="nobody")
    await a.core.directory.create("stranger", kind="group", members=["bob"], name="trap")
    assert await a.core.consent.is_request("stranger", "bob")


async def test_a_person_who_was_blocked_neither_adds_nor_invites(a: FaultyNode) -> None:
    await a.core.blocks.block("bob", "mallory")
    assert await a.core.consent.split("mallory", ["bob", "carol"]) == (["carol"], [])
    view, _ = await a.core.directory.create("mallory", kind="group", members=["bob", "carol"], name="spam")
    assert [member.user_id for member in view.members] == ["mallory", "carol"]
    assert await a.tables.inboxes.rows("bob", [view.head.conversation_id]) == {}


async def test_the_conversations_of_an_asker_are_read_once_however_many_people_are_named(a: FaultyNode) -> None:
    others = [f"user{n}" for n in range(30)]
    for user_id in others:
        await wants(a, user_id, add="shared")
    for n in range(3):
        await a.core.directory.create("stranger", kind="group", members=[f"bob{n}"], name=f"group {n}")
    view, _ = await a.core.directory.create("stranger", kind="group", members=[], name="friends")
    await a.core.directory.add("stranger", view.head.conversation_id, others[:2], is_server=True)
    asked = Recorded(a.tables.inboxes), Recorded(a.tables.conversations)
    consent = Consent(a.tables.people, cast(Any, asked[0]), cast(Any, asked[1]), a.core.blocks)
    assert await consent.split("stranger", others) == (others[:2], others[2:])
    assert [one.asked for one in asked] == [["scan", "scan"], ["named"] * 4]
    assert await consent.split("stranger", [others[0], others[9]]) == ([others[0]], [others[9]])
