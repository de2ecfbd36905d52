"""The tally of a large conversation is built from the log, whatever is posted, deleted or lost meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, Gate
from tidings.config.settings import Settings
from tidings.errors import NotFound
from tidings.messaging.unread import tallies


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, members_large=2, unread=dataclasses.replace(settings.unread, cap=3))


async def line_of(node: FaultyNode, conversation_id: str) -> int:
    return (await node.tables.conversations.heads([conversation_id]))[conversation_id].large_ms


async def lose(node: FaultyNode, conversation_id: str, *parts: str) -> None:
    for part in parts or ("", ":seq", ":who", ":gone"):
        await node.command("DEL", node.core.keys.tally(conversation_id) + part)


@pytest.mark.parametrize("part", ["", ":seq", ":who"])
async def test_a_lost_part_is_built_again(a: FaultyNode, group: str, part: str) -> None:
    await a.send("alice", group, "m1")
    assert await a.unread("bob") == 1
    await lose(a, group, part)
    await a.send("alice", group, "m2")
    assert await a.unread("bob") == 2
    assert await a.wrong() == []


async def test_a_message_that_is_deleted_during_a_build_stays_out(a: FaultyNode, b: FaultyNode, group: str) -> None:
    for number in range(3):
        await a.send("alice", group, f"m{number}")
    await lose(a, group)
    gate = Gate()
    a.keyspace.fail("tally_fill", gate)
    building = asyncio.create_task(a.core.large.tallies.build(group, await line_of(a, group)))
    await gate.reached.wait()  # the log is read
    await b.core.rewrites.delete("alice", group, 2)
    await b.send("alice", group, "m3")
    gate.opened.set()
    assert await building
    assert await b.unread("bob") == 3
    assert await b.wrong() == []


async def test_of_a_long_log_the_newest_part_is_kept_and_the_tables_answer_the_rest(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "TALLY_CHUNK", 2)
    for number in range(9):
        await a.send("bob" if number > 1 else "alice", group, f"m{number}")
    await lose(a, group)
    state = await a.core.unread.state("bob", group)
    assert (state.unread_count, state.first_unread_seq) == (2, 1), "bob wrote all that the tally has"
    assert (await a.core.unread.state("carol", group)).unread_capped
    assert await a.wrong() == []


async def test_an_older_line_is_refused_and_a_conversation_that_is_gone_has_no_tally(a: FaultyNode, group: str) -> None:
    line_ms = await line_of(a, group)
    assert await a.core.large.tallies.build(group, line_ms)
    assert not await a.core.large.tallies.build(group, line_ms - 1)
    await a.core.directory.delete("alice", group)
    with pytest.raises(NotFound):
        await a.core.large.tallies.build(group, line_ms)
