"""Bans: out at once, and no way back in until the end."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import BadRequest, Forbidden, NotFound


async def test_a_banned_member_is_removed_and_no_way_leads_back(a: FaultyNode, group: str) -> None:
    await a.core.rules.change("alice", group, {"visibility": "open"})
    invite, _ = await a.core.joining.invite("alice", group, expires_s=None, uses=None, role="member")
    await a.core.bans.put("alice", group, "bob", None)
    assert await a.code("bob", group, "m1") == "not_found"
    for way in (
        a.core.joining.join("bob", group),
        a.core.joining.use("bob", invite),
        a.core.directory.add("alice", group, ["bob"], is_server=True),
    ):
        with pytest.raises(Forbidden):
            await way
    await a.core.bans.end("alice", group, "bob")
    await a.core.joining.join("bob", group)
    assert await a.code("bob", group, "m2") == "stored"


async def test_a_join_that_was_under_way_is_undone(a: FaultyNode, group: str) -> None:
    await a.core.directory.add("alice", group, ["dave"], is_server=True)
    await a.core.bans._store("alice", group, "dave", None)
    with pytest.raises(Forbidden):
        await a.core.bans.undo_joins(group, ["dave"])
    assert await a.code("dave", group, "m1") == "not_found"


async def test_only_leaders_ban_and_nobody_bans_the_owner_or_themself(a: FaultyNode, group: str) -> None:
    await a.core.directory.set_role("alice", group, "carol", "admin")
    with pytest.raises(Forbidden):
        await a.core.bans.put("bob", group, "carol", None)
    with pytest.raises(Forbidden):
        await a.core.bans.put("carol", group, "alice", None)
    with pytest.raises(BadRequest):
        await a.core.bans.put("alice", group, "alice", None)
    with pytest.raises(NotFound):
        await a.core.bans.end("alice", group, "bob")
    await a.core.bans.put("carol", group, "mallory", None)  # somebody who is not there yet
    with pytest.raises(Forbidden):
        await a.core.directory.add("alice", group, ["mallory"], is_server=True)
