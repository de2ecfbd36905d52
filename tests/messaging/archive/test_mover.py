"""Texts move to segments in the order that loses nothing: noted, written, read back, and only then let go."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.archive_node import DAY_MS, Freezer, open_freezer
from tests.support.messaging.faulty_stores import Device
from tidings import bounds
from tidings.config.settings import Settings
from tidings.errors import Conflict, IdConflict, NotFound, Unavailable
from tidings.messaging.archive.mover import Term
from tidings.model import Content, ContentPatch, Entry
from tidings.stores.tables.values import Group


@pytest.fixture
async def freezer(settings: Settings) -> AsyncIterator[Freezer]:
    async with open_freezer(settings) as freezer:
        yield freezer


@pytest.fixture
async def channel(freezer: Freezer) -> str:
    return await freezer.create("alice", "bob")


async def test_what_is_old_moves_and_reads_the_same(freezer: Freezer, channel: str) -> None:
    expected = await freezer.fill(channel, 120)
    expected += await freezer.fill(channel, 30, age_days=10)
    done = await freezer.run()
    assert (done.archived.messages, done.archived.segments) == (120, 1)
    rows = await freezer.rows(channel)
    assert [row.text for row in rows] == [None] * 120 + expected[120:]
    assert all(row.s3_ref is not None and row.rev == 0 for row in rows[:120])
    assert await freezer.texts("bob", channel, limit=20) == expected


async def test_nothing_leaves_a_row_before_it_was_read_back(freezer: Freezer, channel: str) -> None:
    await freezer.fill(channel, 50)
    await freezer.run()
    (ref,) = map(str, await freezer.refs(channel))
    assert freezer.steps == [("put", ref), ("get", ref), ("move", ref)]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("spoil", [flipped, lambda data: data[:60], lambda data: b""], ids=["flipped", "cut", "empty"])
async def test_what_is_not_read_back_as_it_was_written_stays_in_its_row(
    freezer: Freezer, channel: str, spoil: object
) -> None:
    expected = await freezer.fill(channel, 50)
    freezer.blobs.spoil = spoil
    done = await freezer.run()
    assert (done.archived.messages, done.archived.failed) == (0, 1)
    assert [row.text for row in await freezer.rows(channel)] == expected
    assert await freezer.objects() == []  # the bad object is gone already: nothing refers to it
    freezer.blobs.spoil = None
    assert (await freezer.run()).archived.messages == 50
    assert await freezer.texts("bob", channel) == expected


async def test_one_conversation_that_fails_keeps_no_other_from_its_turn(freezer: Freezer) -> None:
    ids = [await freezer.create("alice", "bob") for _ in range(3)]
    for id_ in ids:
        await freezer.fill(id_, 20)
    spoiled = iter([flipped])
    freezer.blobs.spoil = lambda data: next(spoiled, lambda same: same)(data)
    done = await freezer.run()
    assert (done.archived.messages, done.archived.failed) == (40, 1)
    assert freezer.count("failed") == 1


async def test_blobs_that_do_not_answer_leave_everything_as_it_is(freezer: Freezer, channel: str) -> None:
    expected = await freezer.fill(channel, 50)
    freezer.blobs.error = Unavailable("blobs: nobody there")
    with pytest.raises(Unavailable):
        await freezer.run()
    assert [row.text for row in await freezer.rows(channel)] == expected
    freezer.blobs.error = None
    assert (await freezer.run()).archived.messages == 50


async def test_a_second_run_finds_nothing_to_do(freezer: Freezer, channel: str) -> None:
    await freezer.fill(channel, 250)
    await freezer.run()
    steps = len(freezer.steps)
    rows = await freezer.rows(channel)
    done = await freezer.run()
    assert (done.archived.messages, done.archived.conversations) == (0, 0)
    assert (len(freezer.steps), await freezer.rows(channel)) == (steps, rows)


async def test_segments_are_bounded_in_entries_and_in_bytes(freezer: Freezer, channel: str) -> None:
    long = await freezer.create("alice", "bob")
    expected = await freezer.fill(channel, 2_300)
    longer = await freezer.fill(long, 100, text="{:016000}")
    done = await freezer.run()
    assert done.archived.messages == 2_400
    refs = await freezer.refs(channel)
    assert [(ref.first, ref.last) for ref in refs] == [(1, 1000), (1001, 2000), (2001, 2300)]
    assert all(16_000 * (ref.last - ref.first + 1) <= bounds.SEGMENT_BYTES_MAX for ref in await freezer.refs(long))
    assert await freezer.texts("bob", channel) == expected
    assert await freezer.texts("bob", long) == longer


async def test_what_has_no_text_stays_and_is_passed_over(freezer: Freezer) -> None:
    group = await freezer.create("alice", "bob", kind="group")
    await freezer.core.sends.send("alice", group, "m1", Content("first"))
    await freezer.core.directory.add("alice", group, ["carol"])
    await freezer.core.sends.send("alice", group, "m2", Content("second"))
    await freezer.core.rewrites.delete("alice", group, 3)
    freezer.clock.ahead_ms += 40 * DAY_MS
    assert (await freezer.run()).archived.messages == 1
    assert await freezer.texts("bob", group) == ["first", None, None, None]
    rows = await freezer.rows(group)
    assert [row.kind for row in rows] == ["message", "member", "message", "delete"] and rows[1].member is not None


async def test_at_once_means_the_newest_too(settings: Settings) -> None:
    async with open_freezer(settings, after_days=0) as freezer:
        id_ = await freezer.create("alice", "bob")
        await freezer.core.sends.send("alice", id_, "m1", Content("just now"))
        freezer.clock.ahead_ms += 1_000
        assert (await freezer.run(is_patient=True)).archived.messages == 1
        assert await freezer.texts("bob", id_) == ["just now"]


async def test_a_resend_of_an_archived_message_waits_for_no_blobs_and_changes_nothing(settings: Settings) -> None:
    async with open_freezer(settings, after_days=0) as freezer:
        id_ = await freezer.create("alice", "bob", kind="group")
        first = await freezer.core.sends.send("alice", id_, "m1", Content("just now"))
        freezer.clock.ahead_ms += 1_000
        await freezer.run()
        before = await freezer.core.inbox.page("bob", limit=20, cursor=None)
        device = Device("bob", "one")
        freezer.core.hub.attach(device)
        freezer.blobs.error = Unavailable("blobs: nobody there")
        again = await freezer.core.sends.send("alice", id_, "m1", Content("just now"))
        assert again.is_duplicate and again.entry.seq_no == first.entry.seq_no
        with pytest.raises(IdConflict):
            await freezer.core.sends.send("alice", id_, "m1", Content("another text"))
        assert device.events == []  # nothing without its text is shown
        await freezer.core.rows.flush()
        after = await freezer.core.inbox.page("bob", limit=20, cursor=None)
        assert after.items[0].row.last_message_preview == "just now"
        assert after.totals == before.totals


async def test_off_means_never(settings: Settings) -> None:
    async with open_freezer(settings, after_days=None) as freezer:
        id_ = await freezer.create("alice", "bob")
        await freezer.fill(id_, 50)
        assert (await freezer.run()).archived.messages == 0 and await freezer.objects() == []


async def test_few_texts_wait_for_company_but_not_for_ever(freezer: Freezer, channel: str) -> None:
    patience_days = bounds.ARCHIVE_PATIENCE_S / 86_400
    await freezer.fill(channel, 20, age_days=31)
    assert (await freezer.run(is_patient=True)).archived.messages == 0
    await freezer.fill(channel, 20, age_days=30.5)
    assert (await freezer.run(is_patient=True)).archived.messages == 0
    freezer.clock.ahead_ms += int(patience_days * DAY_MS)
    assert (await freezer.run(is_patient=True)).archived.messages == 40
    assert len(await freezer.refs(channel)) == 1


async def test_who_asks_for_it_does_not_wait(freezer: Freezer, channel: str) -> None:
    await freezer.fill(channel, 20, age_days=31)
    await freezer.run(is_patient=True)
    assert (await freezer.run()).archived.messages == 20


async def test_an_open_slot_is_not_stepped_over(settings: Settings) -> None:
    async with open_freezer(settings, after_days=0) as freezer:
        id_ = await freezer.create("alice", "bob")
        now_ms = freezer.clock.now_ms()
        for seq_no in (1, 2, 4):
            entry = Entry(
                conversation_id=id_,
                seq_no=seq_no,
                kind="message",
                sent_ms=now_ms - 10 + seq_no,
                message_id=f"m{seq_no}",
                sender_id="alice",
                content=Content("x"),
            )
            await freezer.core.tables.log.append([Group(conversation_id=id_, entries=(entry,))])
        assert (await freezer.run()).archived.messages == 2
        freezer.clock.ahead_ms += 10_000
        assert (await freezer.run()).archived.messages == 1
        assert [row.kind for row in await freezer.rows(id_)] == ["message", "message", "void", "message"]


async def test_a_message_edited_while_its_segment_is_written_keeps_the_new_text(freezer: Freezer, channel: str) -> None:
    expected = await freezer.fill(channel, 20)

    async def edit() -> None:
        freezer.archive.before_move = None
        await freezer.core.rewrites.edit("alice", channel, 7, ContentPatch("changed"))

    freezer.archive.before_move = edit
    done = await freezer.run()
    expected[6] = "changed"
    assert await freezer.texts("bob", channel) == [*expected, "changed"]
    assert done.rechecked.rewritten == 1  # the segment that took the old text with it
    assert b'"text 6"' in await freezer.content() and b'"text 7"' not in await freezer.content()
    assert await freezer.rechecks() == []


async def test_a_later_archiver_ends_an_earlier_one_before_it_changes_a_row(freezer: Freezer, channel: str) -> None:
    expected = await freezer.fill(channel, 20)

    async def overtake() -> None:
        freezer.archive.before_move = None
        await freezer.archive.take_fence()

    freezer.archive.before_move = overtake
    with pytest.raises(Conflict):
        await freezer.run()
    assert [row.text for row in await freezer.rows(channel)] == expected
    assert (await freezer.run()).archived.messages == 20
    assert len(await freezer.objects()) == 1


async def test_a_term_that_is_over_takes_no_fence(freezer: Freezer) -> None:
    before = await freezer.archive.take_fence()
    with pytest.raises(Conflict):
        await Term(freezer.archive, lambda: False).fence()
    assert await freezer.archive.take_fence() == before + 1


async def test_a_run_with_nothing_to_do_changes_nothing(freezer: Freezer, channel: str) -> None:
    await freezer.fill(channel, 5, age_days=1)
    before = await freezer.archive.take_fence()
    await freezer.run()
    assert (freezer.steps, await freezer.archive.take_fence()) == ([], before + 1)


async def test_one_conversation_alone_from_its_beginning(freezer: Freezer, channel: str) -> None:
    other = await freezer.create("alice", "bob")
    for id_ in (channel, other):
        await freezer.fill(id_, 10)
    done = await freezer.run(conversation_id=channel)
    assert done.archived.messages == 10 and await freezer.refs(other) == []


async def test_a_stranger_reads_nothing_that_is_archived(freezer: Freezer, channel: str) -> None:
    group = await freezer.create("alice", "bob", kind="group")
    for id_ in (channel, group):
        await freezer.fill(id_, 20)
    await freezer.run()
    freezer.steps.clear()
    for id_ in (channel, group):
        with pytest.raises(NotFound):
            await freezer.page("eve", id_)
    assert freezer.steps == []
    await freezer.core.directory.add("alice", group, ["dave"])
    assert (await freezer.page("dave", group)).entries == []  # who joined later sees nothing from before
    with pytest.raises(NotFound):
        await freezer.core.history.entry("dave", group, 3)


async def test_everything_is_counted(freezer: Freezer, channel: str) -> None:
    await freezer.fill(channel, 1_200)
    done = await freezer.run()
    assert (freezer.count("messages"), freezer.count("segments")) == (1_200, 2)
    assert freezer.count("bytes") == done.archived.bytes > 0
