from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.devices.scripted_server import (
    Conversation,
    Frame,
    ScriptedServer,
    connected,
    entry,
    message_new,
    page,
)
from tests.support.waiting import eventually
from tidings.bounds import RESUME_ENTRIES_MAX
from tidings.testing import TestServer
from tidings_client import Client, InboxPage
from tidings_client.bounds import RESUME_CONVERSATIONS_MAX
from tidings_client.connection import session as session_module
from tidings_client.reading import reading as module
from tidings_client.reading.reading import Track, Tracks
from tidings_client.reading.streams import Stream
from tidings_client.values import Connected, MessageNew


async def told(stream: Stream[MessageNew], count: int) -> list[int]:
    async with asyncio.timeout(60):
        return [(await anext(stream)).message.seq for _ in range(count)]


async def asked_history(peer: Conversation) -> Frame:
    """The next request for history; receipts on the way are answered."""
    while True:
        frame = await asyncio.wait_for(peer._frames.get(), 60)
        if frame["type"] == "history":
            return frame
        assert frame["type"] == "message.delivered", frame
        peer.say(id=frame["id"], type="ok")


def row(conversation_id: str, last_seq: int, last_message_ts: int = 2_000) -> Frame:
    """An inbox row."""
    names = {"kind": "group", "name": None, "avatar_url": None, "last_message_preview": None}
    counts = {"unread_count": 2, "unread_capped": False, "read_seq": 0, "first_unread_seq": None}
    flags = {"muted": False, "pinned": False, "archived": False}
    places = {"conversation_id": conversation_id, "last_seq": last_seq, "last_message_ts": last_message_ts}
    return {**places, **names, **counts, **flags}


