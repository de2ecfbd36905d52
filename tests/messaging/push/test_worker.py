"""Push jobs: every device that lacks something is told, whoever dies in the middle, and nobody else is."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.support.messaging.push_node import Carrier, PostOffice, open_office
from tests.support.paths import PYTHONPATH
from tests.support.servers.push_services import ApnsStandin, served
from tests.support.waiting import eventually
from tidings import bounds
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.messaging.push.content import NoticeContent
from tidings.messaging.push.job import Job
from tidings.messaging.reading.flags import FlagChange
from tidings.model import Entry
from tidings.stores.keyspace.scripts.push import push_shard
from tidings.stores.keyspace.server import KeyspaceMistake
from tidings.stores.push.ports import Outcome, Verdict
from tidings.stores.tables.values import Badge, Preferences, Quiet

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
async def office(settings: Settings) -> AsyncIterator[PostOffice]:
    async with open_office(settings, grace_s=60) as made:
        yield made


async def notified(office: PostOffice, entry: Entry, *user_ids: str) -> None:
    """As a look would queue it."""
    await office.notify.queue(entry.conversation_id, dict.fromkeys(user_ids, entry.seq_no))


async def message(office: PostOffice, *user_ids: str) -> Entry:
    c = await office.create("alice", *(user_ids or ("bob",)), name="Crew")
    return await office.send("alice", c)


# --- who is told ----------------------------------------------------------------------------------


async def test_every_device_is_told_once_under_the_conversations_id(office: PostOffice) -> None:
    await office.register("bob", "phone"), await office.register("bob", "tablet", "fcm")
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.work()
    notices = {notice.device.device_id: notice for notice in office.carrier.told}
    assert sorted(notices) == ["phone", "tablet"] and len(office.carrier.told) == 2
    notice = notices["phone"]
    assert (notice.collapse_id, notice.conversation_id, notice.seq_no) == (entry.conversation_id,) * 2 + (1,)
    assert (notice.badge, notice.title, notice.body) == (1, "Crew", "New message from alice")
    assert await office.jobs() == 0
    assert office.counts == {("apns", "sent"): 1, ("fcm", "sent"): 1}


async def test_a_device_that_acknowledged_is_not_told_and_the_other_is(office: PostOffice) -> None:
    await office.register("bob", "phone"), await office.register("bob", "tablet")
    entry = await message(office)
    await office.receive("bob", entry.conversation_id, entry.seq_no, "tablet")
    await notified(office, entry, "bob")
    await office.work()
    assert [notice.device.device_id for notice in office.carrier.told] == ["phone"]


async def test_no_job_is_made_where_every_device_has_it_or_there_is_none(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office, "bob", "carol")
    await office.receive("bob", entry.conversation_id, entry.seq_no, "phone")
    await notified(office, entry, "bob", "carol")
    assert await office.jobs() == 0


async def test_a_device_that_was_told_is_told_again_only_of_what_is_newer(office: PostOffice) -> None:
    await office.register("bob")
    first = await message(office)
    for _ in range(3):
        await notified(office, first, "bob")
        await office.work()
    second = await office.send("alice", first.conversation_id)
    await notified(office, second, "bob")
    await office.work()
    assert [notice.seq_no for notice in office.carrier.told] == [1, 2]


async def test_what_was_acknowledged_or_read_before_the_job_was_done_is_not_told(office: PostOffice) -> None:
    await office.register("bob"), await office.register("carol")
    entry = await message(office, "bob", "carol")
    await notified(office, entry, "bob", "carol")
    await office.receive("bob", entry.conversation_id, entry.seq_no, "phone")
    await office.core.unread.mark_read("carol", entry.conversation_id, up_to_seq=1)
    await office.work()
    assert office.carrier.told == [] and await office.jobs() == 0


async def test_who_left_is_not_told(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.core.directory.remove("alice", entry.conversation_id, "bob")
    await office.work()
    assert office.carrier.told == [] and await office.jobs() == 0


@pytest.mark.parametrize(("wanted", "badge"), [("loud", 1), ("all", 2)])
async def test_a_muted_conversation_says_nothing_and_counts_in_the_badge_only_for_who_wants_all(
    office: PostOffice, wanted: Badge, badge: int
) -> None:
    await office.core.tables.people.put_preferences("bob", Preferences(badge=wanted))
    await office.register("bob")
    await message(office)  # a loud one
    entry = await message(office)
    await office.core.flags.set("bob", entry.conversation_id, FlagChange(muted=True))
    await notified(office, entry, "bob")
    await office.work()
    [notice] = office.carrier.told
    assert (notice.is_silent, notice.badge, notice.title, notice.body) == (True, badge, None, None)


async def test_without_a_provider_nothing_is_queued_or_kept(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office)
    none = office.worker("none", providers={})
    await none.queue(entry.conversation_id, {"bob": 1})
    none.badge("bob")
    none.acknowledged("bob", "phone", {entry.conversation_id: 1})
    none.start()
    await none.flush()
    await none.stop()
    assert await office.jobs() == 0 and await office.acks.seqs([("bob", ["phone"])], entry.conversation_id) == [[0]]


async def test_many_devices_that_left_are_written_a_few_at_a_time(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    async def touch(seen: Mapping[tuple[str, str], int]) -> None:
        written.append(len(seen))

    monkeypatch.setattr(office.devices, "touch", touch)
    for number in range(2 * bounds.TOUCHED_TOGETHER + 1):
        office.notify.left("bob", f"device{number}")
    await office.notify.flush()
    assert written == [bounds.TOUCHED_TOGETHER], "the rest waits for the next turn"
    await office.notify.stop()
    assert written == [bounds.TOUCHED_TOGETHER] * 2 + [1]


async def test_a_device_was_last_seen_when_its_connection_ended(office: PostOffice) -> None:
    await office.register("bob", "phone")
    office.clock.ahead_s += 60
    for device in ("phone", "browser", None):
        office.notify.left("bob", device)
    await office.notify.flush()
    (phone,) = await office.devices.of_user("bob")
    assert abs(phone.last_seen_ms - office.clock.now_ms()) < 30_000


async def test_a_connection_without_a_device_is_nobodys_phone(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office)
    await office.receive("bob", entry.conversation_id, entry.seq_no, None)
    await notified(office, entry, "bob")
    await office.work()
    assert len(office.carrier.told) == 1


# --- badges ---------------------------------------------------------------------------------------


async def test_reading_elsewhere_tells_the_devices_that_show_another_number(office: PostOffice) -> None:
    await office.register("bob", "phone"), await office.register("bob", "new")
    entry = await message(office)
    await office.receive("bob", entry.conversation_id, 1, "new")  # so it was never given a badge
    await notified(office, entry, "bob")
    await office.work()
    await office.core.unread.mark_read("bob", entry.conversation_id, up_to_seq=1)
    for _ in range(5):
        office.notify.badge("bob")
    await office.notify.flush()
    assert await office.jobs() == 1
    await office.work()
    assert [(n.device.device_id, n.badge, n.is_silent) for n in office.carrier.told] == [
        ("phone", 1, False),
        ("phone", 0, True),
    ]
    office.notify.badge("bob")
    await office.notify.flush()
    await office.work()
    assert len(office.carrier.told) == 2  # it shows the right number already


async def test_the_device_that_read_it_knows(office: PostOffice) -> None:
    await office.register("bob", "phone"), await office.register("bob", "tablet")
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.work()
    await office.core.unread.mark_read("bob", entry.conversation_id, up_to_seq=1)
    office.notify.badge("bob", "phone")
    await office.notify.flush()
    await office.work()
    assert [notice.device.device_id for notice in office.carrier.told if notice.is_silent] == ["tablet"]


async def test_a_badge_of_who_has_no_device_is_no_job(office: PostOffice) -> None:
    office.notify.badge("carol")
    await office.notify.flush()
    assert await office.jobs() == 0


# --- what providers answer ------------------------------------------------------------------------


async def test_a_dead_token_is_forgotten_and_the_other_device_told(office: PostOffice) -> None:
    phone, tablet = await office.register("bob", "phone"), await office.register("bob", "tablet")
    office.carrier.answers[phone.token].append(Outcome(Verdict.GONE, "Unregistered"))
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.work()
    assert await office.devices.of_user("bob") == [tablet]
    assert office.counts == {("apns", "gone"): 1, ("apns", "sent"): 1} and await office.jobs() == 0


async def test_a_token_that_was_renewed_meanwhile_is_kept(office: PostOffice) -> None:
    old = await office.register("bob")
    office.carrier.answers[old.token].append(Outcome(Verdict.GONE, "Unregistered"))
    office.carrier.gate = asyncio.Event()
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.notify.take(10)
    await eventually(lambda: len(office.carrier.told) == 1)
    newer = await office.register("bob", token="token-renewed")
    office.carrier.gate.set()
    await office.work()
    assert await office.devices.of_user("bob") == [newer]


async def test_not_now_is_tried_later_with_those_that_were_not_taken(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = await office.register("bob", "phone")
    await office.register("bob", "tablet")
    monkeypatch.setattr(bounds, "PUSH_RETRY_S", 0.05)
    office.carrier.answers[phone.token].append(Outcome(Verdict.LATER, "TooManyRequests", 0.02))
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.work()
    async with asyncio.timeout(60):
        while await office.jobs():
            await office.work()
    assert Counter(notice.device.device_id for notice in office.carrier.told) == {"phone": 2, "tablet": 1}
    assert office.counts[("apns", "later")] == 1


async def test_waits_grow_until_the_provider_says_otherwise(office: PostOffice) -> None:
    job = Job(user_id="bob", made_ms=office.clock.now_ms(), conversation_id="c", seq_no=1)

    def wait_s(tries: int, retry_after_s: float | None = None) -> float:
        tried = Job(user_id="bob", made_ms=job.made_ms, conversation_id="c", seq_no=1, tries=tries)
        call = office.notify._again(0, tried, Outcome(Verdict.LATER, "503", retry_after_s), ())
        return (int(call.words[4]) - office.clock.now_ms()) / 1000

    for tries, least_s in ((0, 5), (1, 10), (3, 40), (20, 600)):
        for asked_s in (None, 0.0, 0.5):
            assert least_s * 0.99 <= wait_s(tries, asked_s) <= least_s * 1.25
    assert 36.5 <= wait_s(0, 37.0) <= 45
    for asked_s in (1e9, float("inf")):
        assert 86_000 <= wait_s(0, asked_s) <= 86_400 * 1.25


@pytest.mark.parametrize(("asked_s", "for_s"), [(0.0, 5.0), (None, 5.0), (60.0, 60.0), (float("inf"), 86_400.0)])
async def test_a_provider_is_left_alone_for_a_moment_at_least_and_a_day_at_most(
    office: PostOffice, asked_s: float | None, for_s: float
) -> None:
    phone = await office.register("bob")
    office.carrier.answers[phone.token].append(Outcome(Verdict.LATER, "Shutdown", asked_s, is_for_all=True))
    await notified(office, await message(office), "bob")
    await office.work()
    assert for_s - 1 <= office.notify._paused["apns"] - office.clock.monotonic_s() <= for_s


async def test_past_the_bound_those_that_would_wait_longest_are_dead_letters(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PUSH_JOBS_MAX", 3)
    monkeypatch.setattr("tidings.messaging.push.worker._JITTER", 0.0)
    phone = await office.register("bob")
    office.carrier.answers[phone.token] += [Outcome(Verdict.LATER, "down", 600.0)] * 5
    entry = await message(office)
    for _ in range(5):
        await notified(office, entry, "bob")
        await office.work()
        entry = await office.send("alice", entry.conversation_id)
    assert await office.jobs() == 3
    assert [(json.loads(job)["seq_no"], reason) for job, reason in await office.dead()] == [
        (4, "too many wait"),
        (5, "too many wait"),
    ]


async def test_a_provider_that_wants_nothing_is_left_alone_for_so_long(office: PostOffice) -> None:
    phone = await office.register("bob")
    await office.register("carol"), await office.register("dave", provider="fcm")
    office.carrier.answers[phone.token].append(Outcome(Verdict.LATER, "Shutdown", 3600.0, is_for_all=True))
    entry = await message(office, "bob", "carol", "dave")
    await notified(office, entry, "bob")
    await office.work()
    await notified(office, entry, "carol", "dave")
    await office.work()
    assert [notice.device.user_id for notice in office.carrier.told] == ["bob", "dave"]
    assert await office.jobs() == 2


async def test_a_refusal_is_not_repeated_for_the_same_entry(office: PostOffice) -> None:
    phone = await office.register("bob")
    office.carrier.answers[phone.token] += [Outcome(Verdict.REFUSED, "PayloadTooLarge")]
    entry = await message(office)
    for _ in range(2):
        await notified(office, entry, "bob")
        await office.work()
    assert len(office.carrier.told) == 1 and await office.devices.of_user("bob") == [phone]


async def test_a_provider_that_never_answers_is_given_up_for_now(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PUSH_JOB_S", 0.05)
    office.carrier.gate = asyncio.Event()
    await office.register("bob")
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.work()
    assert office.counts == {("apns", "later"): 1} and await office.jobs() == 1


async def test_a_device_of_a_provider_that_is_not_set_up_is_passed_over(office: PostOffice) -> None:
    await office.register("bob", provider="webpush")
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.work()
    assert office.carrier.told == [] and await office.jobs() == 0


# --- what dies ------------------------------------------------------------------------------------


class Broken:
    """Notices that cannot be made: the stores' fault, or ours."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.asked = 0

    async def content(self, job: Job) -> NoticeContent | None:
        self.asked += 1
        raise self.error


