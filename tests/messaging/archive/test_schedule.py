"""Who archives and when: one at a time by a lease, in the background, and what is told of it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.archive_node import DAY_MS, Freezer, open_freezer
from tests.support.waiting import eventually
from tidings import bounds
from tidings.config.settings import Archive, Settings
from tidings.errors import Conflict, Missing
from tidings.messaging.archive.mover import Archived
from tidings.model import Content
from tidings.node.node import open_node
from tidings.stores.keyspace.call import plain


@pytest.fixture
async def one(settings: Settings) -> AsyncIterator[Freezer]:
    async with open_freezer(settings, node_id="one") as freezer:
        yield freezer


@pytest.fixture
async def other(settings: Settings) -> AsyncIterator[Freezer]:
    async with open_freezer(settings, node_id="other") as freezer:
        yield freezer


async def filled(freezer: Freezer, count: int = 20) -> str:
    id_ = await freezer.create("alice", "bob")
    await freezer.fill(id_, count)
    return id_


async def test_two_nodes_do_not_archive_at_the_same_time(one: Freezer, other: Freezer) -> None:
    await filled(one)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        reached.set()
        await go_on.wait()

    one.archive.before_move = wait
    running = asyncio.create_task(one.run())
    await reached.wait()
    with pytest.raises(Conflict, match="one is archiving"):
        await other.run()
    assert other.steps == []
    leader = (await other.core.cold.archiving.status()).leader
    assert leader is not None and leader.startswith("one:")
    go_on.set()
    assert (await running).archived.messages == 20
    assert (await other.run()).archived.messages == 0  # it is free again at once


async def test_an_archiver_that_was_stopped_past_its_lease_changes_nothing(one: Freezer, other: Freezer) -> None:
    id_ = await filled(one)

    async def sleep_long() -> None:
        """As SIGSTOP does: the lease runs out, another takes over, and then it goes on where it was."""
        one.archive.before_move = None
        await one.core.keyspace.one(plain("", "DEL", one.core.keys.archive))
        assert (await other.run()).archived.messages == 20

    one.archive.before_move = sleep_long
    with pytest.raises(Conflict):
        await one.run()
    (ref,) = await other.refs(id_)
    assert {row.s3_ref for row in await other.rows(id_)} == {str(ref)}
    assert await other.texts("bob", id_) == [f"text {number}" for number in range(1, 21)]
    await other.run()
    assert await other.objects() == [str(ref)]


async def test_a_lost_lease_ends_the_pass_between_two_segments(
    one: Freezer, other: Freezer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ARCHIVE_RENEW_S", 0.01)
    await filled(one, 2_500)

    async def lose() -> None:
        one.archive.before_move = None
        await one.core.keyspace.one(plain("", "SET", one.core.keys.archive, "somebody:else"))
        await eventually(lambda: not _is_led(one))

    one.archive.before_move = lose
    with pytest.raises(Conflict):
        await one.run()
    assert 0 < one.count("messages") < 2_500


def _is_led(freezer: Freezer) -> bool:
    """Whether the task that renews the lease still runs."""
    return any(task.get_name() == "archive lease" for task in asyncio.all_tasks())


async def test_a_leader_that_died_is_followed_when_its_lease_ends(one: Freezer) -> None:
    await filled(one)
    key = one.core.keys.archive
    await one.core.keyspace.one(plain("", "SET", key, "dead:1", "PX", 80))
    with pytest.raises(Conflict):
        await one.run()

    async def run() -> bool:
        try:
            return (await one.run()).archived.messages == 20
        except Conflict:
            return False

    async with asyncio.timeout(60):
        while not await run():
            await asyncio.sleep(0.02)


async def test_the_lease_is_short_and_renewed(one: Freezer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ARCHIVE_RENEW_S", 0.01)
    lease_ms = int(bounds.ARCHIVE_LEASE_S * 1000)
    await filled(one)

    async def wait() -> None:
        """Half of the lease is taken away, twice, and a renewal gives it back."""
        key = one.core.keys.archive
        for _ in range(2):
            await one.core.keyspace.one(plain("", "PEXPIRE", key, lease_ms // 2))
            while (left_ms := await one.core.keyspace.one(plain("", "PTTL", key))) <= lease_ms // 2:
                await asyncio.sleep(0.01)
            assert left_ms <= lease_ms

    one.archive.before_move = wait
    assert (await one.run()).archived.messages == 20
    assert await one.core.keyspace.one(plain("", "EXISTS", one.core.keys.archive)) == 0


async def test_a_node_archives_in_the_background(settings: Settings) -> None:
    settings = dataclasses.replace(settings, archive=Archive(after_days=0, every_s=1))
    async with open_node(settings) as node:
        view, _ = await node.core.directory.create("alice", kind="group", members=["bob"])
        id_ = view.head.conversation_id
        await node.core.sends.send("alice", id_, "m1", Content("hello"))
        await eventually(lambda: node.core.metrics.archive["messages"].value == 1)
        page = await node.core.history.page("bob", id_)
        assert [(entry.text, entry.s3_ref is not None) for entry in page.entries] == [("hello", True)]


async def test_the_background_survives_trouble(settings: Settings) -> None:
    async with open_freezer(settings, every_s=1) as freezer:
        await filled(freezer, 200)
        freezer.blobs.error = RuntimeError("a mistake of ours")
        freezer.core.cold.archiving.loop.start()
        await eventually(lambda: freezer.count("failed") > 0)
        freezer.blobs.error = None
        await eventually(lambda: freezer.count("messages") == 200)
        await freezer.core.cold.archiving.loop.stop()


async def test_objects_are_swept_once_a_day_by_one_of_the_nodes(one: Freezer, other: Freezer) -> None:
    swept = []
    for freezer in (one, other):
        await freezer.run(is_patient=True)
        swept.append(await freezer.core.keyspace.one(plain("", "GET", freezer.core.keys.archive_swept)))
    assert swept == [b"one", b"one"]
    ttl_s = await one.core.keyspace.one(plain("", "TTL", one.core.keys.archive_swept))
    assert 0 < ttl_s <= bounds.ARCHIVE_SWEEP_S


async def test_status_tells_how_the_cold_tier_stands(one: Freezer) -> None:
    id_ = await filled(one, 1_200)
    await filled(one, 10)
    archiving = one.core.cold.archiving
    status = await archiving.status()
    assert (status.segments, status.conversations_waiting, status.leader) == (0, 2, None)
    done = await one.run()
    status = await archiving.status()
    assert (status.segments, status.conversations_waiting) == (3, 0)
    assert status.bytes == done.archived.bytes
    await one.core.rewrites.delete("alice", id_, 5)
    assert ((await archiving.status()).rechecks, (await archiving.status()).damaged) == (1, [])


async def test_progress_is_told(one: Freezer) -> None:
    await filled(one, 1_200)
    seen: list[int] = []

    def told(archived: Archived) -> None:
        seen.append(archived.messages)

    await one.run(on_progress=told)
    assert seen and seen == sorted(seen)


async def test_a_conversation_that_is_not_there_is_missing(one: Freezer) -> None:
    for work in (one.run(conversation_id="c-none"), one.core.cold.archiving.restore("c-none")):
        with pytest.raises(Missing, match="c-none"):
            await work


async def test_due_counts_from_the_time_a_message_was_sent(one: Freezer) -> None:
    id_ = await one.create("alice", "bob")
    await one.fill(id_, 10, age_days=29.9)
    assert (await one.run()).archived.messages == 0
    one.clock.ahead_ms += DAY_MS // 5
    assert (await one.run()).archived.messages == 10
