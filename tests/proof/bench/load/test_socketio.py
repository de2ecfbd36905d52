"""Socket.IO as a dialect: what each packet means to a load."""

from __future__ import annotations

import json

import pytest

from tidings_proof.bench.load.connections import Answer, Message, Tally
from tidings_proof.bench.load.dialects import NUMBER
from tidings_proof.bench.load.socketio import IoSocket, SocketIo


class Wire:
    """Stands where a transport would: keeps what was sent."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def send(self, kind: object, packet: bytes) -> None:
        self.packets.append(packet)


class Packet:
    def __init__(self, raw: bytes) -> None:
        self.get_payload_as_bytes = lambda: raw


def hear(socket: IoSocket, wire: Wire, *packets: bytes) -> None:
    for one in packets:
        socket.on_ws_frame(wire, Packet(one))  # type: ignore[arg-type]


async def test_a_socket_signs_in_answers_pings_and_hears_events() -> None:
    heard, wire = list[Answer](), Wire()
    socket = IoSocket("secret", Tally(), heard.append)
    hear(socket, wire, b'0{"sid":"s"}', b'40{"sid":"t"}', b"2")
    assert wire.packets == [b'40{"token":"secret"}', b"3"] and socket.hello.done()
    hear(socket, wire, b'42["message.new",{"message_id":"run-1","seq":4,"text":"hi"}]', b'4312[{"seq":4}]')
    assert heard == [Answer(type="message.new", message=Message("run-1", 4)), Answer(type="ok", id=12)]


async def test_a_refused_sign_in_fails_the_run() -> None:
    tally = Tally()
    hear(IoSocket("bad", tally, lambda answer: None), Wire(), b'44{"message":"bad token"}')
    with pytest.raises(RuntimeError, match="bad token"):
        await tally.failed


def test_a_message_is_an_event_that_wants_an_acknowledgement() -> None:
    packet = SocketIo().message("c1", "run-", "hi").replace(NUMBER, b"7")
    assert packet.startswith(b"427[")
    assert json.loads(packet[3:]) == ["message.send", {"message_id": "run-7", "conversation_id": "c1", "text": "hi"}]
    with pytest.raises(NotImplementedError):
        SocketIo().request("{}")
