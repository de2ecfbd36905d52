"""Counts that are wrong for whatever reason are found and repaired, and counts on their way are left alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tests.support.messaging.two_nodes import connect
from tidings import bounds
from tidings.bounds import REBUILD_BIG_CHUNK, SCRUB_EVERY_S, SCRUB_ROWS_PER_S
from tidings.messaging.unread import count, scrubber
from tidings.pushes import ReadSynced
from tidings.stores.keyspace.scripts.marks import unpack_mark


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SCRUB_AGAIN_S", 0.0)


def repairs(node: FaultyNode) -> int:
    return int(node.core.metrics.repairs["unread"].value)


async def spoil(node: FaultyNode, user_id: str, conversation_id: str) -> None:
    """One unread message is forgotten, as if a script had a mistake: set, mark and totals agree with each other."""
    mark, unread = node.core.keys.mark(user_id), node.core.keys.unread(user_id, conversation_id)
    await node.command("ZREM", unread, 2)
    packed = unpack_mark(await node.command("HGET", mark, conversation_id))
    fewer = type(packed)(version=0, cursor=0, seen=0, count=packed.count - 1, first=1, floor=0, day=packed.day)
    await node.command("HSET", mark, conversation_id, fewer.packed(), ":unread", packed.count - 1)


async def test_a_wrong_count_of_a_connected_user_is_repaired_counted_and_told(a: FaultyNode, direct: str) -> None:
    bob = await connect(a, "bob")
    for number in range(3):
        await a.send("alice", direct, f"m{number}")
    assert await a.unread("bob") == 3
    await spoil(a, "bob", direct)
    assert await a.unread("bob") == 2 and await a.wrong()
    await a.core.scrubber.step()
    assert await a.unread("bob") == 3 and not await a.wrong() and repairs(a) == 1
    states = [event.state for event in bob.events if isinstance(event, ReadSynced)]
    assert (states[-1].conversation_id, states[-1].unread_count, states[-1].total_unread) == (direct, 3, 3)
    await a.core.scrubber.step()
    assert repairs(a) == 1, "nothing is wrong any more"


async def test_a_difference_that_passes_is_no_defect(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connect(a, "bob")
    await a.send("alice", direct, "m0")
    await a.unread("bob")
    mark, real = a.core.keys.mark("bob"), a.core.verify.compare
    await a.command("HSET", mark, ":unread", 7)
    tries = []

    async def compare(*args: object) -> object:
        tries.append(await real("bob"))
        await a.command("HSET", mark, ":unread", 1)  # the send is through
        return tries[-1]

    monkeypatch.setattr(a.core.verify, "compare", compare)
    await a.core.scrubber.step()
    assert [len(wrong) for _, wrong in tries] == [1, 0] and repairs(a) == 0


async def test_the_conversations_of_a_big_inbox_are_counted_as_fast_as_others(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A visit holds up the users after it: a wrong count must not stay for an hour."""
    monkeypatch.setattr(count, "REBUILD_CHUNK", 2 * REBUILD_BIG_CHUNK)
    for number in range(2 * REBUILD_BIG_CHUNK):
        await a.core.directory.create("bob", kind="group", members=[], name=f"g{number}")
    await a.unread("bob")
    pauses_s: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses_s.append(seconds)

    monkeypatch.setattr(scrubber, "asyncio", SimpleNamespace(sleep=sleep))
    assert await a.core.scrubber.visit("bob") == 2 * REBUILD_BIG_CHUNK
    assert len(pauses_s) > 1 and sum(pauses_s) == pytest.approx(2 * REBUILD_BIG_CHUNK / SCRUB_ROWS_PER_S)


async def test_every_connected_user_is_visited_and_then_the_loop_rests(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user_id in ("alice", "bob", "carol"):
        await connect(a, user_id)
    visited: list[str] = []

    async def compare(user_id: str, before_more: object) -> tuple[int, list[object]]:
        visited.append(user_id)
        return 600, []

    monkeypatch.setattr(a.core.verify, "compare", compare)
    pauses = []
    for _ in range(4):
        await a.core.scrubber.step()
        pauses.append(a.core.scrubber._pause_s)
    assert sorted(visited[:3]) == ["alice", "bob", "carol"] and visited[3] == visited[0]
    assert [pause == SCRUB_EVERY_S for pause in pauses] == [False, False, True, False]
