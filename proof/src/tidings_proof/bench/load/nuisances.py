"""Nuisances: users who make work for a node that others should not notice, in a process of their own, until told.

A nuisance speaks the wire by hand, because no client library says these things or goes on after a close. Answers are
counted and thrown away. Bytes that the server does not read stay with the sender: past HELD_BYTES the sender waits. A
socket that the server closes is opened again.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import msgspec
import uvloop

from tidings.clock import Clock
from tidings_proof.bench.target.own_node import environment, token
from tidings_proof.bench.target.target import Target

TICK_S = 0.005
HELD_BYTES = 64 * 1024
ANSWERED_S = 120.0  # after a burst, for the answers that are due
ACKS = 200  # of one receipt frame: the most that the protocol allows
TOKEN_CHARS = 5_800  # near the longest that the server reads
NONSENSE = 25  # frames without sense, after which a server has closed the socket
PONGS = 200  # in one write after the close
GROUP = 100  # members of a group that is made
_ANSWERS = (b'"type":"ok"', b'"type":"error"', b"HTTP/1.1 ")
_TEXT, _PONG = 0x81, 0x8A
_clock = Clock()


class Nuisance(msgspec.Struct, frozen=True):
    """Order: the kind of nuisance, and one token for each of its sockets."""

    kind: str
    url: str
    tokens: list[str]
    conversation_id: str = ""  # a burst: the channel of everybody
    each: int = 1  # a burst: messages of each member


class Tally(msgspec.Struct):
    """Tally: the frames or requests that were sent, the answers, and the sockets that the server closed."""

    sent: int = 0
    answered: int = 0
    closed: int = 0


def masked(payload: bytes, kind: int = _TEXT) -> bytes:
    """Return a frame as a client sends it, with a mask of zeros."""
    size = len(payload)
    length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes((kind,)) + length + bytes(4) + payload


class Line:
    """Line: one TCP connection that speaks HTTP or, after `upgrade`, WebSocket frames by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tally: Tally) -> None:
        self._reader = reader
        self._writer = writer
        self._tally = tally
        self.is_open = True

    @classmethod
    async def open(cls, url: str, tally: Tally) -> Line:
        where = urlsplit(url)
        return cls(*await asyncio.open_connection(where.hostname, where.port), tally)

    async def upgrade(self) -> None:
        self.write(
            b"GET /v1/ws HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        )
        await self._reader.readuntil(b"\r\n\r\n")

    async def sign_in(self, mine: str) -> bytes:
        """Return what came up to the hello, and perhaps after it; raises EOFError when the server closes."""
        self.write(masked(json.dumps({"id": 1, "type": "connect", "token": mine}).encode()))
        said = b""
        while b'"type":"hello"' not in said:
            said += await self.read()
        return said

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    @property
    def is_full(self) -> bool:
        return self._writer.transport.get_write_buffer_size() > HELD_BYTES

    async def read(self) -> bytes:
        data = await self._reader.read(1 << 18)
        if not data:
            raise EOFError
        self._tally.answered += sum(data.count(one) for one in _ANSWERS)
        return data

    async def read_all(self) -> None:
        """Read until the server closes."""
        with suppress(OSError, EOFError):
            while True:
                await self.read()
        self._tally.closed += self.is_open
        self.close()

    def close(self) -> None:
        self.is_open = False
        self._writer.close()


class Sockets:
    """Sockets: signed-in lines, one for each token; a line that the server closed is opened again."""

    def __init__(self, order: Nuisance, tally: Tally) -> None:
        self._order = order
        self._tally = tally
        self._readers: set[asyncio.Task[None]] = set()
        self.lines: list[Line] = []

    async def open(self) -> None:
        self.lines = [await self._line(mine) for mine in self._order.tokens]

    async def open_again(self) -> None:
        for at, mine in enumerate(self._order.tokens):
            if not self.lines[at].is_open:
                with suppress(OSError, EOFError, asyncio.IncompleteReadError):
                    self.lines[at] = await self._line(mine)

    async def _line(self, mine: str) -> Line:
        line = await Line.open(self._order.url, self._tally)
        await line.upgrade()
        await line.sign_in(mine)
        task = asyncio.create_task(line.read_all(), name="reads")
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)
        return line

    def close(self) -> None:
        for line in self.lines:
            line.close()


# --- the kinds ------------------------------------------------------------------------------------


def stranger_send(number: int) -> bytes:
    """A message for a conversation that does not exist."""
    return b'{"id":%d,"type":"message.send","conversation_id":"no-%d","message_id":"n%d","text":"hi"}' % ((number,) * 3)


def invented_receipts(number: int) -> bytes:
    acks = ",".join(f'"no-{number}-{at}":1' for at in range(ACKS))
    return f'{{"type":"message.delivered","acks":{{{acks}}}}}'.encode()


def bad_refresh(number: int) -> bytes:
    """A long token that is false, and another one each time."""
    return b'{"id":%d,"type":"auth.refresh","token":"%s%08d"}' % (number, b"e" * TOKEN_CHARS, number)


def vain_abandon(number: int) -> bytes:
    return b'{"type":"message.abandon","conversation_id":"no-%d","message_id":"m"}' % number


