"""One user who sends far too much, in a process of its own: so many messages a second over a few sockets, until told.

Bytes that the server does not read stay in the sender's own buffer. Past HELD_BYTES the sender waits, as a real client
in a hurry must. The process counts what it wanted to send, what went out, and the answers by their code.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from tidings_proof.bench.target.own_node import environment, token
from tidings_proof.bench.target.target import Target

TICK_S = 0.002
HELD_BYTES = 16 * 1024
SOCKET_BYTES = 32 * 1024  # of the kernel, for one socket: what waits there is answered long after the flood
ANSWERED_S = 120.0  # after the flood, for the answers that are due


class FloodOrder(msgspec.Struct, frozen=True):
    url: str
    token: str
    conversation_id: str
    per_s: int
    sockets: int


class Seen(msgspec.Struct):
    """`wanted` messages were due, `sent` went out; `answers` by code, `ok` among them."""

    wanted: int = 0
    sent: int = 0
    answers: dict[str, int] = {}

    @property
    def refused(self) -> int:
        return sum(count for code, count in self.answers.items() if code != "ok")


class Code(msgspec.Struct):
    type: str
    code: str | None = None
    id: int | None = None


_decode = msgspec.json.Decoder(Code).decode


class Flooding(WSListener):
    def __init__(self, number: int, order: FloodOrder, codes: Counter[str]) -> None:
        self.hello = asyncio.get_running_loop().create_future()
        self._order = order
        self._codes = codes
        self._transport: WSTransport | None = None
        frame = {"type": "message.send", "conversation_id": order.conversation_id, "text": "buy now"}
        rest = msgspec.json.encode(frame)[1:]
        self._frame = b'{"id":%d,"message_id":"f' + str(number).encode() + b'-%d",' + rest
        self._last = 0

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        plain: socket.socket = transport.underlying_transport.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        transport.send(WSMsgType.TEXT, msgspec.json.encode({"id": 0, "type": "connect", "token": self._order.token}))

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.PING:
            transport.send_pong(frame.get_payload_as_bytes())
        elif frame.msg_type == WSMsgType.TEXT:
            self._hear(_decode(frame.get_payload_as_bytes()))

    def _hear(self, answer: Code) -> None:
        if answer.type == "hello":
            self.hello.set_result(None)
        elif answer.id is not None:
            self._codes[answer.code or answer.type] += 1

    def send(self, count: int) -> int:
        """How many went out."""
        assert self._transport is not None
        for done in range(count):
            if self._transport.underlying_transport.get_write_buffer_size() > HELD_BYTES:
                return done
            self._last += 1
            self._transport.send(WSMsgType.TEXT, self._frame % (self._last, self._last))
        return count


async def run(order: FloodOrder) -> Seen:
    """Until stdin ends; then until every answer is there, or it takes too long."""
    codes: Counter[str] = Counter()
    sockets = [Flooding(number, order, codes) for number in range(order.sockets)]
    for one in sockets:
        await ws_connect(lambda one=one: one, f"ws{order.url.removeprefix('http')}/v1/ws")
        await one.hello
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read), name="told")
    seen = await flood(sockets, order.per_s, ended)
    deadline_s = time.monotonic() + ANSWERED_S
    while codes.total() < seen.sent and time.monotonic() < deadline_s:
        await asyncio.sleep(0.05)
    seen.answers = dict(codes)
    return seen


async def flood(sockets: Sequence[Flooding], per_s: int, ended: asyncio.Task[bytes]) -> Seen:
    seen, began_s = Seen(), time.monotonic()
    while not ended.done():
        due = int((time.monotonic() - began_s) * per_s) - seen.wanted
        seen.wanted += due
        share, more = divmod(due, len(sockets))
        seen.sent += sum(one.send(share + (at < more)) for at, one in enumerate(sockets))
        await asyncio.sleep(TICK_S)
    return seen


@contextmanager
def flooder(server: Target, conversation_id: str, user_id: str, *, per_s: int, sockets: int) -> Iterator[Seen]:
    """It floods until the block ends; then what it saw is filled in."""
    order = FloodOrder(server.url, token(user_id), conversation_id, per_s, sockets)
    words = [sys.executable, "-m", "tidings_proof.bench.load.flooder"]
    seen = Seen()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n", "the flooder did not start"
        yield seen
        process.stdin.close()
        found = msgspec.json.decode(process.stdout.read(), type=Seen)
        seen.wanted, seen.sent, seen.answers = found.wanted, found.sent, found.answers


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=FloodOrder)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run(order))))


if __name__ == "__main__":
    main()
