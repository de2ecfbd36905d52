"""A program writes a message piece by piece, and readers see the pieces and the whole."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.devices.scripted_server import Conversation, ScriptedServer, connected
from tidings.testing import TestServer
from tidings_client import MessageAppended, MessageNew
from tidings_client.errors import NotFound


async def test_an_answer_is_streamed_to_its_readers(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    heard = bob.events(MessageNew, MessageAppended)
    words = ["Streams ", "flow ", "to ", "thé ", "sea."]
    async with alice.streaming(conversation_id) as out:
        for word in words:
            await out.write(word)
    text, numbers = "", []
    async with asyncio.timeout(60):
        async for event in heard:
            if isinstance(event, MessageAppended):
                assert event.offset == len(text) and event.seq == out.seq
                text += event.text
            elif isinstance(event, MessageNew):
                numbers.append((event.message.kind, event.message.state))
                if event.message.state == "done":
                    assert event.message.text == "".join(words)
                    break
    assert "".join(words).startswith(text) and numbers == [("message", "streaming"), ("edit", "done")]
    whole = await bob.message(conversation_id, out.seq)
    assert (whole.text, whole.state, whole.edited_at) == ("".join(words), "done", None)
    assert (await bob.inbox()).total_unread == 1


async def test_a_lost_connection_loses_no_piece(server: TestServer) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    async with alice.streaming(conversation_id, "It ") as out:
        await out.write("begins ")
        for connection in list(server.node.core.hub.of_user("alice")):
            connection.close(4001)  # type: ignore[arg-type]
        await out.write("again ")
        await out.write("and ends.")
    assert (await alice.message(conversation_id, out.seq)).text == "It begins again and ends."


async def test_a_stream_that_its_node_dropped_is_begun_again(server: TestServer) -> None:
    """A node drops a stream that another node has taken up: the pieces that follow are lost to it."""
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    async with alice.streaming(conversation_id, message_id="s1") as out:
        await out.write("one ")
        server.node.core.streams._drop((conversation_id, "alice", "s1"))
        await out.write("two")
    assert (await alice.message(conversation_id, out.seq)).text == "one two"


async def test_a_message_that_is_gone_does_not_end_as_written(server: TestServer) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    with pytest.raises(NotFound):
        async with alice.streaming(conversation_id) as out:
            await out.write("half")
            await alice.delete(conversation_id, out.seq)


async def test_a_begin_whose_answer_was_lost_is_ones_own(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    begin, begun = server.node.core.streams.begin, list[object]()

    async def lose_the_answer(*given: object, **more: object) -> object:
        begun.append(await begin(*given, **more))  # type: ignore[arg-type]
        if len(begun) == 1:
            for connection in list(server.node.core.hub.of_user("alice")):
                connection.close(4001)  # type: ignore[arg-type]
        return begun[-1]

    monkeypatch.setattr(server.node.core.streams, "begin", lose_the_answer)
    async with alice.streaming(conversation_id, "It ") as out:
        await out.write("is written.")
    assert len(begun) == 2 and not out.is_duplicate
    stored = await alice.message(conversation_id, out.seq)
    assert (stored.text, stored.state) == ("It is written.", "done")


async def test_of_two_programs_one_answers(server: TestServer) -> None:
    one, other = await server.client("alice"), await server.client("alice")
    conversation_id = await one.direct("bob")
    async with (
        one.streaming(conversation_id, message_id="re-7") as out,
        other.streaming(conversation_id, message_id="re-7") as late,
    ):
        assert (out.is_duplicate, late.is_duplicate) == (False, True)
        await late.write("nothing of this")
        await out.write("the answer")
    page = await one.page(conversation_id)
    assert [(entry.kind, entry.text) for entry in page.messages] == [("edit", "the answer"), ("message", "the answer")]


async def test_a_body_that_raises_leaves_the_message_without_an_end(server: TestServer) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    with pytest.raises(ZeroDivisionError):
        async with alice.streaming(conversation_id) as out:
            await out.write("half")
            raise ZeroDivisionError
    async with asyncio.timeout(60):
        while (await alice.message(conversation_id, out.seq)).text != "half":
            await asyncio.sleep(0.01)
    assert (await alice.message(conversation_id, out.seq)).state == "streaming"
    with pytest.raises(NotFound):
        await alice.message(conversation_id, 99)


async def test_an_end_that_is_refused_for_now_is_sent_again_no_sooner_than_asked(scripted: ScriptedServer) -> None:
    async def refuse_once(peer: Conversation) -> float:
        """Returns the time between the refusal and the next end."""
        begin = await peer.heard("message.begin")
        sent = {"conversation_id": "c1", "message_id": begin["message_id"], "seq": 1, "sent_at": 5, "duplicate": False}
        peer.say(id=begin["id"], type="ok", offset=0, **sent)
        end = await peer.heard("message.end")
        refused_s = asyncio.get_running_loop().time()
        peer.say(id=end["id"], type="error", code="unavailable", temporary=True, retry_after_ms=200, message="")
        end = await peer.heard("message.end")
        peer.say(id=end["id"], type="ok", **sent)
        return asyncio.get_running_loop().time() - refused_s

    async with connected(scripted) as (client, peer):
        refusing = asyncio.create_task(refuse_once(peer))
        async with client.streaming("c1"):
            pass
        assert await refusing >= 0.2