async def test_while_the_stores_are_down_a_job_is_put_off_and_not_counted_out(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office)
    await notified(office, entry, "bob")
    await office.work(office.worker("two", notices=Broken(Unavailable("not now"))))
    assert (await office.jobs(), await office.dead()) == (1, [])


async def test_a_job_that_finds_no_end_in_five_deliveries_is_a_dead_letter(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office)
    await notified(office, entry, "bob")
    notices = Broken(KeyspaceMistake("a defect of ours"))
    worker = office.worker("two", notices=notices, idle_s=0)
    async with asyncio.timeout(60):
        while not await office.dead():
            await worker.take(10)
            await eventually(lambda: not worker._under_way)
    [(job, reason)] = await office.dead()
    assert entry.conversation_id in job and "five" in reason
    assert (notices.asked, await office.jobs()) == (bounds.PUSH_DELIVERIES_MAX, 0)


async def test_what_is_no_job_is_a_dead_letter_at_once(office: PostOffice) -> None:
    key = office.core.keys.push(0)
    await office.command("XADD", key, "*", "job", "nonsense")
    await office.work()
    assert await office.dead() == [("nonsense", "not a job")] and await office.jobs() == 0


async def test_a_job_that_is_too_old_is_a_dead_letter(office: PostOffice) -> None:
    phone = await office.register("bob")
    entry = await message(office)
    await notified(office, entry, "bob")
    office.clock.ahead_s = bounds.PUSH_AGE_S + 1
    office.carrier.answers[phone.token].append(Outcome(Verdict.LATER, "ServiceUnavailable"))
    await office.work()
    [(_, reason)] = await office.dead()
    assert reason == "too old: ServiceUnavailable" and await office.jobs() == 0


