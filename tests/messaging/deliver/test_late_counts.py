"""Counts that could not go with their entry follow it, and each member shows the right number in the end."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import Device, FaultyNode, Gate, down
from tests.support.messaging.two_nodes import connect, shown, telling
from tests.support.waiting import eventually
from tidings.config.settings import Settings
from tidings.errors import NotFound
from tidings.messaging.deliver import late_counts
from tidings.messaging.deliver.late_counts import LateCounts
from tidings.messaging.unread.bounds import COUNTS_COMPARED_MAX
from tidings.model import ReadState
from tidings.pushes import MessageNew, ReadSynced
from tidings.routing.hub import Hub


class Spawn:
    """Starts tasks and remembers them."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    def __call__(self, key: object, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]


def state_of(conversation_id: str, unread_count: int) -> ReadState:
    return ReadState(
        conversation_id=conversation_id,
        read_seq=0,
        unread_count=unread_count,
        unread_capped=False,
        first_unread_seq=1,
        total_unread=None,
    )


async def test_a_count_that_comes_after_its_entry_is_told_again(a: FaultyNode, b: FaultyNode, group: str) -> None:
    async with telling(a, b):
        bob = await connect(b, "bob")
        await a.send("alice", group, "m1")
        await eventually(lambda: bob.seqs() == [1])
        gate = Gate()
        a.keyspace.fail("inbox_index", gate)
        slow = a.submit("alice", group, "m2")  # stored, and not counted yet
        await gate.reached.wait()
        await b.send("carol", group, "m3")
        await eventually(lambda: bob.seqs() == [1, 2, 3])
        await eventually(lambda: shown(bob)[-1:] == [2])
        gate.opened.set()
        await slow
        await eventually(lambda: shown(bob)[-1:] == [3])
        assert bob.seqs() == [1, 2, 3]


