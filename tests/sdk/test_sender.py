from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from tests.sdk.scripted import Frame, ScriptedServer, connected
from tests.valkey import eventually, free_port
from tidings import testing
from tidings.config import Limits, Settings
from tidings.config_values import Limit
from tidings.errors import BadRequest, IdConflict, NotFound, TooLarge
from tidings.sdk import Client, Disconnected, FileDrafts, Stopped
from tidings.testing import TestServer


def ok(asked: Frame, seq: int) -> Frame:
    names = ("id", "conversation_id", "message_id")
    return {**{name: asked[name] for name in names}, "type": "ok", "seq": seq, "sent_at": 5_000, "duplicate": False}


def refused(asked: Frame, code: str) -> Frame:
    return {"id": asked["id"], "type": "error", "code": code, "temporary": True, "retry_after_ms": 10, "message": ""}


async def test_what_was_not_answered_is_sent_again_with_the_same_id_and_in_order(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, first):
        sends = [asyncio.create_task(client.send("c1", f"text {n}")) for n in range(3)]
        frames = [await first.heard("message.send") for _ in range(3)]
        first.say(**ok(frames[0], 1))
        await sends[0]
        first.close(4004)
        second = await scripted.next()
        await second.welcome()
        for seq, frame in enumerate(frames[1:], 2):
            again = await second.heard("message.send")
            assert (again["message_id"], again["text"], again["ts"]) == (
                frame["message_id"],
                frame["text"],
                frame["ts"],
            )
            second.say(**ok(again, seq))
        assert [(await send).seq for send in sends] == [1, 2, 3]


async def test_a_refusal_that_is_temporary_holds_what_is_behind_it(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        sends = [asyncio.create_task(client.send("c1", f"text {n}")) for n in range(2)]
        one, two = [await peer.heard("message.send") for _ in range(2)]
        peer.say(**refused(one, "unavailable"))
        peer.say(**refused(two, "held"))
        again = await peer.heard("message.send")
        assert again["message_id"] == one["message_id"]
        assert peer.is_quiet(), "the second waits for the first"
        peer.say(**ok(again, 1))
        last = await peer.heard("message.send")
        peer.say(**ok(last, 2))
        assert [(await send).seq for send in sends] == [1, 2]


async def test_over_the_budget_of_a_real_node_everything_arrives_in_order_and_once() -> None:
    limits = dataclasses.replace(Limits(), send=Limit(5, 1))
    async with testing.server(Settings(limits=limits)) as server:
        alice, bob = await server.client("alice"), await server.client("bob")
        conversation_id = await alice.direct("bob")
        heard = bob.messages(conversation_id)
        sent = await asyncio.gather(*(alice.send(conversation_id, f"{n}") for n in range(8)))
        assert [one.seq for one in sent] == list(range(1, 9))
        assert [(await anext(heard)).text for _ in range(8)] == [f"{n}" for n in range(8)]


async def test_a_draft_in_a_file_is_sent_by_the_next_process(server: TestServer, tmp_path: Path) -> None:
    backend = server.server()
    conversation_id = await backend.account("alice").direct("bob")
    nowhere = f"http://127.0.0.1:{free_port()}"
    before = Client(nowhere, server.token("alice"), drafts=FileDrafts(tmp_path / "drafts"))
    connecting = asyncio.create_task(before.connect())
    await asyncio.sleep(0)
    begun = asyncio.create_task(before.send(conversation_id, "before the crash", message_id="m1"))
    await asyncio.sleep(0)  # begun, never connected: the process ends here
    await before.close()
    assert [type(end) for end in await asyncio.gather(connecting, begun, return_exceptions=True)] == [Disconnected] * 2
    after = await server.client("alice", drafts=FileDrafts(tmp_path / "drafts"))
    await eventually(lambda: after.unanswered_count == 0)
    assert [entry.text async for entry in after.history(conversation_id)] == ["before the crash"]


async def test_a_final_refusal_is_raised_and_the_next_send_goes(server: TestServer) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    with pytest.raises(NotFound):
        await alice.send("c-nowhere", "hello")
    with pytest.raises(TooLarge):
        await alice.send(conversation_id, "x" * 20_000)
    with pytest.raises(TooLarge):
        await alice.send(conversation_id, "\x01" * 16_000)  # six bytes each on the wire
    with pytest.raises(BadRequest):
        await alice.send("not an id", "hello")
    with pytest.raises(BadRequest):
        await alice.send(conversation_id, "hello", message_id="not an id")
    assert (await alice.send(conversation_id, "hello")).seq == 1


async def test_the_same_id_joins_the_send_under_way_and_conflicts_with_another_text(server: TestServer) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    both = asyncio.gather(*(alice.send(conversation_id, "hi", message_id="m1") for _ in range(2)))
    await asyncio.sleep(0)
    with pytest.raises(IdConflict):
        await alice.send(conversation_id, "other", message_id="m1")
    assert len({sent.seq for sent in await both}) == 1
    assert (await alice.send(conversation_id, "hi", message_id="m1")).duplicate
    with pytest.raises(IdConflict):
        await alice.send(conversation_id, "other", message_id="m1")


async def test_giving_up_waiting_keeps_the_send_and_abandoning_ends_it(scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        sending = asyncio.create_task(client.send("c1", "hi", message_id="m1"))
        await peer.heard("message.send")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert client.unanswered_count == 1
        assert client.abandon("c1", "m1") and not client.abandon("c1", "m1")
        assert client.unanswered_count == 0
        assert (await peer.heard("message.abandon"))["message_id"] == "m1"


@pytest.mark.parametrize("answer", ["ok", "unavailable"])
async def test_the_answer_to_an_abandoned_send_says_nothing_of_a_later_one_with_its_id(
    scripted: ScriptedServer, answer: str
) -> None:
    async with connected(scripted) as (client, peer):
        first = asyncio.create_task(client.send("c1", "first", message_id="m1"))
        one = await peer.heard("message.send")
        assert client.abandon("c1", "m1")
        await peer.heard("message.abandon")
        second = asyncio.create_task(client.send("c1", "second", message_id="m1"))
        two = await peer.heard("message.send")
        peer.say(**(ok(one, 1) if answer == "ok" else refused(one, answer)))
        peer.say(**ok(two, 2))
        assert (await second).seq == 2 and peer.is_quiet() and first.cancelled()


async def test_what_a_file_keeps_after_the_end_cannot_be_abandoned(scripted: ScriptedServer, tmp_path: Path) -> None:
    client = Client(scripted.url, "t", drafts=FileDrafts(tmp_path / "drafts"))
    connecting = asyncio.create_task(client.connect())
    peer = await scripted.next()
    await peer.welcome()
    await connecting
    sending = asyncio.create_task(client.send("c1", "hi", message_id="m1"))
    await peer.heard("message.send")
    peer.close(4503)
    with pytest.raises(Stopped):
        await sending
    with pytest.raises(Stopped, match="4503"):
        client.abandon("c1", "m1")
    assert not client.abandon("c1", "another")
    await client.close()
    assert [draft.message_id for draft in FileDrafts(tmp_path / "drafts").load()] == ["m1"]
