"""Who has not acknowledged in time: from a send to a pending row and a push, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import pytest

from tests.support.messaging.push_node import PostOffice, open_office
from tests.support.waiting import eventually
from tidings import bounds
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.messaging.push import due as module
from tidings.messaging.reading.flags import FlagChange
from tidings.model import Content, ContentPatch, Entry, Mention
from tidings.stores.keyspace.scripts.push import due_shard
from tidings.stores.tables.values import Waiting


@pytest.fixture
async def office(settings: Settings) -> AsyncIterator[PostOffice]:
    async with open_office(settings) as made:
        yield made


@pytest.fixture
async def patient(settings: Settings) -> AsyncIterator[PostOffice]:
    """The same with a grace time that does not end during a test."""
    async with open_office(settings, grace_s=60) as made:
        yield made


class Beside:
    """The port, with something that happens beside a call."""

    def __init__(self, behind: Any, **beside: Any) -> None:
        self._behind = behind
        self._beside = beside

    def __getattr__(self, name: str) -> Any:
        return self._beside.get(name) or getattr(self._behind, name)


# --- rows -----------------------------------------------------------------------------------------


async def test_who_did_not_acknowledge_gets_one_row_and_the_sender_none(office: PostOffice) -> None:
    c = await office.create("alice", "bob", "carol")
    for _ in range(3):
        last = await office.send("alice", c)
    await office.receive("carol", c, last.seq_no)
    await office.pass_grace(last)
    assert await office.waiting(c, "alice", "bob", "carol") == {"bob": (1, 3)}
    [row] = await office.pending.of_user("bob")
    assert row.expires - row.since_ms // 1000 - bounds.WAITING_TTL_S in (0, 1)  # a later look puts the end off


async def test_within_the_grace_time_nothing_is_pending(patient: PostOffice) -> None:
    c = await patient.create("alice", "bob")
    await patient.send("alice", c)
    assert await patient.due.check() == 0
    assert await patient.waiting(c, "bob") == {}


async def test_a_receipt_clears_the_row_and_a_partial_one_its_beginning(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    for _ in range(4):
        last = await office.send("alice", c)
    await office.pass_grace(last)
    await office.receive("bob", c, 2)
    assert await office.waiting(c, "bob") == {"bob": (3, 4)}
    await office.receive("bob", c, 4)
    assert await office.waiting(c, "bob") == {}


async def test_what_was_delivered_before_is_not_in_the_row(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    first = await office.send("alice", c)
    await office.receive("bob", c, first.seq_no)
    last = await office.send("alice", c)
    await office.pass_grace(last)
    assert await office.waiting(c, "bob") == {"bob": (2, 2)}


async def test_a_message_of_others_under_many_of_ones_own_is_found(office: PostOffice) -> None:
    c = await office.create("alice", "bob", "carol")
    await office.send("bob", c)
    for _ in range(30):
        last = await office.send("alice", c)
    await office.pass_grace(last)
    assert await office.waiting(c, "alice", "bob", "carol") == {"alice": (1, 1), "bob": (1, 31), "carol": (1, 31)}


async def test_only_messages_are_pending_and_deleted_ones_are_not(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    first = await office.send("alice", c)
    deletion = await office.core.rewrites.delete("alice", c, first.seq_no)
    await office.core.directory.add("alice", c, ["carol"])
    await office.record(office.due, deletion.entry)
    await office.pass_grace(deletion.entry)
    assert await office.waiting(c, "alice", "bob", "carol") == {}


async def test_who_left_or_came_later_waits_for_nothing(office: PostOffice) -> None:
    c = await office.create("alice", "bob", "carol")
    last = await office.send("alice", c)
    await office.core.directory.remove("alice", c, "bob")
    await office.core.directory.add("alice", c, ["dave"])
    await office.pass_grace(last)
    assert await office.waiting(c, "bob", "carol", "dave") == {"carol": (1, 1)}


async def test_who_blocked_the_sender_waits_for_nothing_of_theirs(office: PostOffice) -> None:
    c = await office.create("alice", "bob", "carol")
    await office.core.blocks.block("carol", "alice")
    await office.send("bob", c)
    last = await office.send("alice", c)
    await office.pass_grace(last)
    assert await office.waiting(c, "bob", "carol") == {"bob": (1, 2), "carol": (1, 1)}


async def test_a_conversation_that_is_gone_is_no_longer_due(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    await office.send("alice", c)
    await office.core.directory.delete("alice", c)
    key = office.core.keys.due(due_shard(c))
    async with asyncio.timeout(60):
        while await office.command("ZSCORE", key, c) is not None:
            await office.due.check()
    assert await office.waiting(c, "bob") == {}


async def test_a_channel_of_hundreds_has_a_row_for_each_who_is_away(office: PostOffice) -> None:
    others = [f"u{number}" for number in range(300)]
    c = await office.create("alice", *others, kind="channel")
    last = await office.send("alice", c)
    await office.core.tables.statuses.deliver([(c, user_id, last.seq_no) for user_id in others[:100]])
    await office.pass_grace(last)
    assert sorted(await office.waiting(c, "alice", *others)) == sorted(others[100:])


# --- one record for many messages -----------------------------------------------------------------


async def test_one_record_serves_for_the_messages_that_follow_it(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    first = await office.core.sends.send("alice", c, "a", Content("x"))
    second = await office.core.sends.send("alice", c, "b", Content("x"))
    assert await office.record(office.due, first.entry) == 1
    assert await office.record(office.due, second.entry) == 0
    await office.pass_grace(second.entry)
    assert await office.waiting(c, "bob") == {"bob": (1, 2)}
    await eventually(lambda: office.due.calls([(c, office.clock.now_ms())]) != [])


async def test_a_record_that_was_not_answered_serves_for_nothing(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    sent = await office.core.sends.send("alice", c, "a", Content("x"))
    assert len(office.due.calls([(c, sent.entry.sent_ms)])) == 1  # and then the link broke
    assert await office.record(office.due, sent.entry) == 1


async def test_the_record_of_an_old_message_sent_again_serves_for_no_newer_one(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    old = await office.send("alice", c)
    await office.pass_grace(old)
    await eventually(lambda: office.clock.now_ms() - old.sent_ms > 1000 * office.grace_s)
    assert await office.record(office.due, old) == 1
    await office.due.check()
    newer = await office.core.sends.send("alice", c, "newer", Content("x"))
    assert await office.record(office.due, newer.entry) == 1
    await office.pass_grace(newer.entry)
    assert await office.waiting(c, "bob") == {"bob": (1, 2)}


async def test_in_a_conversation_that_never_rests_nothing_is_forgotten(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    office.due.loop.start()
    async with asyncio.timeout(60):
        while not await office.waiting(c, "bob"):
            last = await office.send("alice", c)
            await asyncio.sleep(0.02)
        while await office.waiting(c, "bob") != {"bob": (1, last.seq_no)}:
            await asyncio.sleep(0.02)
    await office.due.loop.stop()


async def test_a_message_sent_while_a_node_looks_is_not_taken_off_with_the_rest(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    first = await office.send("alice", c)
    shard = due_shard(c)
    claim = office.scripts.due_claim(shard, limit=10, hold_ms=30_200)
    claimed = await office.core.keyspace.one(claim)
    while c not in claimed.conversation_ids:
        claimed = await office.core.keyspace.one(claim)
    # The other node read the log before this message was stored; its settling comes after this one was recorded.
    other = office.checker()
    last = await office.send("alice", c, due=other)
    settle = office.scripts.due_settle(shard, c, until_ms=claimed.until_ms, next_ms=0)
    assert await office.core.keyspace.one(settle) is False
    await office.pass_grace(last)
    assert first.seq_no < last.seq_no and await office.waiting(c, "bob") == {"bob": (1, 2)}


# --- what dies meanwhile --------------------------------------------------------------------------


async def test_what_a_dead_node_had_taken_is_looked_at_by_another(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "DUE_HOLD_S", 0.5)
    monkeypatch.setattr(bounds, "DUE_PASS_S", 0.4)
    c = await office.create("alice", "bob")
    last = await office.send("alice", c)
    deaths = 0

    async def died(rows: Sequence[Waiting]) -> None:
        nonlocal deaths
        deaths += 1
        raise Unavailable("in the middle of it")

    dying = office.checker(pending=Beside(office.pending, put=died))
    async with asyncio.timeout(60):
        while not deaths:
            await dying.check()
    assert await office.waiting(c, "bob") == {} and await office.due.check() == 0
    await office.pass_grace(last, office.checker())
    assert await office.waiting(c, "bob") == {"bob": (1, 1)}


async def test_what_was_held_for_too_long_is_left_to_the_next_look(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = await office.create("alice", "bob")
    last = await office.send("alice", c)
    claim = office.scripts.due_claim(due_shard(c), limit=10, hold_ms=30_200)
    claimed = await office.core.keyspace.one(claim)
    while not claimed.conversation_ids:
        claimed = await office.core.keyspace.one(claim)
    long_ago_s = office.clock.monotonic_s() - bounds.DUE_HOLD_S + bounds.DUE_PASS_S - 0.1
    await office.due._pass(asyncio.Semaphore(1), long_ago_s, due_shard(c), claimed, c)
    assert await office.waiting(c, "bob") == {}
    assert await office.command("ZSCORE", office.core.keys.due(due_shard(c)), c) is not None
    await office.due._pass(asyncio.Semaphore(1), office.clock.monotonic_s(), due_shard(c), claimed, c)
    assert await office.waiting(c, "bob") == {"bob": (1, last.seq_no)}


async def test_a_lost_set_is_recorded_again_by_those_who_sent(office: PostOffice) -> None:
    c, patient = await office.create("alice", "bob"), office.checker(grace_s=3600)
    await office.due.check()  # knows the set's life by now
    last = await office.send("alice", c)
    await office.record(patient, last)
    await office.command("DEL", office.core.keys.due(due_shard(c)))
    assert await office.record(patient, last) == 0  # within half of its grace time a node relies on what was lost
    await office.pass_grace(last)
    assert await office.waiting(c, "bob") == {"bob": (1, 1)}


async def test_after_another_life_of_the_keyspace_lost_jobs_come_again(office: PostOffice) -> None:
    await office.register("bob")
    c = await office.create("alice", "bob")
    last = await office.send("alice", c)
    await office.pass_grace(last)
    assert await office.jobs() == 1
    for shard in range(bounds.PUSH_SHARDS):
        await office.command("DEL", office.core.keys.push(shard))
    office.due.epoch_changed("old", "new")
    await office.due.check()
    await office.pass_grace(last)
    await office.work()
    assert [notice.device.device_id for notice in office.carrier.told] == ["phone"]
    assert await office.waiting(c, "bob") == {"bob": (1, 1)}


async def test_a_receipt_that_comes_between_the_look_and_the_row_leaves_no_row(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    last = await office.send("alice", c)
    real = office.pending

    async def overtaken(rows: Sequence[Waiting]) -> None:
        await office.receive("bob", c, last.seq_no)
        await real.put(rows)

    await office.pass_grace(last, office.checker(pending=Beside(real, put=overtaken)))
    assert await office.waiting(c, "bob") == {}


async def test_a_row_that_a_crash_left_behind_is_found_by_the_expiry(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    last = await office.send("alice", c)
    await office.pass_grace(last)
    await office.core.tables.statuses.deliver([(c, "bob", last.seq_no)])  # and the node died before it cleared the row
    assert await office.waiting(c, "bob") == {"bob": (1, 1)}
    restarted = office.checker()
    restarted.loop.start()
    async with asyncio.timeout(60):
        while await office.waiting(c, "bob"):
            await asyncio.sleep(0.01)
    await restarted.loop.stop()


async def test_a_defect_of_ours_does_not_end_the_looking(office: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "DUE_LOOK_S", 0.01)
    c = await office.create("alice", "bob")
    tries = 0

    async def defective(conversation_id: str, newest: Mapping[str, int]) -> None:
        nonlocal tries
        tries += 1
        raise ZeroDivisionError

    due = office.checker(worker=Beside(office.notify, queue=defective))
    due.loop.start()
    await office.send("alice", c, due=due)
    await eventually(lambda: tries == 1)
    other = await office.create("alice", "bob")
    await office.send("alice", other, due=due)
    await eventually(lambda: tries == 2)
    await due.loop.stop()


async def test_stores_that_fail_do_not_end_the_looking(office: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "DUE_LOOK_S", 0.01)
    c = await office.create("alice", "bob")
    failures = 0

    async def failing(now_ms: int) -> int:
        nonlocal failures
        failures += 1
        raise Unavailable("not now")

    due = office.checker(pending=Beside(office.pending, expire=failing))
    due.loop.start()
    await office.send("alice", c, due=due)
    async with asyncio.timeout(60):
        while not await office.waiting(c, "bob"):
            await asyncio.sleep(0.01)
    await due.loop.stop()
    assert failures > 1


# --- who is told ----------------------------------------------------------------------------------


class Queue:
    def __init__(self) -> None:
        self.jobs: list[tuple[str, dict[str, int]]] = []

    async def queue(self, conversation_id: str, newest: Mapping[str, int]) -> None:
        self.jobs.append((conversation_id, dict(newest)))


async def notified(office: PostOffice, last: Any) -> dict[str, int]:
    queue = Queue()
    await office.pass_grace(last, office.checker(worker=queue))
    merged: dict[str, int] = {}
    for _, newest in queue.jobs:
        merged |= newest
    return merged


async def test_each_is_told_of_the_newest_message_of_others_unless_it_was_read(office: PostOffice) -> None:
    c = await office.create("alice", "bob", "carol", "dave")
    await office.send("dave", c)
    last = await office.send("bob", c)
    await office.core.unread.mark_read("carol", c, up_to_seq=2)
    await office.core.unread.mark_read("dave", c, seqs=[2])
    assert await notified(office, last) == {"alice": 2, "bob": 1}


async def test_a_user_whose_laptop_has_it_is_told_of_all_the_same(office: PostOffice) -> None:
    c = await office.create("alice", "bob")
    last = await office.send("alice", c)
    await office.receive("bob", c, last.seq_no, "laptop")
    assert await notified(office, last) == {"bob": 1}
    assert await office.waiting(c, "bob") == {}


@pytest.fixture
async def hall(settings: Settings) -> AsyncIterator[PostOffice]:
    """Above three members a conversation is large."""
    async with open_office(dataclasses.replace(settings, members_large=3)) as made:
        yield made


async def call(office: PostOffice, sender_id: str, conversation_id: str, mention: Mention | None, *names: str) -> Any:
    content = Content("hello", mentions=names, mention=mention)
    entry = (await office.core.sends.send(sender_id, conversation_id, None, content)).entry
    await office.record(office.due, entry)
    return entry


async def test_in_a_large_conversation_each_is_told_of_the_newest_message_that_calls_them(hall: PostOffice) -> None:
    c = await hall.create("alice", "bob", "carol", "dave", "erin")
    await hall.core.flags.set("erin", c, FlagChange(notify="all"))
    await hall.core.blocks.block("dave", "alice")
    await call(hall, "bob", c, "all")
    await call(hall, "alice", c, None, "dave", "carol", "a stranger")
    await call(hall, "alice", c, "all")
    last = await call(hall, "carol", c, None)
    assert await notified(hall, last) == {"alice": 1, "bob": 3, "carol": 3, "dave": 1, "erin": 4}


async def test_others_have_their_turn_while_a_crowd_is_called(
    hall: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CALLED_AT_ONCE", 2)
    c = await hall.create("alice", *(f"user{number}" for number in range(20)))
    await call(hall, "alice", c, "all")
    member_list = await hall.core.access.load(c)
    assert member_list is not None
    looked, turns = list[str](), list[int]()

    def is_for(entry: Entry, user_id: str) -> bool:
        looked.append(user_id)
        return entry.sender_id != user_id

    monkeypatch.setattr(hall.due, "_is_for", is_for)
    finding = asyncio.create_task(hall.due._find_called(member_list, 0, 1, hall.clock.now_ms()))
    while not finding.done():
        turns.append(len(looked))
        await asyncio.sleep(0)
    assert len(looked) == 21
    assert max(later - before for before, later in itertools.pairwise([*turns, len(looked)])) <= 2


async def test_what_was_looked_at_is_not_told_again(office: PostOffice) -> None:
    queue = Queue()
    due = office.checker(worker=queue)
    c = await office.create("alice", "bob")
    last = await office.send("alice", c, due=due)
    await office.pass_grace(last, due)
    edit = await office.core.rewrites.edit("alice", c, last.seq_no, ContentPatch("other words"))
    await office.record(due, edit.entry)
    await office.pass_grace(edit.entry, due)
    assert queue.jobs == [(c, {"bob": 1})]


async def test_what_is_remembered_is_bounded(office: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "DUE_RECENT_MAX", 10)
    monkeypatch.setattr(bounds, "RECEIPTS_WAITING_MAX", 10)

    def pairs() -> Iterable[tuple[str, int]]:
        return ((f"c{number}", 1) for number in range(50))

    due = office.checker()
    due.calls(pairs())
    due.received((c, "bob", 1, 0) for c, _ in pairs())
    assert len(due._recent) == 10 and len(due._received) == 10
