from __future__ import annotations

import asyncio
import socket as sockets
from collections import Counter
from typing import Any

import pytest

from tests.support.gateway.raw_websocket import BINARY, CLOSE, PING, PONG, TEXT, Wire
from tests.support.gateway.served import Gateway
from tests.support.gateway.standins import entry
from tidings.bounds import FRAGMENTS_MAX, FRAME_BYTES_MAX, PINGS_MAX, SOCKET_QUEUE_BYTES_MAX
from tidings.gateway import fairness, socket
from tidings.gateway.connection import Connection
from tidings.gateway.socket import Window
from tidings.pushes import MessageNew, Typing


@pytest.mark.parametrize(
    ("code", "frames"),
    [
        (1002, [{"opcode": TEXT, "payload": b"{}", "is_masked": False}]),
        (1002, [{"opcode": TEXT, "payload": b"{}", "rsv": 4}]),
        (1002, [{"opcode": TEXT, "payload": b"{}", "rsv": 1}]),
        (1002, [{"opcode": 3, "payload": b"{}"}]),
        (1002, [{"opcode": 11, "payload": b"{}"}]),
        (1002, [{"opcode": PING, "payload": b"x" * 126}]),
        (1002, [{"opcode": PING, "payload": b"", "fin": False}]),
        (1002, [{"opcode": 0, "payload": b"{}"}]),
        (1002, [{"opcode": TEXT, "payload": b"{", "fin": False}, {"opcode": TEXT, "payload": b"{}"}]),
        (1003, [{"opcode": BINARY, "payload": b"{}"}]),
        (1007, [{"opcode": TEXT, "payload": b'{"x":"\xff"}'}]),
        (1007, [{"opcode": TEXT, "payload": b'{"x":"\xed\xa0\x80"}'}]),
        (1007, [{"opcode": TEXT, "payload": b'"\xff', "fin": False}, {"opcode": 0, "payload": b'"'}]),
        (1009, [{"opcode": TEXT, "payload": b"x" * (FRAME_BYTES_MAX + 1)}]),
        (
            1009,
            [
                {"opcode": TEXT, "payload": b"x" * FRAME_BYTES_MAX, "fin": False},
                {"opcode": 0, "payload": b"x"},
            ],
        ),
        (
            1009,
            [{"opcode": TEXT, "payload": b"", "fin": False}]
            + [{"opcode": 0, "payload": b"", "fin": False}] * FRAGMENTS_MAX,
        ),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_what_the_rfc_forbids_closes_with_its_code(
    gateway: Gateway, code: int, frames: list[dict[str, Any]]
) -> None:
    wire = await gateway.wire()
    for frame in frames:
        wire.raw(**frame)
    assert await wire.closed() == code
    assert (await gateway.wire("bob")).ids == 1, "the node goes on"


async def test_a_text_in_pieces_is_put_together_and_may_be_interrupted_by_a_ping(gateway: Gateway) -> None:
    wire = await gateway.wire()
    whole = '{"id":5,"type":"ping","x":"é"}'.encode()
    wire.raw(TEXT, whole[:-4], fin=False)
    wire.raw(PING, b"mid")
    assert await wire.frame() == (PONG, b"mid")
    wire.raw(0, whole[-4:-3], fin=False)
    wire.raw(0, whole[-3:])
    assert await wire.hear() == {"type": "pong", "id": 5}


async def test_a_burst_of_many_sockets_is_spread_over_turns_and_each_keeps_its_order(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairness, "FRAMES_AT_ONCE", 8)
    wires = [await gateway.wire(user_id) for user_id in ("alice", "bob", "carol")]
    seen: list[tuple[int, str, str]] = []

    def receive(connection: Connection, text: str) -> None:
        assert connection.socket is not None
        seen.append((connection.socket._intake.turn, connection.user_id, text))

    monkeypatch.setattr(Connection, "receive", receive)
    for number in range(40):
        for wire in wires:
            wire.say_text(str(number))
    await gateway.until(lambda: len(seen) == 40 * len(wires))
    assert max(Counter(turn for turn, _, _ in seen).values()) <= 8 + len(wires)
    for user_id in ("alice", "bob", "carol"):
        assert [text for _, who, text in seen if who == user_id] == [str(number) for number in range(40)]


async def test_frames_that_wait_are_taken_before_the_close_behind_them(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairness, "FRAMES_AT_ONCE", 1)
    wire = await gateway.wire()
    seen: list[str] = []
    monkeypatch.setattr(Connection, "receive", lambda connection, text: seen.append(text))
    for number in range(40):
        wire.say_text(str(number))
    wire.raw(CLOSE, b"")
    await gateway.until(lambda: gateway.counts[-1] == 0)
    assert seen == [str(number) for number in range(40)]


async def test_a_frame_of_the_largest_size_is_taken(gateway: Gateway) -> None:
    wire = await gateway.wire()
    head = '{"id":5,"type":"ping","x":"'
    wire.say_text(head + "x" * (FRAME_BYTES_MAX - len(head) - 2) + '"}')
    assert (await wire.hear())["type"] == "pong"


async def test_no_compression_is_negotiated(gateway: Gateway) -> None:
    _, head = await Wire.handshake(gateway.port, Sec_WebSocket_Extensions="permessage-deflate")
    assert b" 101 " in head and b"extensions" not in head.lower()


async def test_a_flood_of_pings_is_closed(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for _ in range(PINGS_MAX + 1):
        wire.raw(PING, b"")
    assert await wire.closed() == 4013


async def test_a_flood_of_ping_frames_is_closed_too(gateway: Gateway) -> None:
    wire = await gateway.wire()
    for _ in range(PINGS_MAX + 1):
        wire.say(type="ping")
    assert await wire.closed() == 4013


async def test_a_clients_close_is_answered_with_its_code(gateway: Gateway) -> None:
    wire = await gateway.wire()
    wire.raw(CLOSE, (1000).to_bytes(2, "big") + b"bye")
    assert await wire.frame() == (CLOSE, (1000).to_bytes(2, "big"))
    assert await wire.reader.read() == b""
    await gateway.until(lambda: not gateway.hub.of_user("alice"))


async def slow_reader(gateway: Gateway, user_id: str) -> Wire:
    """A connected device with small kernel buffers that does not read."""
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", gateway.port))
    reader, writer = await asyncio.open_connection(sock=raw, limit=1024)
    wire = Wire(reader, writer)
    wire.writer.write(
        b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    await reader.readuntil(b"\r\n\r\n")
    await wire.connect(gateway.token(user_id))
    return wire


async def test_a_slow_reader_is_closed_and_its_queue_is_bounded(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "CLOSE_LINGER_S", 60.0)  # on a busy machine the queue is read in more than 5 s
    wire = await slow_reader(gateway, "alice")
    (outbound,) = gateway.hub.of_user("alice")
    event = MessageNew(entry(text="x" * 16_000), 1, False, 1)
    pushed = 0
    while gateway.hub.of_user("alice") and pushed < 10_000:
        outbound.push(event)
        pushed += 1
        if pushed % 50 == 0:
            assert outbound.socket.queued_bytes() < SOCKET_QUEUE_BYTES_MAX + 200_000  # type: ignore[attr-defined]
            await asyncio.sleep(0)
    assert pushed < 10_000
    assert await wire.closed() == 4008


async def test_momentary_events_are_dropped_long_before(gateway: Gateway) -> None:
    await slow_reader(gateway, "alice")
    (outbound,) = gateway.hub.of_user("alice")
    socket = outbound.socket  # type: ignore[attr-defined]
    event = MessageNew(entry(text="x" * 16_000), 1, False, 1)
    while socket.queued_bytes() <= SOCKET_QUEUE_BYTES_MAX // 4:
        outbound.push(event)
    queued = socket.queued_bytes()
    for _ in range(1000):
        outbound.push(Typing("c1", "bob", True))
    assert socket.queued_bytes() == queued
    outbound.push(event)
    assert socket.queued_bytes() > queued


async def test_whoever_sends_much_can_wait_for_the_reader(gateway: Gateway) -> None:
    wire = await slow_reader(gateway, "alice")
    (outbound,) = gateway.hub.of_user("alice")
    event = MessageNew(entry(text="x" * 16_000), 1, False, 1)

    async def push_all() -> None:
        for _ in range(300):  # several times the queue
            outbound.push(event)
            await outbound.drained()

    pushing = asyncio.create_task(push_all())
    for _ in range(300):
        assert (await wire.hear())["type"] == "message.new"
    await pushing


async def test_one_answer_may_be_larger_than_the_queue(gateway: Gateway) -> None:
    wire = await slow_reader(gateway, "alice")
    (outbound,) = gateway.hub.of_user("alice")
    gateway.log.entries["c1"] = [entry(seq_no=n, text="\x01" * 16_000) for n in range(1, 101)]
    wire.say(id=9, type="history", conversation_id="c1", limit=100)
    await gateway.until(lambda: outbound.socket.queued_bytes() > SOCKET_QUEUE_BYTES_MAX)  # type: ignore[attr-defined]
    outbound.push(MessageNew(entry(), 1, False, 1))
    assert len((await wire.hear())["messages"]) == 100
    assert (await wire.hear())["type"] == "message.new"


async def test_events_of_one_turn_arrive_in_order(gateway: Gateway) -> None:
    wire = await gateway.wire()
    (outbound,) = gateway.hub.of_user("alice")
    for n in range(100):
        outbound.push(MessageNew(entry(seq_no=n, text="x" * (n * 40)), n, False, n))
    assert [(await wire.hear())["message"]["seq"] for _ in range(100)] == list(range(100))


def test_a_window_forgets() -> None:
    window = Window()
    assert [window.is_over(0.0, 2, 10) for _ in range(4)] == [False, False, True, True]
    assert not window.is_over(11.0, 2, 10)
