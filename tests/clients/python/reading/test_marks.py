from __future__ import annotations

import asyncio

import pytest

from tests.support.devices.scripted_server import Frame, ScriptedServer, connected, message_new
from tests.support.waiting import eventually
from tidings.testing import TestServer
from tidings_client.errors import BadRequest
from tidings_client.forms import Delivered
from tidings_client.values import Nothing, Receipt


def state(asked: Frame, read_seq: int) -> Frame:
    counts = {"unread_count": 0, "unread_capped": False, "first_unread_seq": None, "total_unread": 0}
    return {"id": asked["id"], "type": "ok", "conversation_id": "c1", "read_seq": read_seq, **counts}


async def test_a_burst_is_acknowledged_in_one_frame_which_is_said_again_when_lost(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (_, peer):
        for seq in range(1, 6):
            peer.say(**message_new(seq))
        peer.say(**message_new(1, "c2"))
        assert (await peer.heard("message.delivered"))["acks"] == {"c1": 5, "c2": 1}
        peer.close(4004)
        peer = await scripted.next()
        await peer.welcome()
        asked = await peer.heard("message.delivered")
        assert asked["acks"] == {"c1": 5, "c2": 1}
        peer.say(id=asked["id"], type="ok")


async def test_newer_receipts_do_not_wait_for_an_answer_and_those_without_one_are_said_again(
    scripted: ScriptedServer,
) -> None:
    async with connected(scripted) as (_, peer):
        peer.say(**message_new(1, "c1"))
        first = await peer.heard("message.delivered")
        peer.say(**message_new(1, "c2"))
        second = await peer.heard("message.delivered")
        assert (first["acks"], second["acks"]) == ({"c1": 1}, {"c2": 1})
        peer.say(id=first["id"], type="ok")
        peer.close(4004)
        peer = await scripted.next()
        await peer.welcome()
        assert (await peer.heard("message.delivered"))["acks"] == {"c2": 1}


async def test_a_receipt_that_is_refused_for_now_is_said_again(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (_, peer):
        peer.say(**message_new(1))
        asked = await peer.heard("message.delivered")
        peer.say(id=asked["id"], type="error", code="unavailable", temporary=True, message="later")
        assert (await peer.heard("message.delivered"))["acks"] == {"c1": 1}


async def test_reads_that_wait_are_folded_into_one(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        reads = [asyncio.create_task(client.mark_read("c1", seq)) for seq in (1, 2, 5, 3)]
        first = await peer.heard("message.read")
        peer.say(**state(first, first["up_to_seq"]))
        seen = [first["up_to_seq"]]
        while seen[-1] < 5:
            asked = await peer.heard("message.read")
            seen.append(asked["up_to_seq"])
            peer.say(**state(asked, asked["up_to_seq"]))
        assert len(seen) <= 2
        assert max(state.read_seq for state in await asyncio.gather(*reads)) == 5


async def test_a_mark_that_is_refused_does_not_spoil_the_next(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        with pytest.raises(BadRequest):
            await client.mark_read("c1", 2**60)
        read = asyncio.create_task(client.mark_read("c1", 2))
        asked = await peer.heard("message.read")
        assert asked["up_to_seq"] == 2
        peer.say(**state(asked, 2))
        assert (await read).read_seq == 2


async def test_reads_before_and_after_an_unread_keep_their_order(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        asked_for = [
            client.mark_read("c1", seqs=[4]),
            client.mark_read("c1", 7),
            client.mark_read("c1", 6),
            client.mark_unread("c1", 3),
            client.mark_read("c1", 9),
            client.mark_read("c1", 8),
        ]
        waiting = [asyncio.create_task(one) for one in asked_for]
        said = []
        for read_seq in (4, 7, 2, 9):
            frame = await asyncio.wait_for(peer._frames.get(), 60)
            said.append((frame["type"], frame.get("seqs") or frame.get("up_to_seq") or frame.get("from_seq")))
            peer.say(**state(frame, read_seq))
        reads = ("message.read", [4]), ("message.read", 7), ("message.unread", 3), ("message.read", 9)
        assert said == list(reads)
        assert [one.read_seq for one in await asyncio.gather(*waiting)] == [4, 7, 7, 2, 9, 9]


async def test_a_read_that_nobody_waits_for_any_more_does_not_take_those_that_joined_it_along(
    scripted: ScriptedServer,
) -> None:
    async with connected(scripted) as (client, peer):
        first, given_up, joined = [asyncio.create_task(client.mark_read("c1", seq)) for seq in (1, 5, 4)]
        peer.say(**state(await peer.heard("message.read"), 1))
        await first
        await peer.heard("message.read")
        given_up.cancel()
        asked = await peer.heard("message.read")
        peer.say(**state(asked, 4))
        assert asked["up_to_seq"] == 4 and (await joined).read_seq == 4, "not what was given up"
        assert not client._device.marks._last


async def test_reading_turns_ticks_and_counts_and_unreading_brings_them_back(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    ticks, heard = alice.events(Receipt), bob.messages(conversation_id)
    for n in range(3):
        await alice.send(conversation_id, f"{n}")
    async with asyncio.timeout(60):
        for _ in range(3):
            await anext(heard)
        await eventually(lambda: bob.total_unread == 3)  # null at first: the counts of a new conversation are built
        assert (await bob.mark_read(conversation_id, seqs=[2])).unread_count == 2
        assert (await bob.mark_read(conversation_id)).unread_count == 0 and bob.total_unread == 0
        while (await anext(ticks)).read_seq < 3:
            pass
        assert (await bob.mark_unread(conversation_id, 2)).unread_count == 2 and bob.total_unread == 2
    page = await alice.page(conversation_id)
    assert (page.delivered_all_seq, page.read_all_seq) == (3, 3), "ticks never go back"


async def test_a_receipt_that_was_answered_is_in_the_tables(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    await alice.send(conversation_id, "hello")
    await bob._device.session.request_once(Delivered(acks={conversation_id: 1}), Nothing)
    found = await server.node.core.tables.statuses.get("bob", [conversation_id])
    assert found[conversation_id].delivered_seq == 1
