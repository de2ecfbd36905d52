"""Crossing the line between small and large conversations, in both directions, is seen by nobody."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.faulty_stores import Device, FaultyNode, Gate, answer_lost, open_faulty
from tests.support.messaging.two_nodes import connect, telling
from tests.support.waiting import eventually
from tidings.config.settings import Settings
from tidings.errors import Problem
from tidings.messaging.unread.line import crossed
from tidings.model import Content, Head
from tidings.pushes import MessageNew, ReadSynced


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Above three members a conversation is large; with two it is small again."""
    return dataclasses.replace(settings, members_large=3)


@pytest.fixture
async def large(a: FaultyNode) -> AsyncIterator[str]:
    """alice, bob, carol and dave: all have looked."""
    view, _ = await a.core.directory.create("alice", kind="channel", members=["bob", "carol", "dave"], name="news")
    assert view.head.large_ms > 0
    for user_id in ("alice", "bob", "carol", "dave"):
        assert await a.unread(user_id) == 0
    yield view.head.conversation_id
    assert await a.wrong() == []


@pytest.mark.parametrize(
    ("large_ms", "count", "after"), [(0, 500, None), (0, 501, 7), (5, 501, None), (5, 401, None), (5, 400, 0)]
)
def test_a_conversation_crosses_the_line_and_comes_back_a_little_lower(
    large_ms: int, count: int, after: int | None
) -> None:
    head = Head(conversation_id="c", kind="group", created_ms=1, large_ms=large_ms)
    assert crossed(head, count, 500, now_ms=7) == after


async def test_a_post_writes_nothing_of_a_member_and_everybody_has_it_unread(a: FaultyNode, large: str) -> None:
    await a.send("alice", large, "m0")  # the first post makes marks cold that could be from before the line
    for user_id in ("bob", "carol", "dave"):
        assert await a.unread(user_id) == 1
    before = {user_id: await a.command("HGETALL", a.core.keys.mark(user_id)) for user_id in ("bob", "carol", "dave")}
    await a.send("alice", large, "m1")
    await a.core.sends.send("bob", large, "m2", Content("hello", mentions=("carol",)))
    assert {user_id: await a.command("HGETALL", a.core.keys.mark(user_id)) for user_id in before} == before
    counts = {user_id: await a.unread(user_id) for user_id in ("alice", "bob", "carol", "dave")}
    assert counts == {"alice": 1, "bob": 2, "carol": 3, "dave": 3}
    assert (await a.core.unread.totals("carol")).total_mentions == 1
    page = await a.core.inbox.page("carol", limit=10, cursor=None)
    (item,) = page.items
    assert (item.state.unread_count, item.row.last_message_preview, page.totals.total_unread) == (3, "hello", 3)


