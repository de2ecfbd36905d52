from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from tests.support.devices.scripted_server import Frame, ScriptedServer, StillClock, connected
from tests.support.waiting import eventually
from tidings import testing
from tidings.bounds import Limit
from tidings.config.settings import Limits, Settings
from tidings.testing import TestServer
from tidings_client import Client, Disconnected, FileDrafts, Stopped
from tidings_client.bounds import LANE_SENDS_MAX, SENDS_MAX
from tidings_client.errors import BadRequest, Held, IdConflict, NotFound, RateLimited, StoreUnavailable, TooLarge
from tidings_client.sending.drafts import Draft
from tidings_client.sending.sender import Outbox
from tidings_proof.world.ports import free_port


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


async def test_a_send_that_waits_for_a_limit_says_so_once_in_the_log(
    scripted: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(scripted) as (client, peer):
        sends = [asyncio.create_task(client.send("c1", f"text {n}")) for n in range(2)]
        one, two = [await peer.heard("message.send") for _ in range(2)]
        peer.say(**refused(one, "rate_limited"))
        peer.say(**refused(two, "held"))
        for seq in (1, 2):
            peer.say(**ok(await peer.heard("message.send"), seq))
        await asyncio.gather(*sends)
    said = [text for text in caplog.messages if "send refused" in text]
    assert len(said) == 1 and "conversation=c1 cause=rate_limited retry_s=" in said[0]


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


def filled(*names: str, conversation_id: str = "c1", clock: StillClock | None = None) -> tuple[Outbox, list[Draft]]:
    outbox = Outbox(clock or StillClock())
    drafts = [Draft(conversation_id, name, name) for name in names]
    for draft in drafts:
        outbox.add(draft)
    return outbox, drafts


def test_drafts_go_in_order_and_once() -> None:
    outbox, drafts = filled("a", "b", "c")
    assert outbox.ready() == drafts
    assert outbox.ready() == []


def test_a_refused_one_goes_again_alone_and_the_next_when_it_is_stored() -> None:
    clock = StillClock()
    outbox, (a, b, c) = filled("a", "b", "c", clock=clock)
    outbox.ready()
    outbox.refuse(a, RateLimited(retry_after_ms=1_000))
    outbox.refuse(b, Held())
    assert outbox.ready() == [], "c is still on its way"
    outbox.refuse(c, Held())
    assert outbox.ready() == [], "the server asked for a second"
    assert 1.0 <= (outbox.wait_s() or 0) < 2
    clock.now_s += 2
    assert outbox.ready() == [a]
    assert outbox.ready() == []
    outbox.done(a)
    assert outbox.ready() == [b]
    outbox.done(b)
    assert outbox.ready() == [c]
    outbox.done(c)
    assert len(outbox) == 0


def test_another_conversation_does_not_wait_for_a_hold() -> None:
    outbox, (a,) = filled("a")
    outbox.ready()
    outbox.refuse(a, StoreUnavailable())
    other = Draft("c2", "x", "x")
    outbox.add(other)
    assert outbox.ready() == [other]


def test_after_a_lost_connection_everything_unanswered_goes_again_in_order() -> None:
    outbox, (a, b, c) = filled("a", "b", "c")
    outbox.ready()
    outbox.done(b)
    outbox.interrupt()
    assert outbox.ready() == [a, c]


def test_a_wait_that_the_server_asked_for_outlives_the_connection() -> None:
    clock = StillClock()
    outbox, (a,) = filled("a", clock=clock)
    outbox.ready()
    outbox.refuse(a, RateLimited(retry_after_ms=5_000))
    outbox.interrupt()
    assert outbox.ready() == []
    clock.now_s += 6
    assert outbox.ready() == [a]


def test_a_new_draft_does_not_overtake_a_hold() -> None:
    clock = StillClock()
    outbox, (a,) = filled("a", clock=clock)
    outbox.ready()
    outbox.refuse(a, StoreUnavailable())
    b = Draft("c1", "b", "b")
    outbox.add(b)
    assert outbox.ready() == []
    clock.now_s += 60
    assert outbox.ready() == [a]
    outbox.done(a)
    assert outbox.ready() == [b]


def test_what_is_under_way_is_bounded() -> None:
    outbox = Outbox(StillClock())
    for conversation in range(8):
        for number in range(LANE_SENDS_MAX + 5):
            outbox.add(Draft(f"c{conversation}", f"m{number}", "x"))
    first = outbox.ready()
    assert len(first) == SENDS_MAX
    assert max([draft.conversation_id for draft in first].count(f"c{n}") for n in range(8)) == LANE_SENDS_MAX
    outbox.done(first[0])
    assert len(outbox.ready()) == 1


def test_one_given_up_while_held_lets_the_others_go() -> None:
    clock = StillClock()
    outbox, (a, b) = filled("a", "b", clock=clock)
    outbox.ready()
    outbox.refuse(a, StoreUnavailable())
    outbox.refuse(b, Held())
    outbox.done(a)
    assert ("c1", "a") not in outbox and outbox.get(("c1", "b")) == b
    clock.now_s += 60
    assert outbox.ready() == [b]