async def test_counts_of_a_cold_member_follow_the_entry(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    await a.send("alice", group, "m1")
    await a.command("DEL", a.core.keys.mark("bob"))
    await a.send("alice", group, "m2")
    assert [(event.unread_count, event.total_unread) for event in bob.events if isinstance(event, MessageNew)] == [
        (1, 1),
        (None, None),
    ]
    await eventually(lambda: shown(bob) == [2])


async def test_a_cold_member_is_rebuilt_once_however_many_entries_come(a: FaultyNode, group: str) -> None:
    await connect(a, "bob")
    gate = Gate()
    a.keyspace.fail("unread_state", gate)
    late = a.core.deliver._late_counts
    late.sync_soon("bob", group)
    await gate.reached.wait()
    late.sync_soon("bob", group)
    assert len(a.core.deliver._tasks) == 1
    gate.opened.set()
    await eventually(lambda: not a.core.deliver._tasks and not late._cold)


async def test_entries_of_a_moment_share_the_counts_and_a_later_one_is_counted_again() -> None:
    asked: list[str] = []
    reading, go_on = asyncio.Event(), asyncio.Event()

    class Unread:
        async def state(self, user_id: str, conversation_id: str) -> ReadState:
            asked.append(user_id)
            reading.set()
            await go_on.wait()
            raise NotFound("nobody looks at it here")

    spawn = Spawn()
    late = LateCounts(Hub(), None, Unread(), None, spawn, None)  # type: ignore[arg-type]
    late.sync_soon("bob", "c1", 0.001)
    late.sync_soon("bob", "c1", 0.001)
    await reading.wait()
    assert asked == ["bob"] and len(spawn.tasks) == 1
    late.sync_soon("bob", "c1", 0.001)  # the counts that are being read may not have this entry
    go_on.set()
    await asyncio.gather(*spawn.tasks)
    assert asked == ["bob", "bob"]


async def test_counts_that_changed_while_they_were_read_are_pushed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newer count went out with its entry while the older one was read, and the older one would stay on screen."""
    monkeypatch.setattr(late_counts, "COUNT_RESYNC_S", 0)
    counts = iter([2, 3, 3])
    pushed: list[int | None] = []

    class Unread:
        async def state(self, user_id: str, conversation_id: str) -> ReadState:
            return state_of(conversation_id, next(counts))

    class Router:
        def push(self, user_id: str, event: ReadSynced) -> None:
            pushed.append(event.state.unread_count)

    spawn = Spawn()
    LateCounts(Hub(), None, Unread(), Router(), spawn, None).sync_soon("bob", "c1")  # type: ignore[arg-type]
    await asyncio.gather(*spawn.tasks)
    assert pushed == [2, 3] and next(counts, None) is None


async def test_members_whose_counts_change_all_the_time_leave_their_places_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Comparing them would go on for as long as people write, and each entry brings its own counts."""
    monkeypatch.setattr(late_counts, "COUNT_RESYNC_S", 0)
    monkeypatch.setattr(late_counts, "LATE_COUNTS_MAX", 3)
    asked: list[str] = []

    class Unread:
        async def state(self, user_id: str, conversation_id: str) -> ReadState:
            asked.append(user_id)
            return state_of(conversation_id, len(asked))

    class Router:
        def push(self, user_id: str, event: ReadSynced) -> None:
            pass

    spawn = Spawn()
    late = LateCounts(Hub(), None, Unread(), Router(), spawn, None)  # type: ignore[arg-type]
    for number in range(10):
        late.sync_soon(f"user-{number}", "c1")
    while unfinished := [task for task in spawn.tasks if not task.done()]:
        await asyncio.wait(unfinished)
    assert Counter(asked) == {f"user-{number}": COUNTS_COMPARED_MAX for number in range(10)}


@pytest.mark.parametrize("is_large", [False, True])
async def test_however_many_members_are_cold_few_of_them_are_under_way(
    monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    monkeypatch.setattr(late_counts, "LATE_COUNTS_MAX", 3)
    gate, asked = asyncio.Event(), set[str]()

    class Unread:
        async def state(self, user_id: str, conversation_id: str) -> ReadState:
            await gate.wait()
            asked.add(user_id)
            raise NotFound("nobody looks at it here")

        async def states(self, user_ids: object, conversation_id: str) -> dict[str, ReadState]:
            return {}

    spawn, users = Spawn(), [f"u{n}" for n in range(50)]
    late = LateCounts(Hub(), None, Unread(), None, spawn, None)  # type: ignore[arg-type]
    if is_large:
        await late._push_some(users, "c1")
    else:
        for user_id in users:
            late.sync_soon(user_id, "c1")
    assert len(spawn.tasks) == 3
    gate.set()
    await asyncio.gather(*spawn.tasks)
    assert asked == set(users) and len(spawn.tasks) == 3


# --- large conversations: one pass for all who are connected ----------------------------------------

CROWD = ("bob", "carol", "dave", "erin")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Above three members a conversation is large."""
    return dataclasses.replace(settings, members_large=3)


async def crowd(node: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Device]]:
    """A large channel of alice with one message. The others are connected, and are counted two at a time."""
    monkeypatch.setattr(late_counts, "_TOGETHER", 2)
    monkeypatch.setattr(late_counts, "COUNTS_PAUSE_S", 0.01)
    view, _ = await node.core.directory.create("alice", kind="channel", members=list(CROWD), name="news")
    await node.send("alice", view.head.conversation_id, "m0")
    devices = {user_id: await connect(node, user_id) for user_id in CROWD}
    assert [await node.unread(user_id) for user_id in CROWD] == [1] * 4
    await eventually(lambda: not node.core.deliver._tasks)
    for device in devices.values():
        device.events.clear()
    return view.head.conversation_id, devices


def last_shown(devices: dict[str, Device], *but: str) -> set[int | None]:
    """The counts that the devices show now."""
    return {count for user_id, one in devices.items() if user_id not in but for count in shown(one)[-1:] or [None]}


async def test_a_member_whose_rebuild_is_slow_holds_up_nobody(a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    id_, devices = await crowd(a, monkeypatch)
    gate = Gate()
    a.keyspace.fail("inbox_install", gate)
    await a.command("DEL", a.core.keys.mark("bob"))
    await a.send("alice", id_, "m1")
    await gate.reached.wait()
    await eventually(lambda: last_shown(devices, "bob") == {2})
    await a.send("alice", id_, "m2")
    await eventually(lambda: last_shown(devices, "bob") == {3})
    assert shown(devices["bob"]) == []
    gate.opened.set()
    await eventually(lambda: last_shown(devices) == {3} and not a.core.deliver._late_counts._alone)


async def test_a_member_whose_counts_fail_gets_them_later_and_stops_nobody(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_, devices = await crowd(a, monkeypatch)
    a.keyspace.fail("inbox_begin", down)
    await a.command("DEL", a.core.keys.mark("bob"))
    await a.send("alice", id_, "m1")
    await eventually(lambda: last_shown(devices) == {2})


async def test_counts_come_after_a_keyspace_that_did_not_answer(a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    id_, devices = await crowd(a, monkeypatch)
    a.keyspace.fail("unread_state", down)
    await a.send("alice", id_, "m1")
    await eventually(lambda: last_shown(devices) == {2})


async def test_counts_come_although_the_member_list_had_to_make_room_for_others(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_, devices = await crowd(a, monkeypatch)
    late, push_again = a.core.deliver._late_counts, a.core.deliver._late_counts.push_again

    def evict_first(sequencer: Any, conversation_id: str) -> asyncio.Task[None]:
        a.core.access._member_lists.pop(conversation_id)
        return push_again(sequencer, conversation_id)

    monkeypatch.setattr(late, "push_again", evict_first)
    await a.send("alice", id_, "m1")
    await eventually(lambda: last_shown(devices) == {2})