async def test_a_gap_is_read_from_the_history_and_told_in_order(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        events = client.events(MessageNew)
        peer.say(**message_new(1))
        peer.say(**message_new(4))
        asked = await asked_history(peer)
        assert asked["after_seq"] == 1
        peer.say(id=asked["id"], **page(entry(2), entry(3), entry(4), head=4))
        assert await told(events, 4) == [1, 2, 3, 4]


async def test_an_entry_that_comes_in_time_needs_no_history(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        events = client.events(MessageNew)
        for seq in (1, 3, 2, 2, 4):
            peer.say(**message_new(seq))
        assert await told(events, 4) == [1, 2, 3, 4]
        assert (await peer.heard("message.delivered"))["acks"] == {"c1": 4}


async def test_an_undecided_number_is_waited_for(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        events = client.events(MessageNew)
        peer.say(**message_new(1))
        peer.say(**message_new(3))
        asked = await asked_history(peer)
        peer.say(id=asked["id"], **page(head=3))
        asked = await asked_history(peer)
        assert asked["after_seq"] == 1
        peer.say(id=asked["id"], **page({**entry(2), "kind": "void"}, entry(3), head=3))
        assert await told(events, 3) == [1, 2, 3]


async def test_the_rest_of_a_long_resume_is_read_from_the_history(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    events = bob.events(MessageNew)
    await alice.send(conversation_id, "the first")
    assert await told(events, 1) == [1]
    seqs = bob.seqs()
    await bob.close()
    count = RESUME_ENTRIES_MAX + 150
    await asyncio.gather(*(alice.send(conversation_id, f"{n}") for n in range(count)))
    again = Client(server.url, server.token("bob"), resume=seqs)
    events = again.events(MessageNew)
    async with again:
        assert await told(events, count) == list(range(2, count + 2))


async def test_a_reset_begins_the_conversation_anew(scripted: ScriptedServer) -> None:
    async with connected(scripted, resume={"c1": 90}) as (client, peer):
        events = client.events(MessageNew)
        peer.say(**message_new(1))
        resumed = {"from_seq": 1, "to_seq": 1, "complete": True, "reset": True, "read_seq": 0, "unread_count": 1}
        peer.say(type="resumed", conversation_id="c1", delivered_all_seq=0, read_all_seq=0, **resumed)
        asked = await asked_history(peer)
        assert asked["after_seq"] == 0
        peer.say(id=asked["id"], **page(entry(1), head=1))
        assert await told(events, 1) == [1]
        assert client.seqs() == {"c1": 1}


async def test_a_conversation_that_began_while_away_is_told_from_its_first_entry(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        events = client.events(MessageNew)
        peer.close(4004)
        peer = await scripted.next()
        connect = await peer.welcome()
        assert connect["since"] == 1_000 and connect["resume"] == {}
        peer.say(type="conversation.updated", **row("c9", last_seq=3))
        peer.say(**message_new(4, "c9"))
        asked = await asked_history(peer)
        peer.say(id=asked["id"], **page(entry(1, sent_at=900), entry(2), entry(3), entry(4), head=4))
        asked = await asked_history(peer)
        assert asked["after_seq"] == 1, "what was there before the first hello is not new"
        peer.say(id=asked["id"], **page(entry(2), entry(3), entry(4), head=4))
        assert await told(events, 3) == [2, 3, 4]


async def test_what_a_member_may_not_see_is_stepped_over(scripted: ScriptedServer) -> None:
    async with connected(scripted, resume={"c1": 5}) as (client, peer):
        events = client.events(MessageNew)
        resumed = {"from_seq": 21, "to_seq": 21, "complete": True, "reset": False, "read_seq": 20, "unread_count": 1}
        peer.say(**message_new(21))
        peer.say(type="resumed", conversation_id="c1", delivered_all_seq=0, read_all_seq=0, **resumed)
        assert await told(events, 1) == [21]


async def test_another_store_makes_the_client_forget(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        events = client.events(MessageNew, Connected)
        peer.say(**message_new(7))
        assert isinstance(await anext(events), MessageNew)
        peer.close(4004)
        peer = await scripted.next()
        assert (await peer.welcome(store_epoch="another"))["resume"] == {"c1": 7}
        event = await asyncio.wait_for(anext(events), 60)
        assert isinstance(event, Connected) and event.is_new_store and client.seqs() == {}


async def test_a_conversation_that_was_left_is_forgotten(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    group = (await alice.create("group", ["bob"], name="trip")).conversation_id
    events = bob.events()
    await alice.send(group, "hello")
    async with asyncio.timeout(60):
        while group not in bob.seqs():
            await anext(events)
        await alice.remove(group, "bob")
        while group in bob.seqs():
            await anext(events)


async def test_a_page_that_comes_with_the_news_of_having_left_is_not_told(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        events = client.events(MessageNew)
        peer.say(**message_new(1))
        peer.say(**message_new(4))
        asked = await asked_history(peer)
        mending = client._device.reading._tasks["c1"]
        peer.say(id=asked["id"], **page(entry(2), entry(3), entry(4), head=4))
        peer.say(type="conversation.removed", conversation_id="c1")
        await asyncio.wait_for(mending, 60)
        assert len(events) == 1 and client.seqs() == {}


async def test_a_page_of_before_a_conversation_was_left_is_not_told_after_it_was_joined_again(
    scripted: ScriptedServer,
) -> None:
    async with connected(scripted) as (client, peer):
        events = client.events(MessageNew)
        peer.say(**message_new(1))
        peer.say(**message_new(4))
        asked = await asked_history(peer)
        mending = client._device.reading._tasks["c1"]
        peer.say(type="conversation.removed", conversation_id="c1")
        peer.say(**message_new(9))
        peer.say(id=asked["id"], **page(entry(2), entry(3), entry(4), head=4))
        await asyncio.wait_for(mending, 60)
        peer.say(**message_new(10))
        assert await told(events, 3) == [1, 9, 10]


async def test_ones_own_send_takes_its_place_among_the_others(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    streams = {client: client.messages(conversation_id, own=True) for client in (alice, bob)}
    await asyncio.gather(*(who.send(conversation_id, f"{n}") for n in range(50) for who in (alice, bob)))
    for stream in streams.values():
        async with asyncio.timeout(60):
            assert [(await anext(stream)).seq for _ in range(100)] == list(range(1, 101))


async def test_a_walk_through_the_inbox_goes_as_far_back_as_when_it_began(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(scripted) as (client, _):
        reading, asked = client._device.reading, []

        async def inbox(cursor: str | None) -> InboxPage:
            asked.append(cursor)
            reading._since_ms = 15_000  # it reconnects meanwhile
            row: Any = SimpleNamespace(conversation_id="c1", last_seq=0, last_message_ts=500 if cursor else 2_000)
            return InboxPage([row], "more", 0, 0, False)

        monkeypatch.setattr(reading, "_inbox", inbox)
        reading._since_ms, reading._is_to_walk = 1_000, True
        await reading._walk_inbox()
        assert asked == [None, "more"]


async def test_with_more_changes_than_are_announced_the_inbox_is_read(scripted: ScriptedServer) -> None:
    known = {f"c{n}": 1 for n in range(RESUME_CONVERSATIONS_MAX + 1)}
    async with connected(scripted, resume=known, since=1_500) as (client, peer):
        events = client.events(MessageNew)
        for n in range(RESUME_CONVERSATIONS_MAX):
            peer.say(type="conversation.updated", **row(f"c{n}", last_seq=1))
        asked = await peer.heard("inbox")
        last = f"c{RESUME_CONVERSATIONS_MAX}"
        rows = [row(last, last_seq=2), row("older", last_seq=9, last_message_ts=1_400)]
        totals = {"total_unread": 1, "unread_conversations": 1, "stale": False}
        peer.say(id=asked["id"], type="ok", conversations=rows, next_cursor="more", **totals)
        asked = await asked_history(peer)
        while asked["conversation_id"] != last:  # `older` is looked at too, and is not new
            peer.say(id=asked["id"], **page(entry(9, sent_at=1_400), head=9))
            asked = await asked_history(peer)
        peer.say(id=asked["id"], **page(entry(2), head=2))
        assert await told(events, 1) == [2]


async def test_an_inbox_that_is_refused_for_long_is_read_all_the_same(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESUME_CONVERSATIONS_MAX", 1)
    monkeypatch.setattr(module, "GAP_AGAIN_S", 0.01)
    monkeypatch.setattr(session_module, "TRIES_MAX", 2)
    async with connected(scripted, resume={"c1": 1, "c2": 1}, since=1_500) as (client, peer):
        events = client.events(MessageNew)
        peer.say(type="conversation.updated", **row("c1", last_seq=1))
        for _ in range(3):
            asked = await peer.heard("inbox")
            refusal = {"code": "unavailable", "temporary": True, "retry_after_ms": None, "message": ""}
            peer.say(id=asked["id"], type="error", **refusal)
        asked = await peer.heard("inbox")
        totals = {"total_unread": 1, "unread_conversations": 1, "stale": False}
        peer.say(id=asked["id"], type="ok", conversations=[row("c2", last_seq=2)], next_cursor=None, **totals)
        asked = await asked_history(peer)
        peer.say(id=asked["id"], **page(entry(2), head=2))
        assert await told(events, 1) == [2]


async def test_an_inbox_that_is_refused_for_good_is_logged(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RESUME_CONVERSATIONS_MAX", 1)
    async with connected(scripted, resume={"c1": 1}, since=1_500) as (_, peer):
        peer.say(type="conversation.updated", **row("c1", last_seq=1))
        asked = await peer.heard("inbox")
        refusal = {"code": "bad_request", "temporary": False, "retry_after_ms": None, "message": "no such cursor"}
        peer.say(id=asked["id"], type="error", **refusal)
        await eventually(lambda: "no such cursor" in caplog.text)


def event(seq: int) -> MessageNew:
    return msgspec.convert(message_new(seq), MessageNew)


def seqs(events: list[MessageNew]) -> list[int]:
    return [event.message.seq for event in events]


def test_the_next_entry_is_told_and_a_known_one_is_not() -> None:
    track = Track(0)
    assert seqs(track.take(event(1))) == [1]
    assert seqs(track.take(event(1))) == []
    assert track.last == 1 and not track.has_gap


def test_an_early_entry_waits_for_its_predecessors() -> None:
    track = Track(0)
    assert seqs(track.take(event(3))) == []
    assert seqs(track.take(event(2))) == []
    assert track.has_gap
    assert seqs(track.take(event(1))) == [1, 2, 3]
    assert not track.has_gap


def test_a_track_without_a_beginning_tells_nothing_until_it_has_one() -> None:
    track = Track(None)
    assert seqs(track.take(event(7))) == []
    assert seqs(track.begin(6)) == [7]
    assert seqs(track.begin(10)) == [] and track.last == 10


@given(st.permutations(range(1, 9)), st.lists(st.integers(1, 8)))
def test_whatever_the_order_and_the_repeats_each_is_told_once_in_order(order: list[int], repeats: list[int]) -> None:
    track, told = Track(0), []
    for seq in [*repeats, *order, *repeats]:
        told += seqs(track.take(event(seq)))
    assert told == list(range(1, 9))


def test_a_resume_names_the_liveliest_and_no_more_than_may_be_named() -> None:
    tracks = Tracks({f"c{n}": n for n in range(RESUME_CONVERSATIONS_MAX + 10)})
    tracks.touch("c0")
    named = tracks.resume()
    assert len(named) == RESUME_CONVERSATIONS_MAX and named["c0"] == 0 and "c1" not in named
    tracks.start("new", None)
    assert "new" not in tracks.resume() and tracks.unlocated() == ["new"]
    tracks.forget("new")
    tracks.clear()
    assert tracks.seqs() == {} and tracks.get("c0") is None


async def test_a_kind_a_field_and_an_event_of_the_future_change_nothing_but_the_seq(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        events, messages = client.events(MessageNew), client.messages("c1")
        peer.say(**message_new(1))
        future = message_new(2)
        future["message"] |= {"kind": "hologram", "target_seq": 1, "text": "other", "beam": {"of_light": 1}}
        peer.say(**future)
        peer.say(type="weather", conversation_id="c1", sky="clear")
        later = message_new(3)
        later["message"] |= {"mood": "curious", "reactions_of_tomorrow": [1]}
        peer.say(**later)
        assert await told(events, 3) == [1, 2, 3]
        assert [(await anext(messages)).seq, (await anext(messages)).seq] == [1, 3]
        assert client.seqs() == {"c1": 3}