async def test_a_member_who_has_not_looked_since_the_line_was_crossed_is_cold_and_not_wrong(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    assert [await a.unread(user_id) for user_id in ("alice", "bob", "carol")] == [0, 1, 1]
    await a.core.directory.add("alice", group, ["dave"], is_server=True)
    await a.send("alice", group, "m2")
    assert await a.wrong() == []
    assert (await a.unread("bob"), await a.wrong()) == (2, [])


async def test_a_node_with_a_wrong_clock_crosses_the_line_as_any_other(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    assert [await a.unread(user_id) for user_id in ("alice", "bob", "carol")] == [0, 1, 1]
    b.clock.ahead_ms += 3_600_000
    await b.core.directory.add("alice", group, ["dave"], is_server=True)
    await b.send("alice", group, "m2")
    assert [await a.unread(user_id) for user_id in ("alice", "bob", "carol", "dave")] == [0, 2, 2, 1]


async def test_a_member_who_joins_crosses_the_line_with_the_counts_that_there_were(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    assert await a.unread("bob") == 1
    await b.core.directory.add("alice", group, ["dave"], is_server=True)
    assert (await a.tables.conversations.heads([group]))[group].large_ms > 0
    await a.send("alice", group, "m2")
    assert (await a.unread("bob"), await b.unread("bob"), await b.unread("dave")) == (2, 2, 1)
    for user_id in ("dave", "carol"):
        await b.core.directory.remove("alice", group, user_id)
    assert (await a.tables.conversations.heads([group]))[group].large_ms == 0
    await b.send("alice", group, "m3")
    assert (await a.unread("bob"), await b.unread("bob")) == (3, 3)
    assert await a.wrong() == []


async def test_a_join_that_is_indexed_after_a_later_removal_shows_nothing(
    a: FaultyNode, b: FaultyNode, large: str
) -> None:
    assert await a.unread("erin") == 0  # warm
    gate = Gate()
    b.keyspace.fail("inbox_join", gate)
    late = asyncio.ensure_future(b.core.directory.add("alice", large, ["erin"], is_server=True))
    await gate.reached.wait()
    await a.core.directory.remove("alice", large, "erin")
    gate.opened.set()
    await late
    await a.send("alice", large, "m1")
    assert (await a.unread("erin"), await a.wrong()) == (0, [])


async def preview(node: FaultyNode, user_id: str) -> str | None:
    (item,) = (await node.core.inbox.page(user_id, limit=10, cursor=None)).items
    return item.row.last_message_preview


async def come_back(node: FaultyNode, conversation_id: str) -> None:
    """The conversation is small again, and nobody has posted."""
    for user_id in ("dave", "carol"):
        await node.core.directory.remove("alice", conversation_id, user_id)
    assert (await node.tables.conversations.heads([conversation_id]))[conversation_id].large_ms == 0


async def test_the_last_text_is_shown_before_above_and_after_the_line(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "hello")
    assert await preview(a, "bob") == "hello"
    await a.core.directory.add("alice", group, ["dave"], is_server=True)
    assert await preview(a, "bob") == "hello"
    await come_back(a, group)
    assert await preview(a, "bob") == "hello"
    row = (await a.tables.inboxes.rows("bob", [group]))[group]
    assert row.last_message_preview == "hello", "it is in the row again, and the next page does not ask the head"


async def test_a_text_that_was_deleted_above_the_line_stays_deleted_below_it(a: FaultyNode, group: str) -> None:
    sent = await a.send("alice", group, "m1", "secret")
    assert await preview(a, "bob") == "secret"
    await a.core.directory.add("alice", group, ["dave"], is_server=True)
    await a.core.rewrites.delete("alice", group, sent.entry.seq_no)
    await come_back(a, group)
    assert await preview(a, "bob") is None


async def test_a_member_who_joins_with_the_line_is_not_shown_what_was_said_before(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "between us")
    await a.core.directory.add("alice", group, ["dave"], is_server=True)
    for user_id in ("bob", "carol"):
        await a.core.directory.remove("alice", group, user_id)
    (item,) = (await a.core.inbox.page("dave", limit=10, cursor=None)).items
    assert (item.row.last_message_preview, item.row.last_message) == (None, None)


async def test_a_node_that_dies_while_the_line_is_crossed_leaves_nobody_without_a_message(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    assert await a.unread("bob") == 0
    a.keyspace.fail("tally_add", answer_lost)
    with pytest.raises(Problem):
        await a.core.directory.add("alice", group, ["dave"], is_server=True)
    await b.send("alice", group, "m1")
    assert (await b.unread("bob"), await b.unread("dave")) == (1, 1)


async def test_devices_on_every_node_get_the_entry_and_then_their_counts(
    a: FaultyNode, b: FaultyNode, large: str
) -> None:
    async with telling(a, b):
        devices = [await connect(a, "bob"), await connect(b, "carol")]
        await a.send("alice", large, "m1")
        await eventually(lambda: [new_of(device) for device in devices] == [[None], [None]])
        await eventually(lambda: [counts_of(device)[-1:] for device in devices] == [[1], [1]])


def new_of(device: Device) -> list[int | None]:
    return [event.unread_count for event in device.events if isinstance(event, MessageNew)]


def counts_of(device: Device) -> list[int | None]:
    return [event.state.unread_count for event in device.events if isinstance(event, ReadSynced)]


async def test_people_whom_a_member_has_blocked_do_not_count(a: FaultyNode, large: str) -> None:
    await a.core.sends.send("alice", large, "m1", Content("x", mention="all"))
    await a.core.sends.send("bob", large, "m2", Content("x", mentions=("carol",)))
    await a.core.blocks.block("carol", "bob")
    state = await a.core.unread.state("carol", large)
    assert (state.unread_count, state.mention_count, state.first_unread_seq, state.first_mention_seq) == (1, 1, 1, 1)


async def test_another_setting_changes_nothing_before_members_change(
    settings: Settings, a: FaultyNode, large: str
) -> None:
    async with open_faulty(dataclasses.replace(settings, members_large=500), "c") as c:
        await c.send("alice", large, "m1")
        assert (await c.unread("bob"), await a.unread("bob")) == (1, 1)


async def test_an_invited_user_has_nothing_unread_before_the_invitation_is_accepted(a: FaultyNode, large: str) -> None:
    await a.core.directory.remove("dave", large, "dave")
    await a.core.directory.add("alice", large, ["dave"])
    await a.send("alice", large, "m1")
    assert (await a.unread("dave"), await a.unread("bob")) == (0, 1)
    await a.core.directory.accept("dave", large)
    await a.send("alice", large, "m2")
    assert (await a.unread("dave"), await a.unread("bob")) == (1, 2)


async def test_a_follower_of_a_thread_gets_its_counts_on_another_node(a: FaultyNode, b: FaultyNode, large: str) -> None:
    async with telling(a, b):
        await a.send("bob", large, "root")
        carol = await connect(b, "carol")
        await b.core.threads.follow("carol", large, 1, is_on=True)
        await a.core.sends.send("alice", large, "r1", Content("reply", thread_seq=1))
        await eventually(lambda: thread_counts(carol)[-1:] == [(1, 1, 1)])
    assert (await a.unread("carol"), await a.unread("dave")) == (1, 1), "a reply stays in its thread"


def thread_counts(device: Device) -> list[tuple[int | None, int | None, int | None]]:
    states = [event.state for event in device.events if isinstance(event, ReadSynced)]
    return [(one.thread_seq, one.unread_count, one.unread_threads) for one in states if one.thread_seq is not None]
