from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from websockets.http11 import Request
from websockets.server import ServerProtocol

from tests.support.devices.scripted_server import ScriptedServer, StillClock
from tests.support.waiting import eventually
from tidings_client import Clock
from tidings_client.connection.addresses import socket_url
from tidings_client.connection.link import Link, Liveness, Verdict
from tidings_client.errors import Disconnected
from tidings_proof.world.ports import free_port


async def opened(scripted: ScriptedServer, texts: list[bytes]) -> Link:
    return await Link.open(socket_url(scripted.url), texts.append, Clock())


async def test_texts_go_both_ways_and_the_close_code_is_kept(scripted: ScriptedServer) -> None:
    texts: list[bytes] = []
    link = await opened(scripted, texts)
    peer = await scripted.next()
    link.send(b'{"type":"ping"}')
    await peer.heard("ping")
    peer.say(type="pong")
    peer.close(4008)
    assert await asyncio.wait_for(link.lost, 60) == 4008
    assert texts == [b'{"type": "pong"}'] and not link.is_open
    link.send(b"nobody")  # goes nowhere, and says nothing: the loss is told by `lost`


async def test_a_cut_has_no_code(scripted: ScriptedServer) -> None:
    link = await opened(scripted, [])
    link.cut()
    assert await asyncio.wait_for(link.lost, 60) is None


async def test_nobody_there_is_disconnected() -> None:
    with pytest.raises(Disconnected, match="cannot connect"):
        await Link.open(f"ws://127.0.0.1:{free_port()}/v1/ws", lambda raw: None, Clock())


async def test_a_paused_link_reads_nothing_until_it_is_resumed(scripted: ScriptedServer) -> None:
    came = asyncio.Event()
    link = await Link.open(socket_url(scripted.url), lambda raw: came.set(), Clock())
    peer = await scripted.next()
    link.pause(True)
    peer.say(type="pong")
    link.send(b'{"type":"ping"}')
    await peer.heard("ping")  # a whole round trip later
    assert not came.is_set()
    link.pause(False)
    await asyncio.wait_for(came.wait(), 60)
    link.close()
    await asyncio.wait_for(link.lost, 60)


@asynccontextmanager
async def raw_server(frames: Callable[[ServerProtocol], None]) -> AsyncIterator[tuple[str, bytearray]]:
    """A server that sends these frames after the handshake. Its URL, and what it receives after that."""
    heard = bytearray()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = ServerProtocol()
        protocol.receive_data(await reader.readuntil(b"\r\n\r\n"))
        (request,) = protocol.events_received()
        assert isinstance(request, Request)
        if request.path == "/refused":
            protocol.send_response(protocol.reject(403, "not for you"))
        else:
            protocol.send_response(protocol.accept(request))
            frames(protocol)
        writer.writelines(protocol.data_to_send())
        while data := await reader.read(65536):
            heard.extend(data)
        writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}", heard
    finally:
        listening.close()


async def test_the_pieces_of_a_text_are_joined_and_a_ping_between_them_is_answered() -> None:
    texts: asyncio.Queue[bytes] = asyncio.Queue()

    def in_pieces(protocol: ServerProtocol) -> None:
        protocol.send_text(b'{"a":', fin=False)
        protocol.send_ping(b"there?")
        protocol.send_continuation(b"1}", fin=True)
        protocol.send_text(b"next")

    async with raw_server(in_pieces) as (url, heard):
        link = await Link.open(url + "/v1/ws", texts.put_nowait, Clock())
        assert [await asyncio.wait_for(texts.get(), 60) for _ in range(2)] == [b'{"a":1}', b"next"]
        await eventually(lambda: len(heard) == 2 + 4 + len(b"there?"))  # one masked pong
        assert heard[0] == 0x8A
        link.close()
        await asyncio.wait_for(link.lost, 60)


async def test_a_text_that_is_too_large_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings_client.connection.link.SERVER_FRAME_BYTES_MAX", 1_000)
    texts: list[bytes] = []

    def too_large(protocol: ServerProtocol) -> None:
        protocol.send_text(b"x" * 600, fin=False)
        protocol.send_continuation(b"x" * 600, fin=True)

    async with raw_server(too_large) as (url, _):
        link = await Link.open(url + "/v1/ws", texts.append, Clock())
        assert await asyncio.wait_for(link.lost, 60) is None and texts == []


async def test_a_refused_upgrade_says_its_status() -> None:
    async with raw_server(lambda protocol: None) as (url, _):
        with pytest.raises(Disconnected, match="HTTP 403"):
            await Link.open(url + "/refused", lambda raw: None, Clock())


class TwoClocks(StillClock):
    """A steady clock, and one of the day that can go on alone."""

    def __init__(self) -> None:
        super().__init__()
        self.day_s = 0.0

    def now_ms(self) -> int:
        return int((self.now_s + self.day_s) * 1000)


@pytest.fixture
def clock() -> TwoClocks:
    return TwoClocks()


@pytest.fixture
def liveness(clock: TwoClocks) -> Liveness:
    made = Liveness(clock)
    made.begin(20)
    return made


def test_a_quiet_server_is_pinged_and_then_left(clock: TwoClocks, liveness: Liveness) -> None:
    verdicts = []
    for _ in range(4):
        clock.now_s += 10
        verdicts.append(liveness.tick())
    assert verdicts == [Verdict.FINE, Verdict.PING, Verdict.PING, Verdict.CUT]


def test_what_is_heard_keeps_it(clock: TwoClocks, liveness: Liveness) -> None:
    for _ in range(5):
        clock.now_s += 10
        liveness.received()
        assert liveness.tick() is Verdict.FINE and liveness.alive_s == clock.now_s


def test_what_is_read_after_a_stop_counts_only_once_a_ping_was_answered(clock: TwoClocks, liveness: Liveness) -> None:
    clock.now_s += 5
    liveness.received()
    clock.now_s += 600  # stopped; what came before the network went is read now
    liveness.received()
    assert liveness.alive_s == 1_005
    assert liveness.tick() is Verdict.PROVE
    liveness.received()
    assert liveness.alive_s == 1_005
    clock.now_s += 1
    liveness.proven(liveness.proof)
    assert liveness.alive_s == clock.now_s
    clock.now_s += 9
    assert liveness.tick() is Verdict.FINE


def test_a_server_that_does_not_answer_after_a_stop_is_left_at_the_next_tick(
    clock: TwoClocks, liveness: Liveness
) -> None:
    clock.now_s += 600
    assert liveness.tick() is Verdict.PROVE
    clock.now_s += 10
    liveness.received()
    assert liveness.tick() is Verdict.CUT


def test_a_machine_that_slept_is_noticed_though_its_steady_clock_stood_still(
    clock: TwoClocks, liveness: Liveness
) -> None:
    clock.now_s += 10
    clock.day_s += 3_600
    assert liveness.tick() is Verdict.PROVE


def test_an_answer_that_was_asked_for_before_another_stop_proves_nothing(clock: TwoClocks, liveness: Liveness) -> None:
    clock.now_s += 600
    liveness.tick()
    asked = liveness.proof
    clock.now_s += 600
    liveness.received()
    liveness.proven(asked)
    assert liveness.alive_s == 1_000 and liveness.tick() is Verdict.PROVE


def test_what_was_left_unread_for_a_while_is_in_doubt_too(clock: TwoClocks, liveness: Liveness) -> None:
    liveness.doubt()
    clock.now_s += 10
    liveness.received()
    assert liveness.alive_s == 1_000 and liveness.tick() is Verdict.PROVE