async def test_a_lost_stream_is_made_again(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office)
    await office.work()
    for shard in range(bounds.PUSH_SHARDS):
        await office.command("DEL", office.core.keys.push(shard))
    await notified(office, entry, "bob")
    await office.work()
    assert len(office.carrier.told) == 1


async def workers(office: PostOffice) -> set[str]:
    """On the list of the group, in any shard."""
    keys = [office.core.keys.push(shard) for shard in range(bounds.PUSH_SHARDS)]
    rows = [row for key in keys for row in await office.command("XINFO", "CONSUMERS", key, "notify")]
    return {row[1].decode() for row in rows}


async def test_a_worker_that_stops_is_taken_off_the_list(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office)
    for life in range(3):
        await notified(office, entry, "bob")
        entry = await office.send("alice", entry.conversation_id)
        leaving = office.worker(f"life {life}")
        await office.work(leaving)
        assert await workers(office) == {f"life {life}"}
        await leaving.stop()
    assert await workers(office) == set() and len(office.carrier.told) == 3


async def test_a_worker_that_has_something_stays_on_the_list_until_it_was_taken_over(office: PostOffice) -> None:
    await office.register("bob")
    await notified(office, await message(office), "bob")
    office.carrier.gate = asyncio.Event()
    dying = office.worker("dying")
    await dying.take(64)
    for task in dying._under_way:
        task.cancel()
    await dying.stop()
    heir = office.worker("heir", idle_s=0, consumer_idle_s=0)
    assert await heir.tidy() == 0 and "dying" in await workers(office)
    office.carrier.gate.set()
    await office.work(heir)
    assert await heir.tidy() > 0 and await workers(office) == set()
    assert await office.jobs() == 0


