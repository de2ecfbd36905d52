"""FrontDoor: what may come in on one TCP connection, what may wait to go out, and how it becomes a WebSocket."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from typing import Any

import pytest

from tests.support.gateway.raw_websocket import CLOSE, Wire
from tests.support.gateway.served import Gateway
from tidings.bounds import (
    FRAME_BYTES_MAX,
    HTTP_CONNECTIONS_PER_USER_MAX,
    HTTP_HEAD_BYTES_MAX,
    HTTP_PIPELINED_MAX,
    HTTP_STALLED_S,
    SOCKET_READ_BYTES,
)
from tidings.gateway import connections
from tidings.gateway.connection import Connection
from tidings.gateway.front_door import UPGRADES_PER_TURN, FrontDoor, Sink
from tidings.gateway.http.routes import Reply

UPGRADE = (
    b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def said_to(gateway: Gateway, request: bytes) -> bytes:
    """Everything that the server answers until it ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer


def chunked(head: str, trailers: str, body: bytes = b"{}") -> bytes:
    lines = f"{head}Host: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return lines + b"%x\r\n%b\r\n0\r\n" % (len(body), body) + trailers.encode() + b"\r\n"


class FrontDoorAlone:
    """A door whose reads a test chooses: a kernel may cut segments as it likes."""

    def __init__(self, gateway: Gateway) -> None:
        self.written = b""
        self.is_closed = self.is_lost = False
        self.door = gateway.server._new_front_door()
        self.door.connection_made(self)  # type: ignore[arg-type]

    def read(self, data: bytes) -> None:
        self.door.data_received(data)

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        if not self.is_lost:
            self.is_lost = self.is_closed = True
            self.door.connection_lost(None)

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


# --- what comes in --------------------------------------------------------------------------------


async def test_a_trailer_never_names_the_caller(gateway: Gateway) -> None:
    key = await gateway.api_key()
    body = json.dumps({"message_id": "m1", "text": "as alice"}).encode()
    head = f"POST /v1/conversations/c1/messages HTTP/1.1\r\nX-Api-Key: {key}\r\nX-User-Id: alice\r\n"
    assert (await said_to(gateway, chunked(head, "X-User-Id: bob\r\n", body))).startswith(b"HTTP/1.1 201 ")
    assert [entry.sender_id for entry in gateway.log.entries["c1"]] == ["alice"]
    bare = "POST /v1/conversations/c1/messages HTTP/1.1\r\n"
    trailer = f"Authorization: Bearer {gateway.token()}\r\n"
    assert (await said_to(gateway, chunked(bare, trailer, body))).startswith(b"HTTP/1.1 401 ")


async def test_trailers_are_bounded(gateway: Gateway) -> None:
    most = HTTP_HEAD_BYTES_MAX
    for trailers in (b"aa:bb\r\n" * (most * 3 // 5 // 8), b"a" * (most * 3 // 5)):  # many, and one without end
        door = FrontDoorAlone(gateway)
        door.read(b"POST /v1/conversations HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n")
        door.read(f"Authorization: Bearer {gateway.token()}\r\n\r\n0\r\n".encode())
        door.read(trailers)
        assert door.written == b""
        door.read(trailers)
        assert door.written.startswith(b"HTTP/1.1 431 ") and door.is_closed
        door.read(trailers)  # thrown away


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "X-User-Id", "Host", "Origin"])
async def test_a_header_that_decides_who_may_do_what_is_given_once(gateway: Gateway, name: str) -> None:
    lines = "".join(f"{one}: x\r\n" for one in dict.fromkeys(("Host", name)))
    answer = await said_to(gateway, f"GET /v1/inbox HTTP/1.1\r\n{lines}{name.lower()}: y\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ") and f"`{name.lower()}`".encode() in answer


