"""How refusals, push, the cold tier and the days stand: figures that add up to what was done."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from tidings.config.settings import Archive, Settings
from tidings.messaging.push.job import Job
from tidings.model import Content
from tidings.node.admin import build_status
from tidings.node.graph import Core
from tidings.operators.status import SystemStatus
from tidings.stores.keyspace.call import plain


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, archive=Archive(after_days=0))


@pytest.fixture
def condition(core: Core) -> SystemStatus:
    return build_status(core)


async def counted(core: Core) -> None:
    while await core.limiting.audit.flush():
        pass
    while await core.limiting.fold.step():
        pass


async def test_refusals_are_told_by_minute_class_and_user(core: Core, condition: SystemStatus) -> None:
    audit = core.limiting.audit
    audit.rejected("send", "ann", 40)
    audit.rejected("http", "ann", 2)
    audit.rejected("send", "bob", 5)
    audit.sign_in_failed("http")
    await counted(core)
    shown = await condition.rejects(15)
    assert len(shown.by_minute) == 15
    sums = {name: sum(minute.classes.get(name, 0) for minute in shown.by_minute) for name in ("send", "http")}
    assert sums == {"send": 45, "http": 2} and shown.sign_ins == 1
    assert [(one.user_id, one.class_name, one.count) for one in shown.top] == [
        ("ann", "send", 40),
        ("bob", "send", 5),
        ("ann", "http", 2),
    ]
    assert (shown.lag.entries, shown.lag.waiting, shown.lag.pending, shown.lag.dead) == (4, 0, 0, 0)


async def test_a_day_is_the_longest_look_back(condition: SystemStatus) -> None:
    assert (await condition.rejects(1_000_000)).minutes == 1_440


async def test_the_newest_audit_entries_come_first(core: Core, condition: SystemStatus) -> None:
    for action in ("user.kick", "user.token"):
        core.limiting.audit.acted(action, "ops", user_id="ann")
        await counted(core)
    found = await condition.audit()
    assert [one.event.class_name for one in found if one.event] == ["user.token", "user.kick"]


async def test_the_push_queue_and_its_dead_letters_are_told(core: Core, condition: SystemStatus) -> None:
    job = msgspec.json.encode(Job(user_id="ann", made_ms=1, conversation_id="c1", seq_no=9, tries=4))
    scripts = core.pushing.scripts
    calls = [scripts.push_add("ann", job), scripts.push_put_off(0, job, 5), scripts.push_bury(job, "Unregistered")]
    dead = core.keys.push_dead
    await core.keyspace.run([*calls, plain(dead, b"XADD", dead, b"*", b"job", b"{}", b"reason", b"?")])
    shown = await condition.push()
    assert (shown.queued, shown.later, shown.dead, shown.providers) == (1, 1, 2, [])
    unreadable, letter = shown.dead_letters
    assert (letter.user_id, letter.conversation_id, letter.seq_no, letter.tries) == ("ann", "c1", 9, 4)
    assert letter.reason == "Unregistered" and unreadable.user_id == "?"


async def test_what_is_due_is_counted_without_the_birth_of_its_set(core: Core, condition: SystemStatus) -> None:
    assert (await condition.push()).due == 0
    view, _ = await core.directory.create("ann", kind="direct", members=["bob"])
    await core.sends.send("ann", view.head.conversation_id, "m1", Content("hi"))
    assert (await condition.push()).due == 1


async def test_days_have_as_many_users_as_were_there(core: Core, condition: SystemStatus) -> None:
    for user_id in ("ann", "bob", "ann"):
        core.limiting.activity.note(user_id)
    await core.limiting.activity.flush()
    days = await condition.days()
    assert len(days.daily) == 30 and [day.users for day in days.daily[-2:]] == [0, 2]
    assert (days.week, days.month) == (2, 2)


async def test_the_cold_tier_is_told_as_its_own_status(core: Core, condition: SystemStatus) -> None:
    view, _ = await core.directory.create("ann", kind="direct", members=["bob"])
    await core.sends.send("ann", view.head.conversation_id, "m1", Content("hi"))
    assert (await condition.cold()).conversations_waiting == 1
    assert core.cold.archiving.last is None
    await core.cold.archiving.run()
    cold = await condition.cold()
    assert (cold.segments, cold.conversations_waiting, cold.damaged) == (1, 0, []) and cold.bytes > 0
    assert core.cold.archiving.last is not None and core.cold.archiving.last[1].archived.messages == 1