FRAMES: dict[str, tuple[Callable[[int], bytes], int]] = {  # kind -> a frame by its number, and how many a second
    "strangers": (stranger_send, 5_000),
    "receipts": (invented_receipts, 250),
    "refresh": (bad_refresh, 1_000),
    "abandon": (vain_abandon, 5_000),
}
CLOSED_WRITES_PER_S = 4_000  # with PONGS frames of 6 bytes each: about 40 Mbit a second
KINDS = ("strangers", "receipts", "burst", "creates", "refresh", "abandon", "after_close")


async def flood(order: Nuisance, tally: Tally, ended: asyncio.Event) -> None:
    """Send the frames of a kind at their rate, over all sockets in turn."""
    frame_of, per_s = FRAMES[order.kind]
    sockets = Sockets(order, tally)
    await sockets.open()
    _say_ready()
    began_s, due = _clock.monotonic_s(), 0
    while not ended.is_set():
        wanted = int((_clock.monotonic_s() - began_s) * per_s)
        for number in range(due, wanted):
            line = sockets.lines[number % len(sockets.lines)]
            if line.is_open and not line.is_full:
                line.write(masked(frame_of(number)))
                tally.sent += 1
        due = wanted
        await sockets.open_again()
        await asyncio.sleep(TICK_S)
    sockets.close()


async def burst(order: Nuisance, tally: Tally, ended: asyncio.Event) -> None:
    """Every member of a channel sends `each` messages at once, within the limits of each."""
    sockets = Sockets(order, tally)
    await sockets.open()
    tally.answered = 0
    _say_ready()
    channel = order.conversation_id
    for number in range(order.each):
        for at, line in enumerate(sockets.lines):
            message = {"conversation_id": channel, "message_id": f"b{at}-{number}", "text": "hi"}
            line.write(masked(json.dumps({"id": 2 + number, "type": "message.send", **message}).encode()))
            tally.sent += 1
        await asyncio.sleep(0)
    deadline_s = _clock.monotonic_s() + ANSWERED_S
    while (tally.answered < tally.sent and _clock.monotonic_s() < deadline_s) or not ended.is_set():
        await asyncio.sleep(TICK_S)
    sockets.close()


async def creates(order: Nuisance, tally: Tally, ended: asyncio.Event) -> None:
    """Make groups of GROUP people over REST, one after another on each connection."""
    _say_ready()
    body = json.dumps({"kind": "group", "name": "spam", "members": [f"friend{at}" for at in range(GROUP)]}).encode()

    async def make(mine: str) -> None:
        line = await Line.open(order.url, tally)
        head = f"POST /v1/conversations HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {mine}\r\n"
        request = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        with suppress(OSError, EOFError):
            while not ended.is_set():
                line.write(request)
                tally.sent += 1
                await line.read()
        line.close()

    while not ended.is_set():
        await asyncio.gather(*(make(mine) for mine in order.tokens))


async def after_close(order: Nuisance, tally: Tally, ended: asyncio.Event) -> None:
    """Talk nonsense until the server closes, then go on with pongs. No token is needed for that."""
    _say_ready()
    block = masked(b"", _PONG) * PONGS
    while not ended.is_set():
        line = await Line.open(order.url, tally)
        with suppress(OSError, asyncio.IncompleteReadError):
            await line.upgrade()
            line.write(masked(b"{}") * NONSENSE)
            reads = asyncio.create_task(line.read_all(), name="reads")
            began_s, due = _clock.monotonic_s(), 0
            while line.is_open and not ended.is_set():
                wanted = int((_clock.monotonic_s() - began_s) * CLOSED_WRITES_PER_S)
                if not line.is_full:
                    line.write(block * (wanted - due))
                    tally.sent += wanted - due
                due = wanted
                await asyncio.sleep(TICK_S)
            line.close()
            await reads


Run = Callable[[Nuisance, Tally, asyncio.Event], Awaitable[None]]
RUNS: dict[str, Run] = {**dict.fromkeys(FRAMES, flood), "burst": burst, "creates": creates, "after_close": after_close}


# --- the process ----------------------------------------------------------------------------------


def _say_ready() -> None:
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()


async def run(order: Nuisance) -> Tally:
    """Make trouble until stdin ends."""
    tally, ended = Tally(), asyncio.Event()
    trouble = asyncio.ensure_future(RUNS[order.kind](order, tally, ended))
    told = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.read), name="told")
    await asyncio.wait((trouble, told), return_when=asyncio.FIRST_COMPLETED)
    ended.set()
    await trouble
    await told
    return tally


@contextmanager
def nuisance(server: Target, kind: str, user_ids: Sequence[str], channel: str = "", each: int = 1) -> Iterator[Tally]:
    """Make trouble until the block ends; then the tally is filled in."""
    order = Nuisance(kind, server.url, [token(user_id) for user_id in user_ids], channel, each)
    words = [sys.executable, "-m", "tidings_proof.bench.load.nuisances"]
    tally = Tally()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n", f"{kind} did not start"
        yield tally
        process.stdin.close()
        found = msgspec.json.decode(process.stdout.read(), type=Tally)
        tally.sent, tally.answered, tally.closed = found.sent, found.answered, found.closed


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Nuisance)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run(order))))


if __name__ == "__main__":
    main()