async def test_a_worker_that_runs_takes_those_long_gone_off_the_list(office: PostOffice) -> None:
    await office.work(office.worker("gone"))
    running = office.worker("running", consumer_idle_s=0)
    running.start()
    async with asyncio.timeout(60):
        while "gone" in await workers(office):
            await asyncio.sleep(0.02)
    await running.stop()


async def test_what_a_worker_left_is_not_taken_before_its_time(office: PostOffice) -> None:
    await office.register("bob")
    entry = await message(office)
    await notified(office, entry, "bob")
    shards = range(bounds.PUSH_SHARDS)
    take = office.scripts.push_take
    taken = await office.core.keyspace.run(
        [take(shard, "dead", limit=10, idle_ms=30_000, deliveries_max=5) for shard in shards]
    )
    assert sum(len(one.jobs) for one in taken) == 1
    await office.work()
    assert office.carrier.told == []
    await office.work(office.worker("two", idle_s=0))
    assert len(office.carrier.told) == 1


async def test_a_worker_that_stops_ends_what_is_under_way(office: PostOffice) -> None:
    await office.register("bob")
    office.carrier.gate = asyncio.Event()
    entry = await message(office)
    office.notify.start()
    await notified(office, entry, "bob")
    await eventually(lambda: len(office.carrier.told) == 1)
    stopping = asyncio.create_task(office.notify.stop())
    office.carrier.gate.set()
    await stopping
    assert office.carrier.is_closed and await office.jobs() == 0


