"""Fan-out: a burst goes out in slices, in order, and others are served in between."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, code_of
from tests.support.messaging.two_nodes import connect, write
from tidings.messaging.deliver import fan_out
from tidings.model import Content
from tidings.pushes import MessageNew

NOBODY: dict[int, str | None] = {}


async def test_few_pushes_go_out_in_the_turn_of_their_caller(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    member_list = await a.core.access.load(group)
    assert member_list is not None
    a.core.deliver.accept(member_list, await write(a, group, 1, 3), {}, NOBODY)
    assert bob.seqs() == [1, 2, 3]


async def test_a_burst_goes_out_in_slices_and_each_device_gets_it_in_order(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 2)
    devices = [await connect(a, user_id) for user_id in ("alice", "bob", "carol")]
    entries = await write(a, group, 1, 9)
    member_list = await a.core.access.load(group)
    assert member_list is not None
    for start in (0, 3, 6):
        a.core.deliver.accept(member_list, entries[start : start + 3], {}, NOBODY)
    turns = 0
    counts = []
    while any(len(device.seqs()) < 9 for device in devices):
        counts.append(sum(len(device.seqs()) for device in devices))
        await asyncio.sleep(0)
        turns += 1
    assert turns > 3, "others had their turns"
    assert max(later - before for before, later in itertools.pairwise(counts)) <= 3, "one member in a turn"
    assert [device.seqs() for device in devices] == [list(range(1, 10))] * 3
    await a.core.deliver._fan_out.settle(group)
    assert not a.core.deliver._fan_out._lines


async def test_a_burst_gives_way_to_the_tables_between_two_slices(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 1)
    commit = asyncio.Event()

    async def quiet() -> None:
        await commit.wait()

    monkeypatch.setattr(a.core.deliver._fan_out, "quiet", quiet)
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    sending = a.submit("alice", group, "m1")
    while not bob.seqs() + carol.seqs():
        await asyncio.sleep(0.001)
    assert sorted([len(bob.seqs()), len(carol.seqs())]) == [0, 1], "the first slice goes at once"
    commit.set()
    assert code_of(await sending) == "stored"
    await a.core.deliver._fan_out.settle(group)
    assert bob.seqs() == carol.seqs() == [1]


async def test_small_pushes_that_wait_share_a_slice(a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would wait for a commit of its own, and entries come faster than that."""
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 6)
    may_go_on, waited = asyncio.Semaphore(0), list[None]()

    async def quiet() -> None:
        waited.append(None)
        await may_go_on.acquire()

    monkeypatch.setattr(a.core.deliver._fan_out, "quiet", quiet)
    devices = [await connect(a, user_id) for user_id in ("alice", "bob", "carol")]
    entries = await write(a, group, 1, 10)
    member_list = await a.core.access.load(group)
    assert member_list is not None
    a.core.deliver.accept(member_list, entries[:4], {}, NOBODY)
    for entry in entries[4:]:
        a.core.deliver.accept(member_list, [entry], {}, NOBODY)
    assert a.core.deliver._fan_out._lines, "the test would show nothing"
    for _ in entries:
        may_go_on.release()
    await a.core.deliver._fan_out.settle(group)
    assert [device.seqs() for device in devices] == [list(range(1, 11))] * 3
    assert len(waited) <= 4, "22 pushes in slices of six"


async def test_a_batch_waits_for_its_own_pushes_and_for_no_later_ones(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may write in the conversation all the time, through other nodes: then its line is never empty."""
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 1)
    may_go_on = asyncio.Semaphore(0)
    monkeypatch.setattr(a.core.deliver._fan_out, "quiet", may_go_on.acquire)
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    entries = await write(a, group, 1, 3)
    member_list = await a.core.access.load(group)
    assert member_list is not None
    a.core.deliver.accept(member_list, entries[:1], {}, NOBODY)
    batch = asyncio.ensure_future(a.core.deliver._fan_out.settle(group))
    await asyncio.sleep(0)
    a.core.deliver.accept(member_list, entries[1:], {}, NOBODY)
    while len(bob.seqs() + carol.seqs()) < 3:
        may_go_on.release()
        await asyncio.sleep(0)
    await asyncio.wait({batch}, timeout=10)
    assert batch.done() and len(bob.seqs() + carol.seqs()) < 6


async def test_a_batch_waits_for_no_pushes_of_a_node_that_ends(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 1)
    monkeypatch.setattr(a.core.deliver._fan_out, "quiet", asyncio.Event().wait)
    for user_id in ("bob", "carol"):
        await connect(a, user_id)
    await a.send("alice", group, "m1")
    assert a.core.deliver._fan_out._lines, "the test would show nothing"
    await a.core.deliver.close()
    async with asyncio.timeout(60):
        await a.core.sends.drain()


async def test_a_batch_is_over_when_its_pushes_are_out(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 1)
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    await asyncio.gather(*(a.submit("alice", group, f"m{at}") for at in range(20)))
    await a.send("alice", group, "last")
    await a.core.deliver._fan_out.settle(group)
    assert bob.seqs() == carol.seqs() == list(range(1, 22))


async def test_a_message_for_its_sender_alone_goes_out_although_somebody_has_blocked_the_sender(
    a: FaultyNode, group: str
) -> None:
    await a.core.blocks.block("bob", "alice")
    devices = [await connect(a, user_id) for user_id in ("bob", "carol")]
    await a.core.sends.send("alice", group, "m1", Content("spam", only_sender=True))
    await a.send("alice", group, "m2")
    assert [device.seqs() for device in devices] == [[1, 2], [1, 2]]
    news = [event for device in devices for event in device.events if isinstance(event, MessageNew)]
    assert [(event.entry.sender_id, event.is_hidden) for event in news] == [
        (None, False),
        ("alice", True),
        (None, False),
        ("alice", False),
    ]
