"""Pages of the log: from any point, both ways, from a member's own beginning on, and never over a gap."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.support.messaging.big_inboxes import put_many
from tests.support.messaging.faulty_stores import FaultyNode, down
from tests.support.messaging.two_nodes import connect
from tests.support.waiting import eventually
from tidings.bounds import PAGE_BYTES_MAX
from tidings.errors import BadCursor, BadRequest, NotFound
from tidings.gateway.encode import history_of
from tidings.messaging.reading import history
from tidings.model import Content, ContentPatch, Entry, File, HistoryPage, MemberChange
from tidings.pushes import MessageNew
from tidings.stores.tables.values import Group


def seqs(page: HistoryPage) -> list[int]:
    return [entry.seq_no for entry in page.entries]


def cursors(page: HistoryPage) -> tuple[int | None, int | None]:
    return page.next_before_seq, page.next_after_seq


async def fill(node: FaultyNode, conversation_id: str, count: int, sender_id: str = "alice") -> None:
    for start in range(0, count, 40):
        await asyncio.gather(
            *(node.send(sender_id, conversation_id, f"{sender_id}{i}") for i in range(start, min(start + 40, count)))
        )


# --- the size of a page -----------------------------------------------------------------------------


async def test_a_page_of_large_texts_is_cut_and_its_cursors_go_on(a: FaultyNode, direct: str) -> None:
    text = "\x01" * 10_000  # six times as large in JSON
    for start in range(0, 60, 20):
        await asyncio.gather(*(a.send("alice", direct, f"m{n}", text) for n in range(start, start + 20)))
    found: list[int] = []
    before: int | None = None
    while before is not None or not found:
        page = await a.core.history.page("bob", direct, before_seq=before, limit=100)
        assert 0 < len(page.entries) < 20 and size_of(page) <= PAGE_BYTES_MAX
        found += seqs(page)
        before = page.next_before_seq
    assert found == list(range(60, 0, -1))
    page = await a.core.history.page("bob", direct, after_seq=0, limit=100)
    assert seqs(page)[-1] == 1 and cursors(page) == (None, seqs(page)[0]) and size_of(page) <= PAGE_BYTES_MAX
    page = await a.core.history.page("bob", direct, around_seq=30, limit=100)
    assert 30 in seqs(page) and 29 in seqs(page) and cursors(page) == (seqs(page)[-1], seqs(page)[0])
    assert size_of(page) <= PAGE_BYTES_MAX


async def test_short_texts_are_counted_without_encoding_them(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(a, direct, 100)

    def refuse(one: object) -> bytes:
        raise AssertionError(f"{one} was encoded")

    monkeypatch.setattr(history, "_encode", refuse)
    page = await a.core.history.page("bob", direct, limit=100)
    assert len(page.entries) == 100


_WIDEST: dict[str, Any] = {
    **dict.fromkeys(("message_id", "receiver_id", "s3_ref"), "m" * 200),
    "digest": b"d" * 64,
    **dict.fromkeys(("is_deleted", "is_uncounted", "is_unavailable"), True),
    **dict.fromkeys(("timestamp", "target_seq", "edited_ms", "edit_seq", "rev", "thread_seq"), 1 << 53),
}
_TEXT = Content("\x01" * 100, silent=True, reply_to=1 << 53, ttl_s=1 << 53, mention="here", imported=True, pinned=True)
_MORE: list[dict[str, Any]] = [
    {"data": {"key": ["\x01" * 900]}},
    {"files": (File("f" * 128, "\x01" * 900),)},
    {"mentions": ("b" * 128,) * 50},
    {"reactions": (("\x01" * 8, ("b" * 128,) * 50, ()),)},
    {"conversation": {"name": "\x01" * 100}},
    {"state": "interrupted", "only_sender": True, "thread_seq": 1 << 53, "also_here": True},
]


@pytest.mark.parametrize("more", _MORE, ids=lambda more: next(iter(more)))
def test_no_entry_is_larger_than_it_is_counted(more: dict[str, Any]) -> None:
    content = msgspec.structs.replace(_TEXT, **more)
    widest = Entry("c" * 128, 1 << 53, "conversation", 1 << 53, sender_id="s" * 128, **_WIDEST)
    change = MemberChange("accepted", ("u" * 128,) * 45, "owner")
    for one in (None, _TEXT, content):
        for fields in ({}, {"member": change}, {"mentions": ("u" * 128,) * 50}):
            entry = msgspec.structs.replace(widest, content=one, **fields)
            assert len(msgspec.json.encode(entry)) <= history._bytes_at_most(entry)


def size_of(page: HistoryPage) -> int:
    return len(msgspec.json.encode(history_of(page).messages))


# --- places and cursors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "expected", "before", "after"),
    [
        ({}, range(50, 40, -1), 41, None),
        ({"before_seq": 41}, range(40, 30, -1), 31, 40),
        ({"before_seq": 6}, range(5, 0, -1), None, 5),
        ({"before_seq": 1}, [], None, 0),
        ({"before_seq": 0}, [], None, 0),
        ({"before_seq": 10_000}, range(50, 40, -1), 41, None),
        ({"after_seq": 0}, range(10, 0, -1), None, 10),
        ({"after_seq": 20}, range(30, 20, -1), 21, 30),
        ({"after_seq": 45}, range(50, 45, -1), 46, None),
        ({"after_seq": 50}, [], 51, None),
        ({"after_seq": 99}, [], 51, None),
        ({"around_seq": 20}, range(24, 14, -1), 15, 24),
        ({"around_seq": 2}, range(6, 0, -1), None, 6),
        ({"around_seq": 50}, range(50, 44, -1), 45, None),
        ({"around_seq": 99, "limit": 1}, [], 51, None),
        ({"around_seq": 0}, range(5, 0, -1), None, 5),
    ],
)
async def test_a_page_from_any_place_has_its_cursors(
    a: FaultyNode, direct: str, place: dict[str, int], expected: Any, before: int | None, after: int | None
) -> None:
    await fill(a, direct, 50)
    page = await a.core.history.page("bob", direct, **{"limit": 10, **place})  # type: ignore[arg-type]
    assert seqs(page) == list(expected)
    assert cursors(page) == (before, after)
    assert page.head == 50


async def test_walking_back_and_forth_sees_each_entry_once(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 33)
    page = await a.core.history.page("bob", direct, limit=7)
    back = seqs(page)
    while page.next_before_seq is not None:
        page = await a.core.history.page("bob", direct, limit=7, before_seq=page.next_before_seq)
        back += seqs(page)
    assert back == list(range(33, 0, -1))
    forth = seqs(page)[::-1]
    while page.next_after_seq is not None:
        page = await a.core.history.page("bob", direct, limit=7, after_seq=page.next_after_seq)
        forth += seqs(page)[::-1]
    assert forth == list(range(1, 34))


@pytest.mark.parametrize(("limit", "shown"), [(-1, 1), (0, 1), (1, 1), (100, 100), (5_000, 100)])
async def test_a_limit_is_clamped(a: FaultyNode, limit: int, shown: int) -> None:
    (id_,) = await put_many(a.core.tables, "ann", 1)
    entries = [
        Entry(conversation_id=id_, seq_no=n, kind="message", sent_ms=n, message_id=f"{n}", sender_id="ann")
        for n in range(2, 142)
    ]
    await a.core.tables.log.append([Group(conversation_id=id_, entries=tuple(entries))])
    assert len((await a.core.history.page("ann", id_, limit=limit)).entries) == shown
    for one in (1, 2, 3):
        assert len((await a.core.history.page("ann", id_, limit=one, around_seq=50)).entries) == one


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ({"before_seq": 1, "after_seq": 1}, BadRequest),
        ({"around_seq": 1, "anchor": "first_unread"}, BadRequest),
        ({"anchor": "last_unread"}, BadRequest),
        ({"before_seq": -1}, BadCursor),
        ({"after_seq": 1 << 54}, BadCursor),
        ({"around_seq": -7}, BadCursor),
    ],
)
async def test_a_place_that_is_none_is_refused(
    a: FaultyNode, direct: str, place: dict[str, Any], problem: type[Exception]
) -> None:
    with pytest.raises(problem):
        await a.core.history.page("bob", direct, **place)


async def test_an_empty_conversation_has_an_empty_page(a: FaultyNode, direct: str) -> None:
    for place in ({}, {"before_seq": 5}, {"after_seq": 0}, {"around_seq": 3}, {"anchor": "first_unread"}):
        page = await a.core.history.page("bob", direct, **place)
        assert (page.entries, cursors(page), page.first_unread_seq, page.head) == ([], (None, None), None, 0)


# --- the first unread -------------------------------------------------------------------------------


async def test_the_anchor_is_half_way_between_read_and_unread(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 40)
    await a.core.unread.mark_read("bob", direct, up_to_seq=20)
    page = await a.core.history.page("bob", direct, anchor="first_unread", limit=10)
    assert (seqs(page), page.first_unread_seq) == (list(range(25, 15, -1)), 21)
    assert cursors(page) == (16, 25)


async def test_the_anchor_without_unread_is_the_newest_page(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 12)
    page = await a.core.history.page("alice", direct, anchor="first_unread", limit=5)
    assert (seqs(page), page.first_unread_seq) == ([12, 11, 10, 9, 8], None)


async def test_a_cold_user_gets_the_first_unread_all_the_same(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 5)
    await a.core.unread.mark_read("bob", direct, up_to_seq=2)
    await a.command("DEL", a.core.keys.mark("bob"))
    assert (await a.core.history.page("bob", direct)).first_unread_seq == 3


# --- a member's own beginning -------------------------------------------------------------------------


async def test_a_groups_history_begins_at_joining_and_a_rejoin_moves_it_forward(a: FaultyNode, group: str) -> None:
    await fill(a, group, 5)
    await a.core.directory.add("alice", group, ["dave"])  # 6
    page = await a.core.history.page("dave", group)
    assert (page.entries, cursors(page), page.head) == ([], (None, None), 6)
    await fill(a, group, 3, "bob")  # 7-9
    places: list[dict[str, Any]] = [{}, {"after_seq": 0}, {"around_seq": 1}, {"before_seq": 10}]
    for place in places:
        page = await a.core.history.page("dave", group, **place)
        assert (seqs(page), cursors(page)) == ([9, 8, 7], (None, None))
    await a.core.directory.remove("dave", group, "dave")  # 10
    for place in places[0], {"before_seq": 9}:
        with pytest.raises(NotFound):
            await a.core.history.page("dave", group, **place)
    await a.core.directory.add("alice", group, ["dave"])
    await a.core.directory.accept("dave", group)  # 11
    assert (await a.core.history.page("dave", group)).entries == []
    await fill(a, group, 1, "carol")
    assert seqs(await a.core.history.page("dave", group, after_seq=0)) == [12]
    assert len((await a.core.history.page("bob", group)).entries) == 12


async def test_a_channel_shows_all_of_its_history(a: FaultyNode) -> None:
    view, _ = await a.core.directory.create("alice", kind="channel", members=["bob"])
    id_ = view.head.conversation_id
    await fill(a, id_, 5)
    await a.core.directory.add("alice", id_, ["dave"])
    page = await a.core.history.page("dave", id_)
    assert (seqs(page), page.first_unread_seq) == ([6, 5, 4, 3, 2, 1], None)


async def test_one_entry_is_shown_to_those_who_may_see_it(a: FaultyNode, group: str) -> None:
    await fill(a, group, 3)
    await a.core.directory.add("alice", group, ["dave"])
    assert (await a.core.history.entry("bob", group, 2)).seq_no == 2
    for user_id, seq_no in (("dave", 2), ("eve", 2), ("bob", 9), ("bob", 0)):
        with pytest.raises(NotFound):
            await a.core.history.entry(user_id, group, seq_no)


async def test_one_entry_is_shown_as_a_page_shows_it(a: FaultyNode, group: str) -> None:
    await fill(a, group, 2)
    assert await a.core.history.shown("bob", group, 2) == ((await a.core.history.entry("bob", group, 2)), False, None)
    await a.core.pins.set("bob", group, 1, is_on=True)
    await a.core.reactions.react("bob", group, 1, "+1", is_on=True)
    await a.core.sends.send("bob", group, "r1", Content("a reply", thread_seq=1))
    await a.core.blocks.block("bob", "alice")
    page = await a.core.history.page("bob", group, before_seq=2)
    one = await a.core.history.shown("bob", group, 1)
    beside = page.beside[1]
    assert one == (page.entries[0], True, beside)
    assert beside.is_pinned and beside.reactions["+1"].count == 1 and beside.thread is not None


async def test_a_stranger_and_a_missing_conversation_get_the_same_answer(a: FaultyNode, direct: str) -> None:
    answers = []
    for id_ in (direct, "c-none"):
        with pytest.raises(NotFound) as refusal:
            await a.core.history.page("eve", id_)
        answers.append((refusal.value.code, str(refusal.value)))
    assert answers[0] == answers[1]


# --- gaps -------------------------------------------------------------------------------------


async def test_a_page_ends_below_an_open_slot_and_says_that_there_is_more(a: FaultyNode, direct: str) -> None:
    sent = await a.send("alice", direct, "m1")
    later = Entry(
        conversation_id=direct,
        seq_no=3,
        kind="message",
        sent_ms=sent.entry.sent_ms + 2,
        message_id="m3",
        sender_id="alice",
        content=Content("above the slot"),
    )
    await a.command("HSET", a.core.keys.conv(direct), "seq", 3)  # two numbers were handed out, one was stored
    await a.core.tables.log.append([Group(conversation_id=direct, entries=(later,))])
    places: list[dict[str, Any]] = [{}, {"after_seq": 0}]
    for place in places:
        page = await a.core.history.page("bob", direct, **place)
        assert (seqs(page), page.next_after_seq, page.head) == ([1], 1, 3)
    a.clock.ahead_ms += 10_000
    page = await a.core.history.page("bob", direct)
    assert [(entry.seq_no, entry.kind) for entry in page.entries] == [(3, "message"), (2, "void"), (1, "message")]


# --- one read for many --------------------------------------------------------------------------------


async def test_concurrent_readers_of_one_page_share_their_reads(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 30)
    await a.core.history.page("bob", direct)
    counter = a.core.metrics.rows_read["messages"]
    before = counter.value
    pages = await asyncio.gather(*(a.core.history.page("bob", direct) for _ in range(50)))
    assert all(page == pages[0] for page in pages) and len(pages[0].entries) == 20
    reads = (counter.value - before) / 20
    assert reads <= 5  # the one under way and the next; a few more where the answers do not come in one piece


async def test_a_shared_read_never_misses_what_was_acknowledged_before(a: FaultyNode, direct: str) -> None:
    stop = asyncio.Event()

    async def read() -> None:
        while not stop.is_set():
            await a.core.history.page("bob", direct, limit=5)

    readers = [asyncio.create_task(read()) for _ in range(8)]
    for number in range(1, 60):
        await a.send("alice", direct, f"m{number}")
        page = await a.core.history.page("alice", direct, limit=5)
        assert page.entries[0].seq_no == number
    stop.set()
    await asyncio.gather(*readers)


async def test_a_reader_who_goes_away_takes_no_other_with_him(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 3)
    tasks = [asyncio.create_task(a.core.history.page("bob", direct)) for _ in range(10)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, HistoryPage) for result in results[1::2])
    assert seqs(await a.core.history.page("bob", direct)) == [3, 2, 1]


# --- without the keyspace, and how much it asks ---------------------------------------------------------


async def test_history_answers_while_the_keyspace_is_down(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 5)
    await a.core.unread.mark_read("bob", direct, up_to_seq=2)
    await a.core.receipts.flush()
    expected = await a.core.history.page("bob", direct)
    for name in ("HMGET", "unread_state", "receipts_lowest"):
        a.keyspace.fail(name, down, down)
    page = await a.core.history.page("bob", direct)
    assert (page.entries, page.first_unread_seq, page.head) == (expected.entries, 3, 5)


async def test_a_newest_page_needs_two_keyspace_trips_and_one_table_read(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 30)
    await a.core.history.page("bob", direct)
    a.keyspace.runs.clear()
    heads = a.core.metrics.rows_read["conversation_heads"].value
    page = await a.core.history.page("bob", direct)
    assert len(page.entries) == 20 and page.head == 30
    assert len(a.keyspace.runs) <= 2
    assert a.core.metrics.rows_read["conversation_heads"].value == heads


async def test_a_page_reads_the_head_row_once_where_the_keyspace_knows_nothing(a: FaultyNode, direct: str) -> None:
    await fill(a, direct, 30)
    await a.core.history.page("bob", direct)
    await a.command("DEL", a.core.keys.conv(direct))
    await a.core.history.page("bob", direct)  # which builds the ticks
    heads = a.core.metrics.rows_read["conversation_heads"].value
    page = await a.core.history.page("bob", direct, before_seq=11, limit=10)
    assert (seqs(page)[0], page.next_after_seq, page.head) == (10, 10, 30)
    assert a.core.metrics.rows_read["conversation_heads"].value == heads + 1


async def test_pages_of_a_conversation_in_use_read_its_head_once_for_each_post(a: FaultyNode, direct: str) -> None:
    await a.core.history.page("alice", direct)  # the member list is in memory now, with the head of this moment
    await fill(a, direct, 6)
    heads = a.core.metrics.rows_read["conversation_heads"]
    for before_seq, reads in ((4, 1), (3, 0), (2, 0)):
        read_before = heads.value
        page = await a.core.history.page("alice", direct, before_seq=before_seq, limit=1)
        assert (page.head, heads.value - read_before) == (6, reads)
    await fill(a, direct, 1, "bob")
    assert (await a.core.history.page("alice", direct, before_seq=3, limit=1)).head == 7


async def test_what_is_sent_between_the_head_and_the_entries_is_in_both(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(a, direct, 5)
    await a.core.history.page("bob", direct)
    await a.command("DEL", a.core.keys.conv(direct))
    after = a.core.log.after

    async def sent_meanwhile(*args: Any) -> list[Entry]:
        monkeypatch.setattr(a.core.log, "after", after)
        await fill(a, direct, 5, "bob")
        return await after(*args)

    monkeypatch.setattr(a.core.log, "after", sent_meanwhile)
    page = await a.core.history.page("bob", direct, after_seq=5, limit=2)
    assert (seqs(page), page.next_after_seq, page.head) == ([7, 6], 7, 10)


async def test_who_is_removed_while_the_page_is_read_is_not_shown_it(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = a.core.log.before

    async def removed_meanwhile(*args: Any) -> list[Entry]:
        monkeypatch.setattr(a.core.log, "before", before)
        await a.core.directory.remove("alice", group, "bob")
        await a.send("alice", group, "secret")
        return await before(*args)

    monkeypatch.setattr(a.core.log, "before", removed_meanwhile)
    with pytest.raises(NotFound):
        await a.core.history.page("bob", group)


async def test_an_edit_of_a_message_from_before_one_joined_has_no_text(a: FaultyNode, group: str) -> None:
    """Live, in a page, alone and in a resume; the others see it."""
    await a.send("alice", group, "m1", "before dave")
    dave, bob = await connect(a, "dave"), await connect(a, "bob")
    await a.core.directory.add("alice", group, ["dave"])
    await a.send("alice", group, "m2", "after dave")
    for seq_no in (1, 3):
        await a.core.rewrites.edit("alice", group, seq_no, ContentPatch("typo fixed"), f"e{seq_no}")
    await eventually(lambda: dave.seqs()[-1:] == [5])
    texts = {event.entry.seq_no: event.entry.text for event in dave.events if isinstance(event, MessageNew)}
    assert (texts[4], texts[5]) == (None, "typo fixed")
    page = await a.core.history.page("dave", group, after_seq=3)
    assert [(entry.seq_no, entry.text) for entry in page.entries] == [(5, "typo fixed"), (4, None)]
    assert (await a.core.history.entry("dave", group, 4)).text is None
    again = await connect(a, "dave", "again")
    await a.core.resume.catch_up(again, {group: 3}, None)
    assert [event.entry.text for event in again.events if isinstance(event, MessageNew)] == [None, "typo fixed"]
    assert [event.entry.text for event in bob.events if isinstance(event, MessageNew)][-2:] == ["typo fixed"] * 2
