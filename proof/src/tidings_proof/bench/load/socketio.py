"""Socket.IO as a dialect: Engine.IO 4 over WebSocket, without the long-polling part that comes before it otherwise.

A packet is a frame: `0` opens, `2` and `3` are ping and pong, `40` signs in, `42` is an event, `43` acknowledges one.
An event that wants an acknowledgement has its number between `42` and its arguments.
"""

from __future__ import annotations

import msgspec
from picows import WSFrame, WSMsgType, WSTransport, ws_connect

from tidings_proof.bench.load.connections import OPEN_S, Answer, Message, Socket, Tally, greeted
from tidings_proof.bench.load.dialects import NUMBER, Link, OnFrame

_PATH = "/socket.io/?EIO=4&transport=websocket"
_decode = msgspec.json.Decoder(tuple[str, Message]).decode


class IoSocket(Socket):
    """One connection in the default namespace."""

    def __init__(self, token: str, tally: Tally, on_frame: OnFrame) -> None:
        super().__init__(tally, on_frame)
        self._token = token

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        packet = frame.get_payload_as_bytes()
        kind = packet[:2]
        if kind == b"42":
            event, message = _decode(packet[2:])
            self._on_frame(Answer(type=event, message=message))
        elif kind == b"43":
            self._on_frame(Answer(id=int(packet[2 : packet.index(b"[")])))
        elif packet == b"2":
            transport.send(WSMsgType.TEXT, b"3")
        elif kind == b"40":
            self.hello.set_result(None)
        elif packet[:1] == b"0":
            transport.send(WSMsgType.TEXT, b"40" + msgspec.json.encode({"token": self._token}))
        else:
            self._tally.fail(f"an unexpected packet: {packet!r}")


class SocketIo:
    async def connect(self, url: str, token: str, tally: Tally, on_frame: OnFrame) -> Link:
        socket = IoSocket(token, tally, on_frame)
        await ws_connect(lambda: socket, f"ws{url.removeprefix('http')}{_PATH}", websocket_handshake_timeout=OPEN_S)
        await greeted(socket.hello, tally)
        return socket

    def message(self, conversation_id: str, prefix: str, text: str) -> bytes:
        content = msgspec.json.encode({"conversation_id": conversation_id, "text": text})[1:]
        return b'42%s["message.send",{"message_id":"%s%s",' % (NUMBER, prefix.encode(), NUMBER) + content + b"]"

    def request(self, request: str) -> bytes:
        raise NotImplementedError("it stores nothing that could be asked for")
