"""Receipts: a client's word becomes a tick for those whose messages it concerns, once and forward only."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import Device, FaultyNode, Gate, answer_lost, down, open_faulty
from tests.support.messaging.two_nodes import connect, ticks, write
from tests.support.waiting import eventually
from tidings.bounds import (
    PAGE_MAX,
    RECEIPT_LARGE_PASSES,
    RECEIPT_MEMBERS_MAX,
    RECEIPTS_UNKNOWN_PER_USER_MAX,
    RECEIPTS_WAITING_MAX,
    RESUME_ENTRIES_MAX,
)
from tidings.config.settings import Settings
from tidings.errors import NotFound, Throttled, Unavailable
from tidings.messaging.reading import receipts as module
from tidings.model import Entry
from tidings.pushes import ReceiptSummary
from tidings_proof.world.valkey import ValkeyProcess


@pytest.fixture
async def alice(a: FaultyNode) -> Device:
    return await connect(a, "alice")


async def deliver(node: FaultyNode, user_id: str, acks: dict[str, int]) -> None:
    node.core.receipts.delivered(user_id, acks)
    await node.core.receipts.flush()


async def status(node: FaultyNode, user_id: str, conversation_id: str) -> tuple[int, int]:
    found = (await node.tables.statuses.get(user_id, [conversation_id])).get(conversation_id)
    return (found.delivered_seq, found.read_seq) if found else (0, 0)


async def says(node: FaultyNode, conversation_id: str, sender_id: str, count: int) -> int:
    """The head after so many messages."""
    seq_no = 0
    for n in range(count):
        seq_no = (await node.send(sender_id, conversation_id, f"{sender_id}-{n}-{node.clock.now_ms()}")).entry.seq_no
    return seq_no


# --- what a receipt does --------------------------------------------------------------------------


async def test_a_delivered_receipt_is_stored_and_told_to_the_sender(a: FaultyNode, alice: Device, direct: str) -> None:
    bob = await connect(a, "bob")
    await says(a, direct, "alice", 2)
    await deliver(a, "bob", {direct: 1})
    assert ticks(alice) == [("bob", 1, 0)] and ticks(bob) == []
    await deliver(a, "bob", {direct: 2})
    assert ticks(alice)[1:] == [("bob", 2, 0)]
    assert await status(a, "bob", direct) == (2, 0)


async def test_reading_implies_delivery(a: FaultyNode, alice: Device, direct: str) -> None:
    await says(a, direct, "alice", 3)
    await a.core.unread.mark_read("bob", direct, up_to_seq=2)
    await a.core.receipts.flush()
    assert ticks(alice) == [("bob", 2, 2)] and await status(a, "bob", direct) == (2, 2)
    await deliver(a, "bob", {direct: 3})
    assert ticks(alice)[1:] == [("bob", 3, 2)]


async def test_ticks_never_go_back_whatever_comes_late_or_is_marked_unread(
    a: FaultyNode, alice: Device, direct: str
) -> None:
    await says(a, direct, "alice", 5)
    await a.core.unread.mark_read("bob", direct, up_to_seq=4)
    await a.core.receipts.flush()
    await deliver(a, "bob", {direct: 2})
    await a.core.unread.mark_unread("bob", direct, from_seq=1)
    await a.core.unread.mark_read("bob", direct, up_to_seq=3)
    await a.core.receipts.flush()
    assert ticks(alice) == [("bob", 4, 4)], "nothing new"
    assert await status(a, "bob", direct) == (4, 4)
    page = await a.core.history.page("alice", direct)
    assert (page.delivered_all_seq, page.read_all_seq) == (4, 4)


async def test_sparse_reads_are_no_ticks(a: FaultyNode, alice: Device, direct: str) -> None:
    await says(a, direct, "alice", 5)
    await a.core.unread.mark_read("bob", direct, seqs=[2, 4])
    await a.core.receipts.flush()
    assert ticks(alice) == [] and await status(a, "bob", direct) == (0, 0)


async def test_a_receipt_beyond_the_head_is_one_for_the_head(a: FaultyNode, alice: Device, direct: str) -> None:
    await says(a, direct, "alice", 2)
    await deliver(a, "bob", {direct: 1 << 52})
    assert ticks(alice) == [("bob", 2, 0)]
    await says(a, direct, "alice", 1)
    assert (await a.core.receipts.of_message("alice", direct, 3))[2] == ["bob"], "the next one is not delivered yet"


async def test_a_receipt_for_a_foreign_conversation_or_none_at_all_is_ignored(
    a: FaultyNode, alice: Device, direct: str
) -> None:
    await says(a, direct, "alice", 1)
    for user_id, acks in (("mallory", {direct: 1}), ("bob", {"c-nowhere": 1}), ("bob", {direct: 0})):
        await deliver(a, user_id, acks)
    assert ticks(alice) == [] and await a.tables.statuses.of_conversation(direct) == []
    await deliver(a, "bob", {"c-nowhere": 1, direct: 1})
    assert ticks(alice) == [("bob", 1, 0)], "and does not spoil those beside it"


async def test_a_sender_who_was_removed_gets_no_receipt(a: FaultyNode, alice: Device, group: str) -> None:
    carol = await connect(a, "carol")
    seq_no = await says(a, group, "carol", 2)
    await a.core.directory.remove("alice", group, "carol")
    await deliver(a, "bob", {group: seq_no})
    await a.core.unread.mark_read("bob", group, up_to_seq=seq_no)
    await a.core.receipts.flush()
    assert ticks(carol) == []
    assert (await a.core.receipts.of_message("alice", group, seq_no))[:3] == (["bob"], [], ["alice"])


async def test_a_member_who_left_leaves_no_receipt(a: FaultyNode, alice: Device, group: str) -> None:
    await says(a, group, "alice", 1)
    a.core.receipts.delivered("carol", {group: 1})
    await a.core.directory.remove("alice", group, "carol")
    await a.core.receipts.flush()
    assert ticks(alice) == [] and await status(a, "carol", group) == (0, 0)


# --- who is told ----------------------------------------------------------------------------------


async def test_only_the_senders_of_what_is_new_are_told(a: FaultyNode, group: str) -> None:
    devices = {user_id: await connect(a, user_id) for user_id in ("alice", "bob", "carol")}
    await says(a, group, "alice", 2)  # 1, 2
    await says(a, group, "bob", 1)  # 3
    await says(a, group, "carol", 1)  # 4
    await deliver(a, "carol", {group: 2})
    assert {user_id: ticks(device) for user_id, device in devices.items()} == {
        "alice": [("carol", 2, 0)],
        "bob": [],
        "carol": [],
    }
    await deliver(a, "carol", {group: 4})
    assert ticks(devices["bob"]) == [("carol", 4, 0)] and len(ticks(devices["alice"])) == 1
    await a.core.unread.mark_read("carol", group, up_to_seq=1)
    await a.core.receipts.flush()
    assert ticks(devices["alice"])[1:] == [("carol", 4, 1)] and len(ticks(devices["bob"])) == 1


async def test_senders_far_back_are_told_too(a: FaultyNode, group: str) -> None:
    alice = await connect(a, "alice")
    await says(a, group, "alice", 1)
    head = await says(a, group, "bob", PAGE_MAX + 20)
    await deliver(a, "carol", {group: head})
    assert ticks(alice) == [("carol", head, 0)]


async def test_who_reads_far_behind_what_was_delivered_is_told_of_too(a: FaultyNode, alice: Device, group: str) -> None:
    await says(a, group, "alice", 2)
    await write(a, group, 3, RESUME_ENTRIES_MAX + 10)
    await deliver(a, "bob", {group: RESUME_ENTRIES_MAX + 12})
    told = len(ticks(alice))
    await a.core.unread.mark_read("bob", group, up_to_seq=2)
    await a.core.receipts.flush()
    assert ticks(alice)[told:] == [("bob", RESUME_ENTRIES_MAX + 12, 2)]


def test_stretches_are_looked_at_once_each_from_the_newest_on() -> None:
    most = RESUME_ENTRIES_MAX
    assert module._merged([(0, 3), (2, 5), (9, 12), (9, 10)]) == [(9, 12), (0, 5)]
    assert module._merged([(0, 10 * most), (0, 5)]) == [(9 * most, 10 * most), (0, 5)]
    assert module._merged([(0, 9), (5, 9), (8, 20)]) == [(0, 20)] and module._merged([]) == []
    assert module._merged([(100, 600), (200, 210), (300, 310)]) == [(100, 600)]


async def test_a_sender_whose_messages_are_all_old_is_told_of_a_mark_that_goes_over_many(
    a: FaultyNode, group: str
) -> None:
    bob, head = await connect(a, "bob"), RESUME_ENTRIES_MAX + 11
    await says(a, group, "bob", 1)
    await write(a, group, 2, head - 1)
    await a.core.unread.mark_read("carol", group, up_to_seq=head)
    await a.core.receipts.flush()
    assert ticks(bob) == [("carol", head, head)]


async def test_a_burst_of_receipts_is_one_write_and_one_tick(a: FaultyNode, alice: Device, direct: str) -> None:
    head = await says(a, direct, "alice", 20)
    before = len(a.keyspace.runs)
    for seq_no in range(1, head + 1):
        a.core.receipts.delivered("bob", {direct: seq_no})
    await eventually(lambda: len(ticks(alice)) > 0)
    assert ticks(alice) == [("bob", 20, 0)]
    assert sum("another script" in run for run in a.keyspace.runs[before:]) <= 2, "one raise, one build"


async def test_a_large_channel_costs_few_round_trips(a: FaultyNode) -> None:
    members = [f"user{n}" for n in range(300)]
    view, _ = await a.core.directory.create("alice", kind="channel", members=members)
    c, alice = view.head.conversation_id, await connect(a, "alice")
    await a.unread("alice")
    await says(a, c, "alice", 1)
    runs, pages = len(a.keyspace.runs), a.faulty_log.pages
    for user_id in members:
        a.core.receipts.delivered(user_id, {c: 1})
    await a.core.receipts.flush()
    assert summaries(alice) == [ReceiptSummary(c, 1, 300, 0, 1, 0)]
    assert (len(a.keyspace.runs) - runs, a.faulty_log.pages - pages) == (6, 1), (
        "members as of now, whose index, raise, summary, build, summary; who sent"
    )
    read, delivered, pending, *_ = await a.core.receipts.of_message("alice", c, 1)
    assert (read, len(delivered), pending) == ([], 300, [])


async def test_ticks_reach_the_sender_on_another_node(a: FaultyNode, b: FaultyNode, two: None, direct: str) -> None:
    alice = await connect(a, "alice")
    await says(a, direct, "alice", 1)
    await deliver(b, "bob", {direct: 1})
    await eventually(lambda: ticks(alice) == [("bob", 1, 0)])


# --- states of one message ------------------------------------------------------------------------


async def test_a_mark_that_another_node_took_over_from_the_tables_is_told_all_the_same(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    """What a member reads is in the tables before it is a tick: whoever builds the marks meanwhile has it already."""
    alice = await connect(a, "alice")
    await says(a, group, "alice", 2)
    await b.core.unread.mark_read("carol", group, up_to_seq=2)
    await deliver(a, "bob", {group: 1})  # the first receipt of all: the marks are built
    assert ticks(alice) == [("bob", 1, 0)]
    await b.core.receipts.flush()
    await eventually(lambda: ticks(alice) == [("bob", 1, 0), ("carol", 2, 2)])
    for node in (b, a):
        await deliver(node, "bob", {group: 1})
        await deliver(node, "carol", {group: 2})
    await deliver(a, "bob", {group: 2})
    await eventually(lambda: ("bob", 2, 0) in ticks(alice))
    assert ticks(alice).count(("carol", 2, 2)) <= 2, "what a node has told it does not tell again"


async def test_a_read_mark_that_was_taken_over_is_told_also_where_the_delivered_one_moves(
    a: FaultyNode, alice: Device, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECEIPT_WRITE_S", 3_600)  # the receipt of the read waits for the test
    await says(a, group, "alice", 2)
    await a.core.unread.mark_read("carol", group, up_to_seq=2)
    await a.core.receipts.lowest(await a.core.access.authorize("bob", group, "read"), but="bob")  # builds the marks
    await says(a, group, "bob", 1)
    await deliver(a, "carol", {group: 3})
    assert ticks(alice) == [("carol", 3, 2)]


async def test_a_receipt_that_is_repeated_reads_nothing_and_tells_nobody(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    """As clients do when they come back, and a second device on another node."""
    alice = await connect(a, "alice")
    head = await says(a, group, "alice", 5)
    await deliver(a, "bob", {group: head})
    told, pages = ticks(alice), b.faulty_log.pages
    await b.core.receipts.lowest(await b.core.access.authorize("carol", group, "read"), but="carol")
    for _ in range(3):
        await deliver(b, "bob", {group: head})
    assert b.faulty_log.pages == pages and ticks(alice) == told


async def test_each_member_but_the_sender_is_listed_once_at_the_furthest_state(a: FaultyNode) -> None:
    members = ["bob", "carol", "dave"]
    view, _ = await a.core.directory.create("alice", kind="group", members=members)
    c = view.head.conversation_id
    await says(a, c, "alice", 2)
    await a.core.unread.mark_read("bob", c, up_to_seq=1)
    await deliver(a, "bob", {c: 2})
    await deliver(a, "carol", {c: 1})
    assert (await a.core.receipts.of_message("carol", c, 1))[:3] == (["bob"], ["carol"], ["dave"])
    assert (await a.core.receipts.of_message("alice", c, 2))[:3] == ([], ["bob"], ["carol", "dave"])
    for user_id, seq_no in (("mallory", 1), ("alice", 3), ("alice", 0)):
        with pytest.raises(NotFound):
            await a.core.receipts.of_message(user_id, c, seq_no)


async def test_the_receipts_of_a_large_conversation_come_in_pages_of_members(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = sorted(f"user{n}" for n in range(PAGE_MAX + 20))
    async with open_faulty(dataclasses.replace(settings, members_large=PAGE_MAX), "large") as node:
        view, _ = await node.core.directory.create("alice", kind="channel", members=people)
        c = view.head.conversation_id
        await says(node, c, "alice", 1)
        await node.core.unread.mark_read(people[0], c, up_to_seq=1)
        await deliver(node, people[-1], {c: 1})
        monkeypatch.setattr(
            node.tables.statuses, "of_conversation", None
        )  # the marks of a page's members are read alone
        first = await node.core.receipts.of_message("alice", c, 1)
        assert (first.read, first.delivered, first.pending) == (people[:1], [], people[1 : PAGE_MAX - 1])
        assert first.next_cursor == people[PAGE_MAX - 2], "alice is one of the page"
        rest = await node.core.receipts.of_message(
            people[3], c, 1, after_id=first.next_cursor or "", limit=5 * PAGE_MAX
        )
        assert (rest.read, rest.delivered, rest.pending) == ([], people[-1:], people[PAGE_MAX - 1 : -1])
        assert (list(first.times), list(rest.times), rest.next_cursor) == (people[:1], people[-1:], None)
        with pytest.raises(NotFound):
            await node.core.receipts.of_message("mallory", c, 1, limit=1)


async def test_a_page_of_the_receipts_of_a_small_conversation_is_a_part_of_the_whole(a: FaultyNode) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob", "carol", "dave"])
    c = view.head.conversation_id
    await says(a, c, "alice", 1)
    await deliver(a, "carol", {c: 1})
    whole = await a.core.receipts.of_message("alice", c, 1)
    assert (whole.delivered, whole.pending, whole.next_cursor) == (["carol"], ["bob", "dave"], None)
    first = await a.core.receipts.of_message("alice", c, 1, limit=3)
    assert (first.delivered, first.pending, first.next_cursor) == (["carol"], ["bob"], "carol")
    last = await a.core.receipts.of_message("alice", c, 1, after_id="carol")
    assert (last.delivered, last.pending, last.next_cursor) == ([], ["dave"], None)


async def test_a_receipt_has_the_times_of_delivery_and_reading(a: FaultyNode) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob", "carol", "dave"])
    c, began_ms = view.head.conversation_id, a.clock.now_ms()
    await says(a, c, "alice", 2)
    await deliver(a, "bob", {c: 1})
    await deliver(a, "carol", {c: 2})
    await a.core.unread.mark_read("bob", c, up_to_seq=1)
    times = (await a.core.receipts.of_message("alice", c, 1)).times
    assert list(times) == ["bob", "carol"] and times["carol"].read_ms is None
    delivered_ms, read_ms = times["bob"]
    assert delivered_ms is not None and read_ms is not None and began_ms <= delivered_ms <= read_ms
    await deliver(a, "bob", {c: 2})
    assert (await a.core.receipts.of_message("alice", c, 1)).times["bob"] == (read_ms, read_ms), (
        "a message is delivered before it is read"
    )
    assert (await a.core.receipts.of_message("alice", c, 2)).times["bob"].read_ms is None
    a.clock.ahead_ms += 60_000
    await a.core.unread.mark_read("bob", c, up_to_seq=2)
    later_ms = (await a.core.receipts.of_message("alice", c, 2)).times["bob"].read_ms
    assert later_ms is not None and later_ms >= read_ms + 60_000
    assert (await a.core.receipts.of_message("alice", c, 1)).times["bob"].read_ms == read_ms, "each read has its time"


# --- the answer -----------------------------------------------------------------------------------


async def test_a_client_is_answered_when_its_receipts_are_written(a: FaultyNode, direct: str, group: str) -> None:
    await says(a, direct, "alice", 1)
    await says(a, group, "alice", 1)
    answers: list[bool] = []
    a.core.receipts.delivered("bob", {direct: 1, group: 1, "c-nowhere": 1}, answers.append)
    assert answers == []
    await eventually(lambda: bool(answers))
    assert answers == [True]
    assert await status(a, "bob", direct) == await status(a, "bob", group) == (1, 0)


async def test_a_client_whose_receipts_the_stores_refuse_is_told_so_once(
    a: FaultyNode, direct: str, group: str
) -> None:
    await says(a, direct, "alice", 1)
    await says(a, group, "alice", 1)
    answers: list[bool] = []
    a.keyspace.fail("another script", down)
    a.core.receipts.delivered("bob", {direct: 1, group: 1}, answers.append)
    with pytest.raises(Unavailable):
        await a.core.receipts.flush()
    assert answers == [False]
    a.core.receipts.delivered("bob", {direct: 1, group: 1}, answers.append)
    await a.core.receipts.flush()
    assert answers == [False, True] and await status(a, "bob", direct) == (1, 0)


async def test_a_client_is_answered_and_later_receipts_are_written_after_a_mistake_of_ours(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await says(a, direct, "alice", 2)
    answers: list[bool] = []

    async def broken(*given: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(a.core.receipts, "_write", broken)
        a.core.receipts.delivered("bob", {direct: 1}, answers.append)
        await eventually(lambda: bool(answers))
    a.core.receipts.delivered("bob", {direct: 2}, answers.append)
    await eventually(lambda: len(answers) == 2)
    assert answers == [False, True] and await status(a, "bob", direct) == (2, 0)


async def test_a_receipt_for_which_there_is_no_room_is_not_called_written(a: FaultyNode) -> None:
    answers: list[bool] = []
    made_up = {f"c-{n}": 1 for n in range(RECEIPTS_UNKNOWN_PER_USER_MAX + 1)}
    a.core.receipts.delivered("bob", made_up, answers.append)
    assert answers == [False]
    a.core.receipts.delivered("bob", {}, answers.append)
    assert answers == [False, True], "there is nothing to write"


async def test_a_stranger_is_answered_and_nothing_is_written(a: FaultyNode, direct: str) -> None:
    await says(a, direct, "alice", 1)
    answers: list[bool] = []
    a.core.receipts.delivered("mallory", {direct: 1}, answers.append)
    await a.core.receipts.flush()
    assert answers == [True] and await status(a, "mallory", direct) == (0, 0)


async def test_a_member_whom_the_list_in_memory_does_not_have_yet_leaves_a_receipt(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.core.access.load(group)
    await a.core.directory.add("alice", group, ["dora"])
    seq_no = await says(a, group, "alice", 1)
    assert "dora" not in b.core.access.cached(group).members  # type: ignore[union-attr]
    answers: list[bool] = []
    b.core.receipts.delivered("dora", {group: seq_no}, answers.append)
    await b.core.receipts.flush()
    assert answers == [True] and await status(b, "dora", group) == (seq_no, 0)


# --- trouble --------------------------------------------------------------------------------------


async def test_a_conversation_that_is_throttled_holds_up_no_receipt_of_another(
    a: FaultyNode, alice: Device, direct: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id_ in (direct, group):
        await says(a, id_, "alice", 1)
        await a.core.history.page("alice", id_)
    real = a.tables.statuses.deliver

    async def deliver(marks: Sequence[tuple[str, str, int]], at_ms: int = 0) -> set[tuple[str, str]]:
        if any(id_ == group for id_, _, _ in marks):
            raise Throttled("one key is asked too often")
        return await real(marks, at_ms)

    monkeypatch.setattr(a.tables.statuses, "deliver", deliver)
    answers: dict[str, bool] = {}
    for id_ in (direct, group):
        a.core.receipts.delivered("bob", {id_: 1}, partial(answers.__setitem__, id_))
    with pytest.raises(Throttled):
        await a.core.receipts.flush()
    assert answers == {direct: True, group: False} and ticks(alice) == [("bob", 1, 0)]
    monkeypatch.setattr(a.tables.statuses, "deliver", real)
    await a.core.receipts.flush()
    assert ticks(alice) == [("bob", 1, 0)] * 2


async def test_a_mistake_with_one_conversation_leaves_no_client_without_an_answer(
    a: FaultyNode, alice: Device, direct: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id_ in (direct, group):
        await says(a, id_, "alice", 1)
    real = a.tables.statuses.deliver

    async def deliver_or_fail(marks: Sequence[tuple[str, str, int]], now_ms: int) -> Any:
        if any(id_ == group for id_, _, _ in marks):
            raise KeyError(group)
        return await real(marks, now_ms)

    monkeypatch.setattr(a.tables.statuses, "deliver", deliver_or_fail)
    answers: dict[str, bool] = {}
    for id_ in (direct, group):
        a.core.receipts.delivered("bob", {id_: 1}, partial(answers.__setitem__, id_))
    await eventually(lambda: len(answers) == 2)
    assert answers == {direct: True, group: False} and ticks(alice) == [("bob", 1, 0)]
    monkeypatch.setattr(a.tables.statuses, "deliver", real)
    a.core.receipts.delivered("bob", {group: 1}, partial(answers.__setitem__, group))
    await eventually(lambda: answers == {direct: True, group: True})
    assert ticks(alice) == [("bob", 1, 0)] * 2 and not a.core.receipts._untold


async def test_receipts_that_the_stores_refuse_are_written_later(a: FaultyNode, alice: Device, direct: str) -> None:
    await says(a, direct, "alice", 3)
    await a.core.history.page("alice", direct)  # the marks are built
    a.keyspace.fail("another script", down)
    a.core.receipts.delivered("bob", {direct: 2})
    with pytest.raises(Unavailable):
        await a.core.receipts.flush()
    a.core.receipts.delivered("bob", {direct: 1})
    await eventually(lambda: ticks(alice) == [("bob", 2, 0)])
    page = await a.core.history.page("alice", direct)
    assert page.delivered_all_seq == 2


async def test_a_raise_without_an_answer_loses_neither_the_mark_nor_the_word(
    a: FaultyNode, alice: Device, direct: str
) -> None:
    await says(a, direct, "alice", 3)
    await a.core.history.page("alice", direct)
    a.keyspace.fail("another script", answer_lost)
    a.core.receipts.delivered("bob", {direct: 3})
    await eventually(lambda: not a.core.receipts._waiting and not a.core.receipts._turn.locked())
    assert (await a.core.history.page("alice", direct)).delivered_all_seq == 3
    assert ticks(alice) == [("bob", 3, 0)] and not a.core.receipts._untold


async def test_a_log_that_cannot_be_read_delays_the_word(
    a: FaultyNode, alice: Device, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await says(a, direct, "alice", 3)
    await a.core.history.page("alice", direct)
    page, failures = a.core.receipts.messages.page, [Unavailable("for a moment")]

    async def fails_once(*args: Any, **options: Any) -> list[Entry]:
        if failures:
            raise failures.pop()
        return await page(*args, **options)

    monkeypatch.setattr(a.core.receipts.messages, "page", fails_once)
    a.core.receipts.delivered("bob", {direct: 3})
    await eventually(lambda: ticks(alice) == [("bob", 3, 0)])
    assert not failures


async def test_receipts_that_are_made_up_push_out_nobody_else_and_cost_few_reads(
    a: FaultyNode, alice: Device, direct: str
) -> None:
    await says(a, direct, "alice", 1)
    for start in range(0, 3 * RECEIPTS_WAITING_MAX, 10_000):
        a.core.receipts.delivered("mallory", {f"c-{start + n}": 1 for n in range(10_000)})
    a.core.receipts.delivered("mallory", {direct: 1})
    assert len(a.core.receipts._waiting) == RECEIPTS_UNKNOWN_PER_USER_MAX
    a.core.receipts.delivered("bob", {direct: 1})
    first = a.core.receipts._waiting.take(1, is_all=False)
    assert list(first.marks) == [(direct, "bob")], "written before everything that is made up"
    a.core.receipts.delivered("bob", {direct: 1})
    await a.core.receipts.flush()
    assert ticks(alice) == [("bob", 1, 0)] and await status(a, "mallory", direct) == (0, 0)


# --- many members ---------------------------------------------------------------------------------


def summaries(device: Device) -> list[ReceiptSummary]:
    return [event for event in device.events if isinstance(event, ReceiptSummary)]


async def channel_of(node: FaultyNode, count: int) -> tuple[str, list[str]]:
    others = [f"m{n}" for n in range(count - 1)]
    view, _ = await node.core.directory.create("alice", kind="channel", members=others, name="all")
    return view.head.conversation_id, others


async def test_above_fifty_members_the_sender_gets_one_summary_and_no_receipt_of_each(
    a: FaultyNode, alice: Device
) -> None:
    channel, others = await channel_of(a, RECEIPT_MEMBERS_MAX + 1)
    seq_no = await says(a, channel, "alice", 2)
    for user_id in others[1:]:
        a.core.receipts.delivered(user_id, {channel: seq_no})
    await a.core.unread.mark_read(others[1], channel, up_to_seq=seq_no)
    await a.core.receipts.flush()
    assert ticks(alice) == []
    assert summaries(alice) == [ReceiptSummary(channel, 2, len(others) - 1, 1, 0, 0)]
    await deliver(a, others[0], {channel: 1})
    assert summaries(alice)[1:] == [ReceiptSummary(channel, 2, len(others) - 1, 1, 1, 0)]
    assert await status(a, others[0], channel) == (1, 0) and await status(a, others[1], channel) == (2, 2)
    states = await a.core.receipts.of_message("alice", channel, 2)
    assert [len(state) for state in states[:3]] == [1, len(others) - 2, 1]


async def test_the_summary_is_right_after_the_marks_were_lost(a: FaultyNode, alice: Device) -> None:
    channel, others = await channel_of(a, RECEIPT_MEMBERS_MAX + 1)
    seq_no = await says(a, channel, "alice", 1)
    for user_id in others[1:]:
        a.core.receipts.delivered(user_id, {channel: seq_no})
    await a.core.receipts.flush()
    await a.command("DEL", a.core.keys.delivered(channel))
    await deliver(a, others[0], {channel: seq_no})
    assert summaries(alice)[-1] == ReceiptSummary(channel, 1, len(others), 0, 1, 0)


async def test_receipts_of_a_large_conversation_fold_over_several_writes(a: FaultyNode, alice: Device) -> None:
    channel, others = await channel_of(a, RECEIPT_MEMBERS_MAX + 1)
    seq_no = await says(a, channel, "alice", 3)
    for acked in range(1, seq_no + 1):
        a.core.receipts.delivered(others[0], {channel: acked})
        await a.core.receipts.flush(is_all=False)
    assert await status(a, others[0], channel) == (0, 0), "not due yet"
    for _ in range(RECEIPT_LARGE_PASSES):
        a.core.receipts._waiting.begin_pass()
    await a.core.receipts.flush(is_all=False)
    assert await status(a, others[0], channel) == (seq_no, 0)


async def test_a_flush_waits_for_the_one_under_way(a: FaultyNode, direct: str) -> None:
    """A node that leaves flushes; what another flush has in its hands must be written when that returns."""
    await says(a, direct, "alice", 1)
    gate = Gate()
    a.keyspace.fail("HMGET", gate)
    a.core.receipts.delivered("bob", {direct: 1})
    first = asyncio.create_task(a.core.receipts.flush())
    await gate.reached.wait()
    second = asyncio.create_task(a.core.receipts.flush())
    gate.opened.set()
    await second
    assert await status(a, "bob", direct) == (1, 0)
    await first


async def test_after_a_flushed_keyspace_a_tick_is_told_as_high_as_it_was(
    a: FaultyNode, alice: Device, direct: str, valkey: ValkeyProcess
) -> None:
    await says(a, direct, "alice", 5)
    await a.core.unread.mark_read("bob", direct, up_to_seq=4)
    await a.core.receipts.flush()
    valkey.command("FLUSHALL")
    await deliver(a, "bob", {direct: 5})
    assert ticks(alice) == [("bob", 4, 4), ("bob", 5, 4)]


async def test_a_read_that_never_became_a_tick_becomes_one_when_the_member_comes_back(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    """The node died between the commit of the read and the tick."""
    alice = await connect(b, "alice")
    await says(a, direct, "alice", 3)
    member_list = await b.core.access.fresh(direct)
    assert member_list is not None
    assert await b.core.receipts.lowest(member_list, but="alice") == (0, 0)
    a.core.events.read_up_to.remove(a.core.receipts.read)
    await a.core.unread.mark_read("bob", direct, up_to_seq=2)
    assert await b.core.receipts.lowest(member_list, but="alice") == (0, 0)
    await b.core.receipts.standing(member_list, "bob", 2)
    assert await b.core.receipts.lowest(member_list, but="alice") == (2, 2) and ticks(alice) == [("bob", 2, 2)]
    await b.core.receipts.standing(member_list, "bob", 2)
    assert len(ticks(alice)) == 1