async def test_workers_of_two_nodes_share_the_jobs(office: PostOffice) -> None:
    users = [f"u{number}" for number in range(200)]
    for user_id in users:
        await office.register(user_id)
    entry = await message(office, *users)
    other_carrier = Carrier()
    other = office.worker("two", providers={"apns": other_carrier})
    await notified(office, entry, *users)
    office.notify.start()
    other.start()
    async with asyncio.timeout(60):
        while await office.jobs():
            await asyncio.sleep(0.01)
    await office.notify.stop()
    await other.stop()
    names = [notice.device.user_id for notice in office.carrier.told + other_carrier.told]
    assert sorted(names) == sorted(users)
    assert office.carrier.told and other_carrier.told


@pytest.mark.parametrize("count", [300, pytest.param(1000, marks=pytest.mark.long)])
async def test_of_many_jobs_none_is_lost_when_a_worker_is_killed_in_the_middle(
    office: PostOffice, settings: Settings, count: int
) -> None:
    """kill -9 of a process that carries out jobs against Apple's stand-in; another worker takes over what it had.

    No lease runs out by itself here, so only the jobs that were under way at the kill may be pushed again."""
    users = [f"u{number}" for number in range(count)]
    token_of = {user_id: f"{number:064x}" for number, user_id in enumerate(users)}
    crew, alone = users[:-10], users[-10:]
    c = await office.create("alice", *crew[:-90], kind="channel", name="Crew")
    await office.core.directory.add("alice", c, crew[-90:-45])
    await office.core.directory.add("alice", c, crew[-45:])
    entry = await office.send("alice", c)
    direct = [await office.create("alice", user_id, kind="direct") for user_id in alone]
    entries = [await office.send("alice", one) for one in direct]
    for user_id, token in token_of.items():
        await office.register(user_id, token=token)
    await notified(office, entry, *crew)
    for user_id, one in zip(alone, entries, strict=True):
        await notified(office, one, user_id)
    assert await office.jobs() == count
    apple = ApnsStandin(halts_at=count * 3 // 10)
    async with served(apple) as url:
        words = (settings.keyspace, settings.tables, url, apple.pem)
        first = await start_worker("one", *words)
        await eventually(lambda: len(apple.told) >= count * 3 // 10)
        first.send_signal(signal.SIGKILL)
        await first.wait()
        in_flight = {token_of[user_id] for user_id in await office.let_go("one")}
        apple.resumed.set()
        second = await start_worker("two", *words)
        async with asyncio.timeout(120):
            while await office.jobs():
                await asyncio.sleep(0.05)
        second.terminate()
        assert await second.wait() == 0
    times = Counter(one.token for one in apple.told)
    ids: dict[str, set[str]] = {}
    for told in apple.told:
        ids.setdefault(told.token, set()).add(told.collapse_id)
    assert times.keys() == set(token_of.values())
    again = {token for token, pushes in times.items() if pushes > 1}
    assert again and again <= in_flight and max(times.values()) == 2
    assert all(len(found) == 1 for found in ids.values())
    assert len(in_flight) <= bounds.PUSH_IN_FLIGHT_MAX + bounds.PUSH_SHARDS
    assert await office.dead() == []


async def start_worker(node_id: str, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.nodes.push_worker",
        node_id,
        *words,
        cwd=ROOT,
        env={"PYTHONPATH": PYTHONPATH},
    )


# --- quiet hours ------------------------------------------------------------------------------------


async def test_quiet_hours_end_with_one_summary_for_each_device(office: PostOffice) -> None:
    await office.register("bob", "phone"), await office.register("bob", "tablet", "fcm")
    always = Preferences(quiet=(Quiet((1, 2, 3, 4, 5, 6, 7), 0, 0),))
    await office.core.tables.people.put_preferences("bob", always)
    for _ in range(2):
        entry = await message(office)
        await notified(office, entry, "bob")
        await office.work()
    assert all(notice.is_silent for notice in office.carrier.told)
    later = office.core.keys.push_later(push_shard("bob"))
    [job] = await office.command("ZRANGE", later, 0, -1)
    assert await office.jobs() == 1, "one summary, however many messages there are"
    await office.core.tables.people.put_preferences("bob", Preferences())
    await office.command("ZADD", later, 1, job)
    office.carrier.told.clear()
    await office.work()
    told = [(notice.device.device_id, notice.title, notice.body, notice.badge) for notice in office.carrier.told]
    said = ("2 unread messages", "in 2 conversations", 2)
    assert sorted(told) == [("phone", *said), ("tablet", *said)] and await office.jobs() == 0
