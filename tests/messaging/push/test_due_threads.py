"""A reply that is in its thread alone notifies those who follow it and are away, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.messaging.push_node import PostOffice, open_office
from tidings.bounds import DUE_SHARDS
from tidings.config.settings import Settings
from tidings.messaging.push.content import NoticeContent
from tidings.messaging.push.job import Job
from tidings.messaging.reading.flags import FlagChange
from tidings.messaging.threads.records import thread_id
from tidings.model import Content, Entry
from tidings.stores.tables.values import Preferences, Quiet

USERS = ("alice", "bob", "carol")


@pytest.fixture
async def office(settings: Settings) -> AsyncIterator[PostOffice]:
    async with open_office(settings) as made:
        for user_id in USERS:
            await made.register(user_id)
        yield made


async def begin(office: PostOffice) -> str:
    """A conversation whose first message alice wrote, and which everybody has."""
    c = await office.create(*USERS, name="Crew")
    await office.core.sends.send("alice", c, "root", Content("root"))
    for user_id in USERS:
        await office.receive(user_id, c, 1, "phone")
    return c


async def reply(office: PostOffice, user_id: str, c: str, name: str, **more: Any) -> Entry:
    sent = await office.core.sends.send(user_id, c, name, Content(name, thread_seq=1, **more))
    await office.core.keyspace.run(office.due.calls([(thread_id(c, 1), sent.entry.sent_ms)]))
    return sent.entry


async def notified(office: PostOffice, entry: Entry) -> list[tuple[str, int | None]]:
    """(user, seq) of every notice of the thread, when the grace time of the reply is over."""
    id_, threads = thread_id(entry.conversation_id, 1), office.due._threads
    async with asyncio.timeout(60):
        while threads._examined.get(id_, 0) < entry.seq_no:
            await office.due.check()
            await asyncio.sleep(0.01)
    await office.work()
    return sorted((one.device.user_id, one.seq_no) for one in office.carrier.told if one.thread_seq == 1)


async def content(office: PostOffice, user_id: str, c: str, seq_no: int) -> NoticeContent | None:
    job = Job(user_id=user_id, made_ms=0, conversation_id=c, seq_no=seq_no, thread_seq=1)
    return await office.notices.content(job)


async def test_a_reply_notifies_the_followers_who_are_away(office: PostOffice) -> None:
    c = await begin(office)
    entry = await reply(office, "bob", c, "r1")
    assert await notified(office, entry) == [("alice", 2)]
    [notice] = office.carrier.told
    assert (notice.collapse_id, notice.title, notice.badge) == (f"{c}/1", "Crew", 0)
    again = await reply(office, "carol", c, "r2")
    assert await notified(office, again) == [("alice", 2), ("alice", 3), ("bob", 3)]


async def test_a_device_that_has_the_reply_is_not_notified_and_a_message_meanwhile_still_is(
    office: PostOffice,
) -> None:
    c = await begin(office)
    message = await office.send("carol", c)
    entry = await reply(office, "bob", c, "r1")
    assert await notified(office, entry) == [("alice", 3)]
    await office.pass_grace(message)
    await office.work()
    others = [(one.device.user_id, one.seq_no) for one in office.carrier.told if one.thread_seq is None]
    assert sorted(others) == [("alice", 2), ("bob", 2)]
    last = await reply(office, "bob", c, "r2")
    await office.receive("alice", c, last.seq_no, "phone")
    assert await notified(office, last) == [("alice", 3)]


async def test_a_blocked_follower_a_silent_reply_and_one_that_is_also_here_notify_nobody_as_a_thread(
    office: PostOffice,
) -> None:
    c = await begin(office)
    await office.core.blocks.block("alice", "bob")
    await reply(office, "bob", c, "r1")
    await reply(office, "carol", c, "r2", silent=True)
    last = await reply(office, "carol", c, "r3", also_here=True)
    assert await notified(office, last) == []


async def test_the_notice_obeys_reads_levels_and_quiet_hours(office: PostOffice) -> None:
    c = await begin(office)
    await reply(office, "bob", c, "r1")
    await reply(office, "bob", c, "r2", mentions=("alice",))
    loud = NoticeContent(badge=0, title="Crew", body="New message from bob")
    assert await content(office, "alice", c, 2) == loud
    assert await content(office, "carol", c, 2) is None, "carol does not follow"
    await office.core.unread.mark_read("alice", c, up_to_seq=3)
    assert await content(office, "alice", c, 2) == loud, "a read of the conversation reads no thread"
    await office.core.flags.set("alice", c, FlagChange(notify="mentions"))
    assert (await content(office, "alice", c, 2), await content(office, "alice", c, 3)) == (None, loud)
    await office.core.flags.set("alice", c, FlagChange(notify="all"))
    quiet = Quiet(days=(1, 2, 3, 4, 5, 6, 7), since=0, until=0)
    await office.core.tables.people.put_preferences("alice", Preferences(quiet=(quiet,)))
    late = await content(office, "alice", c, 2)
    assert late is not None and late.is_silent and late.summary_ms is not None
    await office.core.tables.people.put_preferences("alice", Preferences())
    summary = await office.notices.content(Job(user_id="alice", made_ms=0, is_summary=True))
    assert summary == NoticeContent(badge=0, title="1 unread thread", body="New replies")
    await office.core.threads.mark_read("alice", c, 1, up_to_seq=3)
    assert await content(office, "alice", c, 3) is None
    assert await office.notices.content(Job(user_id="alice", made_ms=0, is_summary=True)) is None


async def test_a_reply_is_recorded_as_due_in_the_round_trip_of_its_index(settings: Settings) -> None:
    async with open_office(settings, grace_s=60) as office:
        c = await begin(office)
        await office.core.sends.send("bob", c, "r1", Content("r1", thread_seq=1))
        shards = [await office.command("ZRANGE", office.core.keys.due(shard), 0, -1) for shard in range(DUE_SHARDS)]
        assert thread_id(c, 1).encode() in [member for found in shards for member in found]


async def test_without_a_provider_a_thread_costs_no_read(office: PostOffice) -> None:
    c = await begin(office)
    entry = await reply(office, "bob", c, "r1")
    checker = office.checker(worker=office.worker("none", providers={}))
    before = office.core.metrics.rows_read["records"].value
    assert await checker._threads.examine(thread_id(c, 1), entry.sent_ms) == 0
    assert office.core.metrics.rows_read["records"].value == before
