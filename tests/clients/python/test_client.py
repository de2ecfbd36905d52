from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import tidings
import tidings_client
from tests.support.devices.scripted_server import ScriptedServer, connected, message_new
from tests.support.paths import PYTHONPATH
from tests.support.waiting import eventually
from tidings.testing import TestServer
from tidings_client import Account, Client, Disconnected, Message, Server, Stopped
from tidings_client import client as module
from tidings_client.errors import BadRequest
from tidings_client.reading import streams
from tidings_client.values import Connected, Interrupted, MessageNew, Presence, ReadSynced, Typing
from tidings_proof.world.ports import free_port


async def test_two_people_talk(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    heard = bob.messages(conversation_id)
    sent = await alice.send(conversation_id, "hello")
    message = await asyncio.wait_for(anext(heard), 60)
    assert (sent.seq, message.seq, message.text, message.sender_id) == (1, 1, "hello", "alice")
    inbox = await bob.inbox()
    assert inbox.conversations[0].unread_count == 1 and inbox.total_unread == bob.total_unread == 1


async def test_ones_own_messages_are_told_only_where_asked_for(server: TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    others, everyone = alice.messages(conversation_id), alice.messages(conversation_id, own=True)
    await alice.send(conversation_id, "mine")
    await bob.send(conversation_id, "yours")
    async with asyncio.timeout(60):
        assert (await anext(others)).text == "yours"
        assert [(await anext(everyone)).text for _ in range(2)] == ["mine", "yours"]


async def test_devices_of_one_user_see_each_others_sends_and_reads(server: TestServer) -> None:
    phone, laptop = await server.client("bob", device="phone"), await server.client("bob", device="laptop")
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    events = laptop.events(MessageNew, ReadSynced)
    await alice.send(conversation_id, "hello")
    async with asyncio.timeout(60):
        assert isinstance(await anext(events), MessageNew)
        await phone.mark_read(conversation_id, 1)
        while not isinstance(synced := await anext(events), ReadSynced) or (synced.read_seq or 0) < 1:
            pass
        assert synced.unread_count == 0 and laptop.total_unread == 0
        await phone.send(conversation_id, "from my phone")
        while not isinstance(event := await anext(events), MessageNew):
            pass
        assert event.message.text == "from my phone"


async def test_who_watches_is_told_of_typing_and_presence_also_after_a_reconnect(server: TestServer) -> None:
    alice = await server.client("alice")
    bob = await server.client("bob")
    conversation_id = await alice.direct("bob")
    await alice.send(conversation_id, "hello")  # before the first message nobody sees the other
    signs = alice.events(Typing, Presence)
    await alice.watch(conversation_id)
    async with asyncio.timeout(60):
        assert isinstance(await anext(signs), Presence)
        link = alice._session._link
        assert link is not None
        link.cut()
        again = await anext(signs)
        assert isinstance(again, Presence) and again.online
        bob.typing(conversation_id)
        while not isinstance(sign := await anext(signs), Typing):
            pass
        assert (sign.user_id, sign.typing) == ("bob", True)


async def test_the_connection_itself_is_told_of(server: TestServer) -> None:
    client = Client(server.url, server.token("alice"))
    events = client.events(Connected, Interrupted)
    async with client:
        assert isinstance(await anext(events), Connected) and client.is_connected
        link = client._session._link
        assert link is not None
        link.cut()
        async with asyncio.timeout(60):
            assert isinstance(await anext(events), Interrupted)
            assert isinstance(await anext(events), Connected)
    assert [event async for event in events] == [], "closing ends the stream"
    assert not client.is_connected


async def test_a_full_stream_that_is_dropped_holds_nobody_up(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "EVENTS_PAUSE", 5)
    async with connected(scripted) as (client, peer):
        left = client.events(MessageNew)
        for seq in range(1, 6):
            peer.say(**message_new(seq))
        link = client._session._link
        assert link is not None
        peer.say(id=(await peer.heard("message.delivered"))["id"], type="ok")
        await eventually(lambda: link.is_paused)
        del left
        gc.collect()
        fresh = client.events(MessageNew)
        peer.say(**message_new(6))
        assert (await asyncio.wait_for(anext(fresh), 60)).message.seq == 6


async def test_a_page_is_found_by_its_place(server: TestServer) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    for n in range(6):
        await alice.send(conversation_id, f"{n}")
    page = await alice.page(conversation_id, after_seq=2, limit=2)
    assert [message.seq for message in page.messages] == [4, 3]
    assert [m.seq for m in (await alice.page(conversation_id, around_seq=3, limit=2)).messages] == [3, 2]
    assert [message.seq async for message in alice.history(conversation_id)] == [6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("bad", ["c1/../../inbox", "a b", "a\n", "é", "\ud800", "", "x" * 129])
async def test_what_is_not_an_id_is_refused_before_anything_is_sent(bad: str, scripted: ScriptedServer) -> None:
    async with connected(scripted) as (client, peer):
        for ask in (
            lambda: client.send(bad, "t"),
            lambda: client.send("c1", "t", message_id=bad or "m.1"),
            lambda: client.watch("c1", bad),
            lambda: client.mark_read(bad, 1),
            lambda: client.mark_read(bad, seqs=[1]),
            lambda: client.mark_unread(bad, 1),
            lambda: client.page(bad),
            lambda: anext(client.history(bad)),
            lambda: client.conversation(bad),
        ):
            with pytest.raises(BadRequest):
                await ask()
        with pytest.raises(BadRequest):
            client.typing(bad)
        assert not client.abandon(bad, bad)
        client.typing("c1")
        await peer.heard("typing")


@pytest.mark.parametrize("given", [{"device": "a b"}, {"resume": {"a/b": 1}}, {"resume": {"c1": -1}}, {"since": -1}])
async def test_what_no_connect_may_say_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        Client("http://127.0.0.1:1", "t", **given)


async def test_a_bad_token_is_said_at_once(server: TestServer) -> None:
    with pytest.raises(Stopped, match="4500"):
        await Client(server.url, "no token").connect()


async def test_no_server_is_said_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_HELLO_S", 0.2)
    with pytest.raises(ConnectionError, match="cannot connect"):
        await Client(f"http://127.0.0.1:{free_port()}", "t").connect()


async def test_the_same_device_elsewhere_ends_the_first(server: TestServer) -> None:
    first = await server.client("alice", device="phone")
    await server.client("alice", device="phone")
    await eventually(lambda: not first.is_connected)
    with pytest.raises(Stopped, match="4505"):
        await first.inbox()


async def test_leaving_waits_for_what_is_under_way(server: TestServer) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    sends = [asyncio.create_task(alice.send(conversation_id, f"{n}")) for n in range(100)]
    await asyncio.sleep(0)
    await alice.close()
    assert [(await send).seq for send in sends] == list(range(1, 101))


def test_naming_the_package_loads_nothing_of_it() -> None:
    code = "import sys, tidings; assert not {'msgspec', 'websockets', 'httpx2'} & set(sys.modules); tidings.Client"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": PYTHONPATH})
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        tidings.Nobody  # noqa: B018


def test_the_package_alone_names_the_testing_server_and_the_client() -> None:
    code = "import tidings; tidings.testing.server; tidings.Client, tidings.Server"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": PYTHONPATH})
    assert all(hasattr(tidings, name) for name in tidings.__all__)


@pytest.mark.parametrize("name", ["Client", "Server", "testing"])
def test_a_server_without_the_client_says_in_one_line_what_is_missing(name: str) -> None:
    code = f"import sys; sys.modules['tidings_client'] = None; from tidings import {name}"
    env = {"PYTHONPATH": PYTHONPATH}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    last = ended.stderr.splitlines()[-1]
    assert last == f"ImportError: tidings.{name} needs the package tidings-client: pip install tidings-client"


def parts(hint: Any) -> set[Any]:
    """Whatever a type is made of."""
    if isinstance(hint, list):  # what a callable takes
        return set().union(*map(parts, hint))
    return {hint}.union(*(parts(inner) for inner in (get_origin(hint), *get_args(hint)) if inner is not None))


@pytest.mark.parametrize("kind", [Account, Client, Server, TestServer])
def test_whatever_a_method_takes_or_gives_can_be_imported_by_its_name(kind: type) -> None:
    public = {getattr(tidings_client, name) for name in tidings_client.__all__}
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if name.startswith("_"):
            continue
        hints = get_type_hints(method)
        assert set(inspect.signature(method).parameters) - {"self"} <= set(hints) and "return" in hints, name
        ours = {
            one
            for hint in hints.values()
            for one in parts(hint)
            if inspect.isclass(one) and "tidings" in one.__module__
        }
        assert ours <= public, name


def test_the_client_loads_nothing_of_the_server() -> None:
    heavy = {"tidings", "uvicorn", "apsw", "joserfc"}
    code = f"import sys, tidings_client; loaded = {heavy} & set(sys.modules); assert not loaded, loaded"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": PYTHONPATH})


async def test_what_needs_a_connection_says_so_before_there_is_one(server: TestServer) -> None:
    client = Client(server.url, server.token("alice"))
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: client.send("c1", "t"),
        lambda: client.inbox(),
        lambda: client.page("c1"),
        lambda: client.mark_read("c1"),
        lambda: client.watch("c1"),
    ]
    async with asyncio.timeout(60):
        for ask in asked:
            with pytest.raises(Disconnected, match="not connected yet"):
                await ask()
        with pytest.raises(Disconnected, match="not connected yet"):
            _ = client.user_id
        assert (await client.unread()).total_unread == 0  # REST needs none
    await client.close()


async def test_after_its_end_a_client_says_so_whatever_is_asked(server: TestServer) -> None:
    client = await server.client("alice")
    conversation_id = await client.direct("bob")
    await client.close()
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: client.send(conversation_id, "t"),
        lambda: client.inbox(),
        lambda: client.direct("bob"),
        lambda: client.connect(),
    ]
    async with asyncio.timeout(60):
        for ask in asked:
            with pytest.raises(Disconnected, match="the client was closed"):
                await ask()


@pytest.mark.parametrize("kind", ["message.new", Message, MessageNew | ReadSynced])
def test_what_is_no_kind_of_event_is_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match="not a kind of event"):
        Client("http://127.0.0.1:1", "t").events(kind)


async def test_ids_times_and_marks_are_taken_as_they_are_given(server: TestServer) -> None:
    alice = await server.client("alice")
    conversation_id = await alice.direct("bob")
    await alice.send(conversation_id, "from the beginning", ts=0)
    assert (await alice.page(conversation_id)).messages[0].ts == 0
    for wrong in (alice.send(conversation_id, "t", message_id=""), alice.mark_read(conversation_id, 1, seqs=[1])):
        with pytest.raises(BadRequest):
            await wrong
    with pytest.raises(BadRequest, match="not an id"):
        alice.messages("a b")
