"""Joining: who finds what, who gets in, and how often an invite counts."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, open_faulty
from tidings.config.settings import Settings
from tidings.errors import Forbidden, Gone, NotFound, Problem


async def test_listed_conversations_are_found_by_name_and_only_open_ones_are_joined(a: FaultyNode, group: str) -> None:
    view, _ = await a.core.directory.create("alice", kind="channel", members=[], name="Announcements")
    channel = view.head.conversation_id
    with pytest.raises(NotFound):
        await a.core.joining.join("dave", channel)
    await a.core.rules.change("alice", channel, {"visibility": "listed"})
    found, cursor = await a.core.joining.listed("announce", "", 10)
    assert ([head.conversation_id for head in found], cursor) == ([channel], None)
    with pytest.raises(Forbidden):
        await a.core.joining.join("dave", channel)
    await a.core.rules.change("alice", channel, {"visibility": "open"})
    await a.core.joining.join("dave", channel)
    await a.core.joining.join("dave", channel)  # again: nothing happens
    assert await a.code("dave", channel, "m1") == "stored"
    await a.core.rules.change("alice", channel, {"visibility": "private"})
    assert await a.core.joining.listed("", "", 10) == ([], None)


async def test_the_directory_goes_on_where_a_page_ended(a: FaultyNode) -> None:
    for at in range(5):
        view, _ = await a.core.directory.create("alice", kind="channel", members=[], name=f"room {at}")
        await a.core.rules.change("alice", view.head.conversation_id, {"visibility": "listed"})
    first, cursor = await a.core.joining.listed("", "", 3)
    assert cursor is not None
    rest, end = await a.core.joining.listed("", cursor, 3)
    assert (len(first), len(rest), end) == (3, 2, None)
    assert len({head.name for head in (*first, *rest)}) == 5


@pytest.mark.parametrize(
    ("people", "uses"), [(60, 10), pytest.param(10_000, 100, marks=pytest.mark.long, id="ten thousand")]
)
async def test_an_invite_lets_exactly_as_many_in_as_it_has_uses_on_three_nodes(
    a: FaultyNode, b: FaultyNode, settings: Settings, group: str, people: int, uses: int
) -> None:
    async with open_faulty(settings, "c") as c:
        invite, made = await a.core.joining.invite("alice", group, expires_s=None, uses=uses, role="member")
        turns = asyncio.Semaphore(60)

        async def join(at: int) -> str:
            node = (a, b, c)[at % 3]
            async with turns:
                for _ in range(100):
                    try:
                        await node.core.joining.use(f"u{at}", invite)
                        return "in"
                    except Gone:
                        return "gone"
                    except Problem as problem:
                        assert problem.is_temporary
            return "never"

        outcomes = await asyncio.gather(*(join(at) for at in range(people)))
    assert (outcomes.count("in"), outcomes.count("gone")) == (uses, people - uses)
    view = await a.core.directory.view("alice", group)
    assert len(view.members) == 3 + uses
    (left,) = await a.core.joining.invites("alice", group)
    assert (left.invite_id, left.uses_left) == (made.invite_id, 0)
    assert await a.wrong() == []


async def test_an_invite_ends_with_its_time_or_when_it_is_withdrawn(a: FaultyNode, group: str) -> None:
    timed, _ = await a.core.joining.invite("alice", group, expires_s=60, uses=None, role="member")
    other, made = await a.core.joining.invite("alice", group, expires_s=None, uses=None, role="admin")
    assert await a.core.joining.use("dave", other) == group
    assert await a.core.joining.use("dave", other) == group  # a member uses nothing up
    roles = {one.user_id: one.role for one in (await a.core.directory.view("alice", group)).members}
    assert roles["dave"] == "admin"
    await a.core.joining.withdraw("alice", group, made.invite_id)
    a.clock.ahead_ms = 61_000
    for invite in (timed, other, "nonsense", "x.y"):
        with pytest.raises(Gone):
            await a.core.joining.use("erin", invite)
    with pytest.raises(Forbidden):
        await a.core.joining.invite("bob", group, expires_s=None, uses=None, role="member")
