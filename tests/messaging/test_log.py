"""Gaps: nobody reads past one, and nobody waits for one for ever."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messaging.faulty_stores import FaultyNode, Gate, code_of, told
from tests.support.waiting import eventually
from tidings.bounds import GAP_CLOSE_S
from tidings.messaging import log as log_module
from tidings.messaging.log import NEWEST, Log, first_open
from tidings.model import Content, Entry, Sent
from tidings.stores.tables.values import Group, Refused


def entry(seq_no: int, sent_ms: int, conversation_id: str = "c") -> Entry:
    id_ = f"m{seq_no}"
    return Entry(
        conversation_id=conversation_id,
        seq_no=seq_no,
        kind="message",
        sent_ms=sent_ms,
        message_id=id_,
        sender_id="alice",
        content=Content(id_),
        digest=b"x",
    )


class Written:
    """A log with holes, written past the send path."""

    def __init__(self, node: FaultyNode, conversation_id: str) -> None:
        self.node, self.id = node, conversation_id
        self.voided = 0
        self.log = Log(node.tables.log, node.tables.conversations, node.clock, self._count)
        self.began_ms = node.clock.now_ms()

    def _count(self, what: str, n: int) -> None:
        assert what == "void"
        self.voided += n

    async def put(self, *seq_nos: int) -> None:
        entries = tuple(entry(seq_no, self.began_ms + 10 * seq_no, self.id) for seq_no in seq_nos)
        assert await self.node.tables.log.append([Group(conversation_id=self.id, entries=entries)]) == [None]

    async def after(self, after: int, limit: int = 100) -> list[int]:
        return [one.seq_no for one in await self.log.after(self.id, after, limit)]

    async def before(self, before: int = NEWEST, limit: int = 100) -> list[int]:
        return [one.seq_no for one in await self.log.before(self.id, before, limit)]

    def age(self) -> None:
        """Everything written so far is old now."""
        self.node.clock.ahead_ms += 100_000


def test_the_first_open_number_of_a_run() -> None:
    assert first_open([entry(3, 1), entry(4, 2), entry(6, 3)], 2) == 5
    assert first_open([entry(4, 1)], 2) == 3
    assert first_open([entry(3, 1), entry(4, 2)], 2) is None
    assert first_open([], 2) is None


async def test_a_hole_holds_back_what_is_above_it(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 2, 4, 5)
    assert await log.after(0) == [1, 2]
    assert await log.after(2) == []
    assert await log.before() == [2, 1]
    assert log.voided == 0
    await log.put(3)
    assert await log.after(0) == [1, 2, 3, 4, 5] and await log.before() == [5, 4, 3, 2, 1]


async def test_a_hole_that_is_three_seconds_old_is_closed_by_the_reader(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 4, 6)
    log.age()
    assert await log.after(0) == [1, 2, 3, 4, 5, 6]
    assert log.voided == 3
    times = [one.sent_ms for one in await a.log(direct)]
    assert times == sorted(times), "a void's time lies between its neighbours'"
    assert times[1] == times[0]


async def test_a_hole_at_the_very_beginning_is_closed_too(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(3, 4)
    assert await log.after(0) == [] and await log.before() == []
    log.age()
    assert await log.before() == [4, 3, 2, 1]


async def test_only_the_holes_that_are_old_enough_are_closed(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 3)
    log.age()
    log.began_ms = a.clock.now_ms()
    await log.put(5)
    assert await log.after(0) == [1, 2, 3]
    assert await log.before() == [3, 2, 1]
    assert told(await a.log(direct)) == [
        (1, "message", "m1"),
        (2, "void", None),
        (3, "message", "m3"),
        (5, "message", "m5"),
    ]


async def test_who_pages_down_from_an_entry_skips_nothing_above_a_hole(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 2, 4, 5, 6)
    assert await log.before(6) == [5, 4], "the page ends above the hole; the next one begins at it"
    page = asyncio.ensure_future(log.before(4))
    await eventually(lambda: log.node.faulty_log.pages > 8)
    assert not page.done(), "the next number is open: the page waits"
    await log.put(3)
    assert await page == [3, 2, 1]


async def test_who_pages_down_to_a_hole_waits_until_it_is_old_and_gets_the_void(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    a.clock.ahead_ms -= 60_000  # our clock is a minute behind the one that dated the entries
    await log.put(1, 3)
    page = asyncio.ensure_future(log.before(3))
    await eventually(lambda: log.node.faulty_log.pages > 8)
    assert not page.done()
    a.clock.elapsed_s += 4  # the reader's own patience counts all the same
    assert await asyncio.wait_for(page, 60) == [2, 1]


async def test_a_place_above_the_head_is_the_newest_page(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 2, 4)
    assert await log.before(100) == [2, 1]
    assert await log.before(5) == [4]
    assert await log.before(1) == []
    assert await log.before(3, limit=1) == [2]


async def test_a_log_that_ran_far_ahead_is_closed_in_turns(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 3_500)
    log.age()
    assert (await log.after(3_490))[-1] == 3_500
    assert len(await log.after(0, limit=5_000)) == 3_500
    assert max(len(groups[0].entries) for groups in a.faulty_log.appends) <= 1_000


async def test_closing_a_range_voids_only_what_is_open_in_it(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 3)
    await log.log.close(direct, 2, 5)
    assert [(one.seq_no, one.kind) for one in await a.log(direct)] == [
        (1, "message"),
        (2, "void"),
        (3, "message"),
        (4, "void"),
        (5, "void"),
    ]
    times = [one.sent_ms for one in await a.log(direct)]
    assert times == sorted(times)
    await log.log.close(direct, 1, 5)
    assert log.voided == 3


async def test_only_the_voids_that_were_written_are_counted(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 4)

    class Late:
        """Somebody fills slot 2 after we have looked."""

        async def append(self, groups: object) -> object:
            await log.put(2)
            return await a.tables.log.append(groups)  # type: ignore[arg-type]

        def __getattr__(self, name: str) -> object:
            return getattr(a.tables.log, name)

    reader = Log(Late(), a.tables.conversations, a.clock, log._count)  # type: ignore[arg-type]
    await reader.close(direct, 1, 4)
    assert log.voided == 1


async def test_holes_of_a_conversation_that_is_gone_are_left_alone(a: FaultyNode, direct: str) -> None:
    log = Written(a, direct)
    await log.put(1, 3)
    log.age()

    class Gone:
        async def append(self, groups: object) -> object:
            return [Refused({}, frozenset(), is_gone=True)]

        def __getattr__(self, name: str) -> object:
            return getattr(a.tables.log, name)

    reader = Log(Gone(), a.tables.conversations, a.clock, log._count)  # type: ignore[arg-type]
    assert [one.seq_no for one in await reader.after(direct, 0, 10)] == [1]
    assert log.voided == 0


async def test_a_writer_who_was_only_slow_loses_the_slot_and_takes_another(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    gate = Gate()
    a.faulty_log.faults.append(gate)
    slow = a.submit("alice", direct, "slow")
    await gate.reached.wait()
    await b.send("bob", direct, "quick")
    page = await b.core.history.page("bob", direct)
    assert page.entries == []  # the slow one may still come
    b.clock.ahead_ms += 3_500
    page = await b.core.history.page("bob", direct)
    assert [one.kind for one in page.entries] == ["message", "void"]
    gate.opened.set()
    answer = await slow
    assert isinstance(answer, Sent) and answer.entry.seq_no == 3
    assert code_of(await a.submit("alice", direct, "slow")) == "duplicate"
    assert await b.unread("bob") == 1 and await b.wrong() == []


@given(st.sets(st.integers(1, 30), min_size=1), st.integers(0, 31), st.integers(1, 10))
def test_first_open_is_the_lowest_number_that_is_missing(seqs: set[int], after: int, limit: int) -> None:
    run = [entry(seq_no, seq_no) for seq_no in sorted(seqs) if seq_no > after][:limit]
    top = run[-1].seq_no if run else after
    missing = [seq_no for seq_no in range(after + 1, top) if seq_no not in seqs]
    assert first_open(run, after) == (missing[0] if missing else None)


async def test_a_clock_that_is_behind_does_not_keep_a_slot_open(a: FaultyNode, group: str) -> None:
    """Entries are dated by the keyspace's clock; ours may be minutes behind it."""
    log = Written(a, group)
    await log.put(1, 3, 5)
    a.clock.ahead_ms -= 300_000
    assert await log.after(0) == [1] and await log.before() == [1]
    a.clock.elapsed_s += GAP_CLOSE_S + 0.1
    assert await log.after(0) == [1, 2, 3]  # the next one is met only now
    a.clock.elapsed_s += GAP_CLOSE_S + 0.1
    assert await log.before() == [5, 4, 3, 2, 1]
    assert log.voided == 2


async def test_whoever_closes_numbers_makes_the_same_times(a: FaultyNode, direct: str) -> None:
    for first, last in ((4, 5), (1, 3)):
        await a.core.log.close(direct, first, last)
    times = [entry.sent_ms for entry in await a.log(direct)]
    assert times == sorted(times) and len(times) == 5


async def test_down_from_a_place_for_as_long_as_entries_are_wanted(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "PAGE_MAX", 2)
    log = Written(a, direct)
    await log.put(2, 3, 4, 5, 6, 7)

    async def down(before: int, lowest: int, most: int = 100) -> tuple[list[int], bool]:
        found, is_end = await log.log.down(log.id, before, lambda entry: entry.seq_no >= lowest, most)
        return [one.seq_no for one in found], is_end

    assert await down(7, 4) == ([6, 5, 4], False)
    assert await down(7, 1) == ([6, 5, 4, 3, 2], True)  # a gap
    assert await down(7, 1, most=3) == ([6, 5, 4, 3], False)
