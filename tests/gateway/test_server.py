from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest

from tests.gateway.conftest import SECRET, Gateway, opened
from tests.gateway.wire import CLOSE, Wire, http
from tidings.bounds import FRAME_BYTES_MAX, HTTP_HEAD_BYTES_MAX
from tidings.gateway import server
from tidings.gateway.auth import AuthSettings
from tidings.gateway.build import GatewaySettings
from tidings.gateway.server import UPGRADES_PER_TURN, FrontDoor, loop_factory

UPGRADE = (
    b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def test_http_and_websocket_share_one_port(gateway: Gateway) -> None:
    wire = await gateway.wire()
    status, _, body = await http(gateway.port, "GET", "/healthz")
    assert (status, body) == (200, {"status": "ok"})
    assert (await wire.ask("ping"))["type"] == "pong"


def test_it_serves_on_uvloop_and_on_the_plain_loop() -> None:
    async def say_hello() -> str:
        async with opened(GatewaySettings(AuthSettings(secret=SECRET))) as gateway:
            wire = await gateway.wire()
            kind: str = (await wire.ask("ping"))["type"]
            return kind

    for factory in (asyncio.new_event_loop, loop_factory()):
        with asyncio.Runner(loop_factory=factory) as runner:
            assert runner.run(say_hello()) == "pong"


async def test_a_frame_sent_with_the_upgrade_is_not_lost(gateway: Gateway) -> None:
    wire = Wire(*await asyncio.open_connection("127.0.0.1", gateway.port))
    early = Wire(wire.reader, wire.writer)
    wire.writer.write(UPGRADE)
    early.say(id=1, type="connect", token=gateway.token())  # corked together by the kernel, or just behind
    await wire.reader.readuntil(b"\r\n\r\n")
    assert (await wire.hear())["type"] == "hello"


async def test_a_storm_of_upgrades_takes_turns_and_loses_nobody(gateway: Gateway) -> None:
    wires = await asyncio.gather(*(gateway.wire(f"u{number}") for number in range(6 * UPGRADES_PER_TURN)))
    answers = await asyncio.gather(*(wire.ask("ping") for wire in wires))
    assert {answer["type"] for answer in answers} == {"pong"}


async def test_who_leaves_while_waiting_for_the_upgrade_harms_nobody(gateway: Gateway) -> None:
    async def come_and_go() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(UPGRADE)
        writer.transport.abort()

    await asyncio.gather(*(come_and_go() for _ in range(4 * UPGRADES_PER_TURN)), gateway.wire())
    await gateway.until(lambda: gateway.counts[-1] == 1)
    assert (await (await gateway.wire("bob")).ask("ping"))["type"] == "pong"


async def test_a_websocket_keeps_nothing_of_its_handshake(gateway: Gateway) -> None:
    await gateway.wire()
    doors = [one for one in gc.get_objects() if type(one) is FrontDoor]
    assert [door.__dict__ for door in doors if door.__dict__] == []


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "https://app.example.com.evil.com",
        "null",
        "https://APP.example.com",
        "https://app.example.com:8443",
        "app.example.com",
        "file://app.example.com",
    ],
)
async def test_a_foreign_origin_is_refused_before_the_upgrade(origin: str) -> None:
    settings = GatewaySettings(AuthSettings(secret=SECRET), allowed_origins=("https://app.example.com",))
    async with opened(settings) as gateway:
        wire, head = await Wire.handshake(gateway.port, Origin=origin)
        assert head.startswith(b"HTTP/1.1 403 ")
        assert b'"code":"forbidden"' in await wire.reader.read()


async def test_listed_same_and_absent_origins_may_connect() -> None:
    settings = GatewaySettings(AuthSettings(secret=SECRET), allowed_origins=("https://app.example.com",))
    async with opened(settings) as gateway:
        for headers in ({"Origin": "https://app.example.com"}, {"Origin": f"http://127.0.0.1:{gateway.port}"}, {}):
            wire = await Wire.open(gateway.port, **headers)
            wire.drop()


async def test_a_head_without_end_is_cut(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
    writer.write(b"X-Long: " + b"a" * (HTTP_HEAD_BYTES_MAX + 10))
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 431 ")


async def test_a_request_that_never_becomes_whole_is_cut(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"GET /v1/ws HTTP/1.1\r\nHo")
    await gateway.until(lambda: gateway.server.open_requests)
    gateway.later(11)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)


async def test_what_is_not_http_is_refused_in_our_form(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ") and b'"code":"bad_request"' in answer


async def test_an_oversized_frame_closes_1009_and_is_not_gathered(gateway: Gateway) -> None:
    wire = await gateway.wire()
    size = 8 * 1024 * 1024
    wire.writer.write(bytes((0x81, 0xFF)) + size.to_bytes(8, "big") + b"mask")
    opcode, payload = await wire.frame()
    assert opcode == CLOSE and int.from_bytes(payload[:2], "big") == 1009
    assert size > FRAME_BYTES_MAX


async def test_draining_tells_clients_when_to_come_back_and_closes_4001(gateway: Gateway) -> None:
    wire = await gateway.wire()
    draining = asyncio.create_task(gateway.server.drain(spread_ms=3000))
    told = await wire.hear()
    assert told["type"] == "draining" and 0 <= told["reconnect_in_ms"] <= 3000
    assert await wire.closed() == 4001
    await draining
    _, head = await Wire.handshake(gateway.port)
    assert head.startswith(b"HTTP/1.1 503 ")
    status, _, body = await http(gateway.port, "GET", "/readyz")
    assert status == 503 and body["status"] == "draining"


async def test_a_draining_node_answers_what_it_has_taken(gateway: Gateway) -> None:
    gateway.log.held = []
    wire = await gateway.wire()
    wire.say(id=7, type="message.send", conversation_id="c1", message_id="m1", text="hi")
    await gateway.until(lambda: gateway.log.held)
    draining = asyncio.create_task(gateway.server.drain(spread_ms=0))
    assert (await wire.hear())["type"] == "draining"
    gateway.log.answer(gateway.log.held[0])
    assert (await wire.answer_to(7))["seq"] == 1
    assert await wire.closed() == 4001
    await draining


async def test_a_request_under_way_is_answered_before_the_node_is_gone(gateway: Gateway) -> None:
    begun, opened_ = asyncio.Event(), asyncio.Event()
    plain = gateway.inbox.page

    async def page(*args: Any, **fields: Any) -> Any:
        begun.set()
        await opened_.wait()
        return await plain(*args, **fields)

    gateway.inbox.page = page  # type: ignore[method-assign]
    asked = asyncio.create_task(gateway.rest("GET", "/v1/inbox"))
    await begun.wait()
    stopping = asyncio.create_task(gateway.server.stop())
    await asyncio.sleep(0)
    opened_.set()
    status, _, body = await asked
    assert status == 200 and "conversations" in body
    await stopping


async def test_a_request_that_a_store_holds_up_is_cut_off_and_not_answered_in_other_words(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HTTP_FINISH_S", 0.05)
    begun = asyncio.Event()

    async def page(*args: Any, **fields: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    gateway.inbox.page = page  # type: ignore[method-assign]
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(f"GET /v1/inbox HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token()}\r\n\r\n".encode())
    await begun.wait()
    await gateway.server.stop()
    said = b""
    with suppress(ConnectionResetError):
        said = await reader.read()
    assert said == b""
    writer.close()