async def test_a_head_above_the_bound_is_refused_however_it_arrives(gateway: Gateway) -> None:
    long = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * HTTP_HEAD_BYTES_MAX + b"\r\n\r\n"
    many = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * (HTTP_HEAD_BYTES_MAX // 8) + b"\r\n"
    path = b"GET /" + b"a" * HTTP_HEAD_BYTES_MAX + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    for request in (long, many, path):
        door = FrontDoorAlone(gateway)
        door.read(request)  # in one segment
        assert door.written.startswith(b"HTTP/1.1 431 ")


async def test_a_head_within_the_bound_passes_behind_a_large_body(gateway: Gateway) -> None:
    body = b"x" * 60_000
    first = b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    door = FrontDoorAlone(gateway)
    door.read(first + b"GET /healthz HTTP/1.1\r\nHo")
    assert door.written == b""


# --- several requests on one connection -----------------------------------------------------------


async def test_an_upgrade_behind_an_unanswered_request_is_not_made(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await said_to(gateway, HEALTH + UPGRADE)
    assert answer.startswith(b"HTTP/1.1 200 ") and b" 101 " not in answer
    assert b"connection: close" in answer and not caplog.records


async def test_nonsense_behind_an_unanswered_request_does_not_take_its_answer(gateway: Gateway) -> None:
    answer = await said_to(gateway, HEALTH + b"nonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.count(b"HTTP/1.1 ") == 1


async def test_so_many_requests_may_wait_and_the_connection_ends_behind_them(gateway: Gateway) -> None:
    answer = await said_to(gateway, HEALTH * 1_000)
    assert answer.count(b"HTTP/1.1 200 ") == HTTP_PIPELINED_MAX + 1
    assert answer.count(b"connection: close") == 1


async def test_requests_one_after_another_share_a_connection(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    for _ in range(3 * HTTP_PIPELINED_MAX):
        writer.write(HEALTH)
        assert (await reader.readuntil(b'{"status":"ok"}')).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_a_user_has_so_many_http_connections(gateway: Gateway) -> None:
    request = f"GET /v1/inbox HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token()}\r\n\r\n".encode()
    kept = []
    for _ in range(HTTP_CONNECTIONS_PER_USER_MAX):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        kept.append(writer)
        for _ in range(2):  # the second request of a connection does not count again
            writer.write(request)
            assert (await reader.readuntil(b'"stale":false}')).startswith(b"HTTP/1.1 200 ")
    status, headers, body = await gateway.rest("GET", "/v1/inbox")
    assert (status, body["error"]["code"]) == (429, "rate_limited") and headers["retry-after"] == "1"
    assert (await gateway.rest("GET", "/v1/inbox", user_id="bob"))[0] == 200
    kept[0].close()
    await kept[0].wait_closed()
    while (await gateway.rest("GET", "/v1/inbox"))[0] != 200:  # the server hears of the end a moment later
        await asyncio.sleep(0.005)
    for writer in kept:
        writer.close()


# --- answers that nobody reads --------------------------------------------------------------------

ANSWER_BYTES = 32 * 1024 * 1024  # more than the kernel's buffers take


async def unread_answer(gateway: Gateway) -> tuple[FrontDoor, socket.socket]:
    """A client that has asked for a large page and reads none of it, and its connection on the server."""

    async def page(request: Any) -> Reply:
        return Reply(200, b"x" * ANSWER_BYTES)

    route = gateway.server._config.loaded_app._router.find("/healthz")[0]["GET"]
    object.__setattr__(route, "run", page)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", gateway.port))
    await asyncio.get_running_loop().sock_sendall(client, HEALTH)
    await gateway.until(lambda: any(door.queued_bytes() for door in gateway.server._doors()))
    [door] = [door for door in gateway.server._doors() if door.queued_bytes()]
    return door, client


async def test_an_answer_that_is_not_read_is_cut(gateway: Gateway) -> None:
    _, client = await unread_answer(gateway)
    gateway.server.sweep()
    gateway.later(HTTP_STALLED_S - 1)
    assert any(door.queued_bytes() for door in gateway.server._doors())
    gateway.later(2)
    await gateway.until(lambda: not gateway.server._doors())
    client.close()


async def test_an_answer_that_is_read_slowly_is_not_cut(gateway: Gateway) -> None:
    door, client = await unread_answer(gateway)
    gateway.server.sweep()
    for _ in range(3):
        before = door.queued_bytes()
        while door.queued_bytes() >= before:
            assert await asyncio.get_running_loop().sock_recv(client, 1 << 16)
            await asyncio.sleep(0)
        gateway.later(HTTP_STALLED_S - 1)
        assert door in gateway.server._doors() and not door.transport.is_closing()
    client.close()


async def test_unread_answers_count_into_the_bound_of_the_node(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = await unread_answer(gateway)
    gateway.server.sweep()
    assert gateway.server._doors()
    monkeypatch.setattr(connections, "NODE_QUEUE_BYTES_MAX", ANSWER_BYTES // 32)
    gateway.server.sweep()
    await gateway.until(lambda: not gateway.server._doors())
    client.close()


# --- the WebSocket --------------------------------------------------------------------------------


async def test_nothing_is_parsed_long_after_our_own_close(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    for _ in range(25):
        wire.say_text("{}")
    while (await wire.frame())[0] != CLOSE:
        pass
    [connection] = gateway.server._connections._all
    assert connection.socket is not None and connection.socket._transport is not None
    transport = connection.socket._transport.underlying_transport
    pong = b"\x8a\x80\0\0\0\0"
    while not isinstance(transport.get_protocol(), Sink):
        wire.writer.write(pong * 1_000)
        await asyncio.sleep(0)
    wire.writer.write(pong * 1_000)
    wire.drop()
    await gateway.until(lambda: gateway.counts[-1] == 0)


async def test_a_client_that_answers_our_close_need_not_wait(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    for _ in range(25):
        wire.say_text("{}")
    assert await wire.closed() == 4501  # and says its own close
    assert await wire.reader.read() == b""
    await gateway.until(lambda: gateway.counts[-1] == 0)


async def test_a_flood_of_frames_takes_turns_with_the_others(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = await gateway.wire()
    seen: list[int] = []
    turn = 0

    def count() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(count)

    monkeypatch.setattr(Connection, "_take", lambda connection, frame: seen.append(turn))
    count()
    frames = 2_000
    for number in range(frames):
        wire.say(type="typing", conversation_id="c1", typing=True, id=number)
    await gateway.until(lambda: len(seen) == frames)
    most = max(seen.count(one) for one in set(seen))
    assert most <= SOCKET_READ_BYTES // 60  # a frame of this flood has more bytes than that


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
    assert [door.__dict__ for door in doors if door.__dict__.get("_gate") is gateway.server._gate] == []


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
