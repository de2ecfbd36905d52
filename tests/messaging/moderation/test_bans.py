"""Bans: out at once, and no way back in until the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, Gate
from tidings.errors import BadRequest, Forbidden, NotFound
from tidings.stores.tables.values import Preferences


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


@pytest.mark.parametrize("way", ["added", "open", "invited"])
async def test_a_person_who_is_banned_while_they_join_is_no_member(
    a: FaultyNode, b: FaultyNode, group: str, way: str
) -> None:
    await a.core.rules.change("alice", group, {"visibility": "open"})
    if way == "invited":
        await a.core.consent.put_preferences("dave", Preferences(who_may_add="nobody"))
        await a.core.directory.add("alice", group, ["dave"])
    gate = Gate()
    b.keyspace.fail("conversation_number", gate)
    ways: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "added": lambda: b.core.directory.add("alice", group, ["dave"]),
        "open": lambda: b.core.joining.join("dave", group),
        "invited": lambda: b.core.directory.accept("dave", group),
    }
    late = asyncio.ensure_future(ways[way]())
    await gate.reached.wait()  # it has found no ban
    await a.core.bans.put("alice", group, "dave", None)
    gate.opened.set()
    with pytest.raises(Forbidden):
        await late
    assert await a.code("dave", group, "m1") == "not_found"


async def test_a_person_who_joins_while_a_ban_is_stored_is_removed_with_it(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, put = Gate(), a.tables.records.put
    with monkeypatch.context() as patch:
        patch.setattr(a.core.bans._records, "put", lambda puts: gate(lambda: put(puts)))
        ban = asyncio.ensure_future(a.core.bans.put("alice", group, "dave", None))
        await gate.reached.wait()
        await b.core.directory.add("alice", group, ["dave"])
        gate.opened.set()
        await ban
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
