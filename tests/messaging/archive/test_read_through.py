"""Reading through the cold tier: the same pages, few reads, and never a wrong text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.messaging.archive_node import DAY_MS, Freezer, open_freezer
from tests.support.messaging.faulty_stores import Device
from tidings import bounds
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.model import Content, ContentPatch
from tidings.pushes import MessageNew, Resumed


@pytest.fixture
async def freezer(settings: Settings) -> AsyncIterator[Freezer]:
    async with open_freezer(settings) as freezer:
        yield freezer


@pytest.fixture
async def channel(freezer: Freezer) -> str:
    """1,500 archived messages in two segments, then 40 that are not."""
    id_ = await freezer.create("alice", "bob")
    await freezer.fill(id_, 1_500)
    await freezer.fill(id_, 40, age_days=1)
    await freezer.run()
    freezer.steps.clear()
    return id_


def reads(freezer: Freezer) -> int:
    return sum(what == "get" for what, _ in freezer.steps)


@pytest.mark.parametrize(
    "place", [{"before_seq": 800}, {"after_seq": 100}, {"around_seq": 300}, {"before_seq": 1_511}], ids=str
)
async def test_an_archived_page_is_the_page_it_was(freezer: Freezer, channel: str, place: dict[str, int]) -> None:
    page = await freezer.page("bob", channel, **place, limit=20)
    assert [entry.text for entry in page.entries] == [f"text {entry.seq_no}" for entry in page.entries]
    assert len(page.entries) == 20 and not any(entry.is_unavailable for entry in page.entries)
    await freezer.core.cold.archiving.restore(channel)
    hot = await freezer.page("bob", channel, **place, limit=20)
    assert (hot.next_before_seq, hot.next_after_seq, hot.head) == (
        page.next_before_seq,
        page.next_after_seq,
        page.head,
    )
    assert [entry.text for entry in hot.entries] == [entry.text for entry in page.entries]


async def test_a_page_costs_one_object_and_the_next_one_none(freezer: Freezer, channel: str) -> None:
    await freezer.page("bob", channel, before_seq=900)
    assert reads(freezer) == 1
    for before_seq in range(880, 700, -20):
        await freezer.page("bob", channel, before_seq=before_seq)
    assert reads(freezer) == 1
    assert (freezer.count("reads"), freezer.count("cache_hits")) == (1, 9)


async def test_a_hot_page_reads_no_object(freezer: Freezer, channel: str) -> None:
    await freezer.page("bob", channel)
    assert reads(freezer) == 0


async def test_readers_of_one_segment_share_one_read(freezer: Freezer, channel: str) -> None:
    freezer.blobs.gate = asyncio.Event()
    readers = [asyncio.create_task(freezer.page("bob", channel, before_seq=900 - 20 * n)) for n in range(20)]
    async with asyncio.timeout(60):
        while not reads(freezer):
            await asyncio.sleep(0.01)
    readers[0].cancel()  # one who goes away takes no other with him
    freezer.blobs.gate.set()
    pages: list[Any] = await asyncio.gather(*readers, return_exceptions=True)
    assert isinstance(pages[0], asyncio.CancelledError) and reads(freezer) == 1
    assert all(page.entries[0].text == f"text {899 - 20 * n}" for n, page in enumerate(pages) if n)


async def test_the_cache_is_bounded_and_forgets_what_is_not_used(
    freezer: Freezer, channel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SEGMENT_CACHE_BYTES_MAX", 150_000)  # of two segments with 1,000 and 500 texts, one
    for before_seq in (100, 1_400, 100, 1_400):
        await freezer.page("bob", channel, before_seq=before_seq)
    assert reads(freezer) == 4
    segments = freezer.core.cold.segments
    assert len(segments._kept) == 1 and segments._kept_bytes <= 150_000


# --- damage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["flipped", "cut", "gone", "swapped"])
async def test_a_damaged_segment_is_reported_and_never_served(
    freezer: Freezer, channel: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = map(str, await freezer.refs(channel))
    data = await freezer.stored(channel, first)
    await freezer.damage(
        channel,
        first,
        {
            "flipped": data[:100] + bytes([data[100] ^ 4]) + data[101:],
            "cut": data[:-10],
            "gone": None,
            "swapped": await freezer.stored(channel, second),
        }[kind],
    )
    page = await freezer.page("bob", channel, before_seq=1_011, limit=20)
    assert [entry.text for entry in page.entries] == [f"text {seq}" for seq in range(1_010, 1_000, -1)] + [None] * 10
    assert [entry.is_unavailable for entry in page.entries] == [False] * 10 + [True] * 10
    assert page.next_before_seq == 991  # the cursors go on
    assert freezer.count("missing" if kind == "gone" else "damaged") == 1
    logged = str([vars(record) for record in caplog.records])
    assert first in logged and "text 9" not in logged
    status = await freezer.core.cold.archiving.status()
    assert status.damaged == [f"{channel} {first}"]


async def test_a_damaged_segment_is_not_read_again_for_a_while(freezer: Freezer, channel: str) -> None:
    first = str((await freezer.refs(channel))[0])
    good = await freezer.stored(channel, first)
    await freezer.damage(channel, first, b"nonsense")
    for _ in range(3):
        assert (await freezer.page("bob", channel, before_seq=500)).entries[0].is_unavailable
    assert reads(freezer) == 1 and freezer.count("damaged") == 1
    await freezer.damage(channel, first, good)
    freezer.clock.elapsed_s += bounds.DAMAGED_KNOWN_S + 1
    assert (await freezer.page("bob", channel, before_seq=500)).entries[0].text == "text 499"
    await freezer.run()
    assert (await freezer.core.cold.archiving.status()).damaged == []


async def test_a_segment_that_was_missing_and_is_back_is_read_again_soon(freezer: Freezer, channel: str) -> None:
    first = str((await freezer.refs(channel))[0])
    good = await freezer.stored(channel, first)
    await freezer.damage(channel, first, None)
    assert (await freezer.page("bob", channel, before_seq=500)).entries[0].is_unavailable
    await freezer.damage(channel, first, good)
    freezer.clock.elapsed_s += bounds.MISSING_KNOWN_S + 0.1
    assert (await freezer.page("bob", channel, before_seq=500)).entries[0].text == "text 499"


async def test_a_row_that_moves_while_it_is_read_is_read_again(freezer: Freezer, channel: str) -> None:
    """Between the row and its object the segment was rewritten, and the old object is gone."""
    freezer.blobs.gate = asyncio.Event()
    reader = asyncio.create_task(freezer.page("bob", channel, before_seq=500))
    async with asyncio.timeout(60):
        while not reads(freezer):
            await asyncio.sleep(0.01)
    gate, freezer.blobs.gate = freezer.blobs.gate, None
    await freezer.core.rewrites.delete("alice", channel, 490)
    await freezer.run()
    gate.set()
    page = await reader
    assert [entry.text for entry in page.entries[:2]] == ["text 499", "text 498"]
    assert page.entries[9].seq_no == 490 and page.entries[9].text is None and page.entries[9].is_deleted
    assert not any(entry.is_unavailable for entry in page.entries)
    assert await freezer.rechecks() == []


async def test_blobs_that_do_not_answer_are_a_passing_trouble(freezer: Freezer, channel: str) -> None:
    freezer.blobs.error = Unavailable("blobs: nobody there")
    with pytest.raises(Unavailable):
        await freezer.page("bob", channel, before_seq=500)
    assert len((await freezer.page("bob", channel)).entries) == 20  # what is hot answers
    freezer.blobs.error = None
    assert (await freezer.page("bob", channel, before_seq=500)).entries[0].text == "text 499"
    assert freezer.count("damaged") == freezer.count("missing") == 0


async def test_blobs_that_hang_are_given_up_in_time(
    freezer: Freezer, channel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "COLD_READ_S", 0.05)
    freezer.blobs.gate = asyncio.Event()
    with pytest.raises(Unavailable):
        await freezer.page("bob", channel, before_seq=500)


# --- the other readers --------------------------------------------------------------------------------


async def test_resume_brings_archived_entries(freezer: Freezer) -> None:
    id_ = await freezer.create("alice", "bob")
    expected = await freezer.fill(id_, 60)
    await freezer.run()
    device = Device("bob", "one")
    await freezer.core.resume.catch_up(device, {id_: 10}, None)
    events = [event for event in device.events if isinstance(event, MessageNew)]
    assert [event.entry.text for event in events] == expected[10:]
    (resumed,) = [event for event in device.events if isinstance(event, Resumed)]
    assert resumed.complete and resumed.to_seq == 60


async def test_an_archived_message_can_be_edited_deleted_and_shown_alone(freezer: Freezer, channel: str) -> None:
    assert (await freezer.core.history.entry("bob", channel, 700)).text == "text 700"
    await freezer.core.rewrites.edit("alice", channel, 700, ContentPatch("changed"))
    assert (await freezer.core.history.entry("bob", channel, 700)).text == "changed"
    await freezer.core.rewrites.delete("alice", channel, 701)
    deleted = await freezer.core.history.entry("bob", channel, 701)
    assert deleted.is_deleted and deleted.text is None and not deleted.is_unavailable


async def test_unread_and_inbox_do_not_change_with_archiving(settings: Settings) -> None:
    async with open_freezer(settings, after_days=0) as freezer:
        id_ = await freezer.create("alice", "bob", kind="group")
        for number in range(5):
            await freezer.core.sends.send("alice", id_, f"m{number}", Content(f"hello {number}"))
        before = await freezer.core.inbox.page("bob", limit=20, cursor=None)
        freezer.clock.ahead_ms += DAY_MS
        assert (await freezer.run()).archived.messages == 5
        after = await freezer.core.inbox.page("bob", limit=20, cursor=None)
        assert (after.items[0].row.last_message_preview, after.totals) == ("hello 4", before.totals)
        assert (await freezer.core.verify.run(None, repair=False)).wrong == []
