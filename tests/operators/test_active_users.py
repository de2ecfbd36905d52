"""Who was there on which day: noted once, written later, counted over days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.support.messaging.faulty_stores import FaultyKeyspace, TurnedClock, down
from tidings import bounds
from tidings.errors import Unavailable
from tidings.operators.active_users import ActiveUsers
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.server import open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

DAY_MS = 86_400_000


class Days:
    """An activity on a real keyspace, with a clock to turn."""

    def __init__(self, keyspace: FaultyKeyspace, prefix: str) -> None:
        self.keyspace = keyspace
        self.clock = TurnedClock()
        self.clock.ahead_ms = DAY_MS // 2 - self.clock.now_ms() % DAY_MS  # noon: no test runs over midnight
        self.keys = Keys(prefix)
        self.connected: list[str] = []
        self.activity = self.another()

    def another(self) -> ActiveUsers:
        return ActiveUsers(self.keyspace, self.keys, self.clock, lambda: self.connected)

    def today(self) -> date:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC).date()

    async def counts(self, days: int) -> list[int]:
        return [count for _, count in await self.activity.daily_actives(days)]


@pytest.fixture
async def days(valkey: ValkeyProcess) -> AsyncIterator[Days]:
    clock = TurnedClock()
    keyspace = await open_keyspace(valkey.url, (), clock)
    yield Days(FaultyKeyspace(keyspace), f"activity.{clock.random_id(4)}.")
    await keyspace.close()


async def test_a_user_is_counted_once_a_day_on_however_many_nodes(days: Days) -> None:
    other = days.another()
    for activity in (days.activity, other):
        for user_id in ("alice", "bob", "alice"):
            activity.note(user_id)
        await activity.flush()
    other.note("carol")
    await other.flush()
    assert await days.activity.daily_actives(2) == [(days.today() - timedelta(days=1), 0), (days.today(), 3)]


async def test_who_is_known_today_costs_nothing_more(days: Days) -> None:
    days.activity.note("alice")
    await days.activity.flush()
    said = len(days.keyspace.said)
    days.activity.note("alice")
    await days.activity.flush()
    assert len(days.keyspace.said) == said


async def test_the_days_of_a_user_and_the_users_of_a_week(days: Days) -> None:
    for user_id, back in (("alice", 0), ("alice", 2), ("bob", 2), ("carol", 9)):
        days.clock.ahead_ms -= back * DAY_MS
        activity = days.another()
        activity.note(user_id)
        await activity.flush()
        days.clock.ahead_ms += back * DAY_MS
    today = days.today()
    assert await days.activity.active_days("alice") == [today - timedelta(days=2), today]
    assert await days.activity.active_days("nobody") == []
    assert await days.counts(3) == [2, 0, 1]
    assert [await days.activity.actives(n) for n in (1, 7, 30)] == [1, 2, 3]


async def test_who_stays_connected_over_midnight_is_there_on_both_days(days: Days) -> None:
    days.activity.note("alice")
    days.activity.note("left")
    await days.activity.flush()
    days.connected = ["alice"]
    days.clock.ahead_ms += DAY_MS
    await days.activity.flush()
    assert await days.counts(2) == [2, 1]
    assert len(await days.activity.active_days("alice")) == 2


async def test_what_could_not_be_written_is_written_later(days: Days) -> None:
    days.activity.note("alice")
    days.keyspace.fail("PFADD", down)
    with pytest.raises(Unavailable):
        await days.activity.flush()
    assert await days.counts(1) == [0]
    await days.activity.flush()
    assert await days.counts(1) == [1]


async def test_a_full_memory_forgets_nobody_who_waits(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ACTIVITY_USERS_MAX", 10)
    for number in range(10):
        days.activity.note(f"early{number}")
    await days.activity.flush()
    for number in range(5):
        days.activity.note(f"late{number}")
    assert len(days.activity._seen) <= 10
    await days.activity.flush()
    assert await days.counts(1) == [15]


async def test_many_users_are_written_some_at_a_time(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ACTIVITY_WRITE_MAX", 10)
    for number in range(35):
        days.activity.note(f"user{number}")
    await days.activity.flush()
    assert len([run for run in days.keyspace.runs if "PFADD" in run]) == 4
    assert abs((await days.counts(1))[0] - 35) <= 1  # a hyperloglog is true to within a percent


async def test_keys_end_some_day(days: Days) -> None:
    days.activity.note("alice")
    await days.activity.flush()
    for key in (days.keys.active(days.today().strftime("%Y%m%d")), days.keys.days("alice")):
        assert await days.keyspace.one(plain(key, b"TTL", key)) > 300 * 86_400


async def test_a_running_node_writes_by_itself_and_when_it_stops(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ACTIVITY_WRITE_S", 0.01)
    days.activity.loop.start()
    days.activity.note("alice")
    async with asyncio.timeout(60):
        while await days.counts(1) != [1]:
            await asyncio.sleep(0.01)
    days.activity.note("bob")
    await days.activity.loop.stop()
    assert await days.counts(1) == [2]
