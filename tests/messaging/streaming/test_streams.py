"""A message that is written piece by piece: two numbers, one unread, every piece at the readers, an end in any case."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.archive_node import open_freezer
from tests.support.messaging.faulty_stores import Device, FaultyNode
from tests.support.messaging.two_nodes import connect, telling
from tests.support.waiting import eventually
from tidings.config.settings import Settings
from tidings.errors import BadRequest, IdConflict, NotFound, Problem, TooLarge
from tidings.messaging.send.draft import Draft
from tidings.messaging.streaming import bounds
from tidings.messaging.streaming.streams import Began
from tidings.messaging.streaming.texts import STREAMS
from tidings.model import Content, ContentPatch
from tidings.pushes import MessageAppended, MessageNew


async def begin(node: FaultyNode, conversation_id: str, message_id: str = "s1", text: str = "") -> Began:
    draft = Draft(
        sender_id="alice", conversation_id=conversation_id, message_id=message_id, content=Content(text), origin="conn"
    )
    return await node.core.streams.begin(draft)


def key(conversation_id: str, message_id: str = "s1") -> tuple[str, str, str]:
    return conversation_id, "alice", message_id


def pieces(device: Device) -> list[tuple[int, str]]:
    return [(one.offset, one.text) for one in device.events if isinstance(one, MessageAppended)]


def later(node: FaultyNode, seconds: float) -> None:
    node.clock.ahead_ms += round(seconds * 1000)
    node.clock.elapsed_s += seconds


async def test_readers_see_every_piece_and_then_the_whole(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    began = await begin(a, group)
    assert (began.sent.entry.seq_no, began.offset) == (1, 0)
    assert a.core.streams.append(key(group), 0, "Hé") == 2
    assert a.core.streams.append(key(group), 2, "llo") == 5
    await eventually(lambda: "".join(text for _, text in pieces(bob)) == "Héllo")
    offset = 0
    for at, text in pieces(bob):
        assert at == offset
        offset += len(text)
    assert (await a.core.history.entry("bob", group, 1)).content == Content("Héllo", state="streaming")
    ended = await a.core.streams.end(key(group), None)
    assert ended.entry.seq_no == 2
    await eventually(lambda: [e.entry.seq_no for e in bob.events if isinstance(e, MessageNew)] == [1, 2])
    row = await a.core.history.entry("bob", group, 1)
    assert (row.content, row.edited_ms) == (Content("Héllo", state="done"), None)
    assert (await a.unread("bob")) == 1
    page = await a.core.inbox.page("bob", limit=5, cursor=None)
    assert page.items[0].row.last_message_preview == "Héllo"
    assert await a.tables.records.due(STREAMS, until_ms=1 << 50, limit=5) == []


async def test_an_end_may_bring_the_whole_text_and_is_answered_again(a: FaultyNode, group: str) -> None:
    await begin(a, group, text="thinking")
    ended = await a.core.streams.end(key(group), "the answer")
    again = await a.core.streams.end(key(group), "the answer")
    assert (again.entry.seq_no, again.is_duplicate) == (ended.entry.seq_no, True)
    assert (await a.core.history.entry("bob", group, 1)).text == "the answer"
    with pytest.raises(NotFound):
        a.core.streams.append(key(group), 0, "late")
    assert (await begin(a, group, text="thinking")).sent.is_duplicate


async def test_a_piece_must_fit(a: FaultyNode, group: str) -> None:
    streams = a.core.streams
    with pytest.raises(NotFound):
        streams.append(key(group), 0, "x")
    await begin(a, group)
    streams.append(key(group), 0, "abc")
    assert streams.append(key(group), 1, "bcd") == 4, "what is there already is passed over"
    with pytest.raises(BadRequest):
        streams.append(key(group), 9, "x")
    with pytest.raises(IdConflict):
        streams.append(key(group), 0, "zzz")
    with pytest.raises(TooLarge):
        streams.append(key(group), 4, "x" * bounds.STREAM_BYTES_MAX)
    with pytest.raises(BadRequest, match="still being written"):
        await a.core.rewrites.edit("alice", group, 1, ContentPatch("other"))


async def test_the_text_is_saved_in_time_and_another_node_goes_on(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await begin(a, group)
    a.core.streams.append(key(group), 0, "one ")
    await a.core.streams._step()
    assert (await b.core.history.entry("bob", group, 1)).text == "", "not due yet"
    later(a, bounds.STREAM_SAVE_S)
    await a.core.streams._step()
    assert (await b.core.history.entry("bob", group, 1)).text == "one "
    began = await begin(b, group)
    assert (began.sent.is_duplicate, began.offset) == (True, 4)
    b.core.streams.append(key(group), 4, "two")
    await b.core.streams.end(key(group), None)
    assert (await b.core.history.entry("bob", group, 1)).content == Content("one two", state="done")
    assert (await a.unread("bob")) == 1


async def test_a_node_looks_at_a_piece_when_it_is_due_and_not_a_look_later(a: FaultyNode, group: str) -> None:
    """So a kill loses STREAM_SAVE_S of pieces at most, the commit included."""
    streams, due_s = a.core.streams, bounds.STREAM_SAVE_S - bounds.STREAM_COMMIT_S
    await begin(a, group)
    assert streams._pause_s() == bounds.STREAM_LOOK_S, "nothing waits"
    streams.append(key(group), 0, "one ")
    later(a, due_s - 0.3)
    assert bounds.STREAM_REST_S <= streams._pause_s() <= 0.3
    later(a, 0.3)
    streams.append(key(group), 4, "two")
    assert streams._pause_s() == bounds.STREAM_REST_S
    await streams._step()
    assert (await a.core.history.entry("bob", group, 1)).text == "one two"
    assert streams._pause_s() == bounds.STREAM_LOOK_S


async def test_a_node_drops_a_stream_that_another_has_taken_up(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await begin(a, group)
    await begin(b, group)
    b.core.streams.append(key(group), 0, "b")
    later(b, bounds.STREAM_SAVE_S)
    await b.core.streams._step()
    a.core.streams.append(key(group), 0, "a")
    later(a, bounds.STREAM_SAVE_S)
    await a.core.streams._step()
    with pytest.raises(NotFound):
        a.core.streams.append(key(group), 1, "a")
    assert (await b.core.history.entry("bob", group, 1)).text == "b"


async def test_a_large_piece_is_saved_at_once(a: FaultyNode, group: str) -> None:
    await begin(a, group)
    a.core.streams.append(key(group), 0, "x" * bounds.STREAM_SAVE_BYTES)
    await a.core.streams._step()
    (record,) = await a.tables.records.due(STREAMS, until_ms=1 << 50, limit=5)
    assert record.version == 2


async def test_a_stream_that_nobody_goes_on_with_is_interrupted_with_its_text(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    bob = await connect(b, "bob")
    async with telling(a, b):
        await begin(a, group)
        a.core.streams.append(key(group), 0, "half of it")
        later(a, bounds.STREAM_SAVE_S)
        await a.core.streams._step()  # then the node is gone
        assert await b.core.streams.interrupt_idle() == 0
        later(b, bounds.STREAM_IDLE_END_S + bounds.STREAM_SAVE_S + 1)
        assert await b.core.streams.interrupt_idle() == 1
        assert await b.core.streams.interrupt_idle() == 0
        await eventually(lambda: [e.entry.seq_no for e in bob.events if isinstance(e, MessageNew)][-1:] == [2])
    row = await b.core.history.entry("bob", group, 1)
    assert row.content == Content("half of it", state="interrupted")
    assert (await b.unread("bob")) == 1


async def test_the_text_of_an_author_who_was_removed_is_kept(a: FaultyNode, group: str) -> None:
    draft = Draft(sender_id="bob", conversation_id=group, message_id="s1", content=Content(""), origin="conn")
    await a.core.streams.begin(draft)
    a.core.streams.append((group, "bob", "s1"), 0, "cut")
    later(a, bounds.STREAM_SAVE_S)
    await a.core.streams._step()
    await a.core.directory.remove("alice", group, "bob")
    later(a, bounds.STREAM_IDLE_END_S + 1)
    await a.core.streams.interrupt_idle()
    assert (await a.core.history.entry("alice", group, 1)).content == Content("cut", state="interrupted")
    assert await a.core.streams.interrupt_idle() == 0


async def test_a_deleted_message_is_written_no_further(a: FaultyNode, group: str) -> None:
    await begin(a, group)
    await a.core.rewrites.delete("alice", group, 1)
    with pytest.raises(NotFound):
        await a.core.streams.end(key(group), "text")
    assert (await a.core.history.entry("alice", group, 1)).is_deleted
    assert await a.tables.records.due(STREAMS, until_ms=1 << 50, limit=5) == []


async def test_an_end_is_answered_by_a_node_that_did_not_store_it(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await begin(a, group)
    a.core.streams.append(key(group), 0, "all of it")
    ended = await a.core.streams.end(key(group), None)
    with pytest.raises(NotFound):
        await b.core.streams.end(key(group), None)
    assert (await begin(b, group)).sent.is_duplicate
    again = await b.core.streams.end(key(group), None)
    assert (again.entry.seq_no, again.is_duplicate) == (ended.entry.seq_no, True)


async def test_an_end_that_was_stored_meanwhile_is_answered(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await begin(a, group)
    await begin(b, group)
    b.core.streams.append(key(group), 0, "all of it")
    await a.core.streams.end(key(group), "all of it")
    assert (await b.core.streams.end(key(group), None)).is_duplicate


async def test_an_interrupted_message_is_not_answered_as_ended(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await begin(a, group)
    later(a, bounds.STREAM_IDLE_END_S + 1)
    assert await a.core.streams.interrupt_idle() == 1
    await begin(b, group)
    with pytest.raises(NotFound):
        await b.core.streams.end(key(group), None)


async def test_an_end_that_an_interruption_overtakes_is_not_answered_as_stored(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    """Both are numbered entries with the id of the end; the author must not take one for the other."""
    await begin(a, group)
    a.core.streams.append(key(group), 0, "all of it")
    record = await a.core.streams._record(key(group))
    assert record is not None
    await b.core.streams._finish(key(group), record, "", "interrupted")
    a.core.streams._record = lambda one: asyncio.sleep(0, record)  # type: ignore[method-assign, assignment]
    with pytest.raises(NotFound, match="interrupted"):
        await a.core.streams.end(key(group), None)
    assert (await a.core.history.entry("bob", group, 1)).content == Content("", state="interrupted")


async def test_a_node_with_a_wrong_clock_interrupts_nobody(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.core.registry.read_clock()
    await b.core.registry.read_clock()
    await begin(a, group)
    b.clock.ahead_ms += 3_600_000
    assert await b.core.streams.interrupt_idle() == 0


async def test_an_author_who_comes_back_goes_on_from_what_the_other_node_saved(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await begin(a, group)
    a.core.streams.append(key(group), 0, "one ")
    await begin(b, group)
    b.core.streams.append(key(group), 0, "one two ")
    later(b, bounds.STREAM_SAVE_S)
    await b.core.streams._step()
    assert (await begin(a, group)).offset == len("one two ")
    a.core.streams.append(key(group), len("one two "), "three")
    later(a, bounds.STREAM_SAVE_S)
    await a.core.streams._step()
    await a.core.streams.end(key(group), None)
    assert (await a.core.history.entry("bob", group, 1)).text == "one two three"


async def test_an_end_without_its_text_is_refused_where_the_pieces_are_not(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await begin(a, group)
    a.core.streams.append(key(group), 0, "pieces that only this node has")
    with pytest.raises(NotFound, match="begin"):
        await b.core.streams.end(key(group), None)
    assert (await b.core.history.entry("bob", group, 1)).content == Content("", state="streaming")


async def test_a_message_that_was_archived_while_it_is_written_ends_with_its_text(settings: Settings) -> None:
    async with open_freezer(settings, after_days=0) as freezer:
        channel, streams = await freezer.create("alice", "bob"), freezer.core.streams
        draft = Draft(sender_id="alice", conversation_id=channel, message_id="s1", content=Content(""))
        await streams.begin(draft)
        await freezer.run()
        assert [row.s3_ref is not None for row in await freezer.rows(channel)] == [True]
        with pytest.raises(BadRequest, match="still being written"):
            await freezer.core.rewrites.edit("alice", channel, 1, ContentPatch("other"))
        streams.append(key(channel), 0, "all of it")
        await streams.end(key(channel), None)
        entry = await freezer.core.history.entry("bob", channel, 1)
        assert (entry.content, entry.edited_ms) == (Content("all of it", state="done"), None)


async def test_a_beginning_that_cannot_be_read_ends_no_message(settings: Settings) -> None:
    async with open_freezer(settings, after_days=0) as freezer:
        channel, streams = await freezer.create("alice", "bob"), freezer.core.streams
        draft = Draft(sender_id="alice", conversation_id=channel, message_id="s1", content=Content(""))
        await streams.begin(draft)
        await freezer.run()
        (row,) = await freezer.rows(channel)
        data = await freezer.stored(channel, row.s3_ref or "")
        await freezer.damage(channel, row.s3_ref or "", None)
        with pytest.raises(Problem) as refused:
            await streams.end(key(channel), "all of it")
        assert refused.value.is_temporary
        await freezer.damage(channel, row.s3_ref or "", data)
        assert len(await freezer.core.tables.records.due(STREAMS, until_ms=1 << 50, limit=5)) == 1


async def test_one_author_leaves_room_for_others(a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "STREAMS_PER_USER_MAX", 2)
    await begin(a, group, "s1")
    await begin(a, group, "s2")
    with pytest.raises(TooLarge):
        await begin(a, group, "s3")
    await a.core.streams.begin(Draft(sender_id="bob", conversation_id=group, message_id="b1", content=Content("")))
    await a.core.streams.end(key(group, "s1"), "done")
    await begin(a, group, "s3")
    with pytest.raises(TooLarge):
        await begin(a, group, "s4")


async def test_a_node_keeps_no_text_of_a_message_that_has_ended(a: FaultyNode, group: str) -> None:
    await begin(a, group)
    first = await a.core.streams.end(key(group), "a long text")
    assert [entry.content for entry in a.core.streams._ended.values()] == [None]
    again = await a.core.streams.end(key(group), "a long text")
    assert (
        again.is_duplicate and again.entry.seq_no == first.entry.seq_no and again.entry.sent_ms == first.entry.sent_ms
    )
