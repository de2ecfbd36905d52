"""Loads of the generator: pairs that send and receive, readers that ask, and a channel with many listeners.

A message is done when its sender has the ok and its recipients have the message, each exactly once. After the window a
load is told to stop and finishes what is under way; what never comes to its end is a failure of the run, not a slow
message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from tidings_proof.bench.load.connections import Answer, Http, Message, Tally, in_turn, open_http
from tidings_proof.bench.load.dialects import NUMBER, TIDINGS, Dialect, Link
from tidings_proof.bench.load.plan import Channel, Pair, Pairs, Reader, Readers


class Load(Protocol):
    async def open(self, url: str) -> None: ...

    def start(self) -> None: ...

    async def finished(self) -> None:
        """Until a load that has an end has come to it."""
        ...

    def stop(self) -> None:
        """Nothing new from here on."""
        ...

    def under_way(self) -> int:
        """Count what has begun and has not ended."""
        ...


# --- pairs ----------------------------------------------------------------------------------------


class Sending:
    """One pair. A message is done when its sender has the ok and its recipient the message."""

    def __init__(self, pair: Pair, number: int, load: Pairs, tally: Tally, dialect: Dialect = TIDINGS) -> None:
        self._pair = pair
        self._tally = tally
        self._dialect = dialect
        self._is_paced = load.rate is not None
        self._halves: dict[int, tuple[float, bool | None]] = {}  # number -> (since, is_received of the half there is)
        self._last = 0
        self.is_stopped = False
        self._prefix = f"{load.run}-{number}-"
        self._frame = dialect.message(pair.conversation_id, self._prefix, load.text)
        self.socket: Link | None = None

    async def open(self, url: str) -> None:
        pair = self._pair
        connect = self._dialect.connect
        await connect(pair.recipient_url or url, pair.recipient_token, self._tally, self.on_received)
        self.socket = await connect(pair.sender_url or url, pair.sender_token, self._tally, self.on_answer)

    def under_way(self) -> int:
        return len(self._halves)

    def send(self, since_s: float) -> None:
        assert self.socket is not None
        self._last += 1
        self._halves[self._last] = (since_s, None)
        self.socket.send(self._frame.replace(NUMBER, b"%d" % self._last))

    def on_answer(self, answer: Answer) -> None:
        if answer.type == "ok" and answer.id is not None:
            self._half(answer.id, is_received=False)

    def on_received(self, answer: Answer) -> None:
        if answer.type != "message.new" or not isinstance(answer.message, Message):
            return
        message_id = answer.message.message_id or ""
        if message_id.startswith(self._prefix):  # others are left over from the load before
            self._half(int(message_id.removeprefix(self._prefix)), is_received=True)

    def _half(self, number: int, is_received: bool) -> None:
        since_s, half = self._halves.get(number, (0.0, is_received))
        if half is is_received:
            what = "received" if is_received else "acknowledged"
            self._tally.fail(f"message {self._prefix}{number} was {what} twice, or never sent")
            return
        if half is None:
            self._halves[number] = (since_s, is_received)
            return
        del self._halves[number]
        self._tally.done(since_s)
        if not self._is_paced and not self.is_stopped:
            self.send(self._tally.now_s())


class PairsLoad:
    def __init__(self, load: Pairs, tally: Tally, dialect: Dialect = TIDINGS) -> None:
        self._load = load
        self._tally = tally
        self.sending = [Sending(pair, number, load, tally, dialect) for number, pair in enumerate(load.pairs)]
        self._pacing: asyncio.Task[None] | None = None

    async def open(self, url: str) -> None:
        await in_turn([lambda one=one: one.open(url) for one in self.sending])  # type: ignore[misc]

    def start(self) -> None:
        if self._load.rate is not None:
            self._pacing = asyncio.create_task(self._pace(self._load.rate), name="pace")
            return
        for one in self.sending:
            for _ in range(self._load.in_flight):
                one.send(self._tally.now_s())

    async def finished(self) -> None:
        await asyncio.Event().wait()  # never: the window ends it

    def stop(self) -> None:
        for one in self.sending:
            one.is_stopped = True
        if self._pacing is not None:
            self._pacing.cancel()

    def under_way(self) -> int:
        return sum(one.under_way() for one in self.sending)

    async def _pace(self, rate: float) -> None:
        """Every message has its time, whatever became of the ones before; its latency counts from there."""
        began_s, number = self._tally.now_s(), 0
        while True:
            due_s = began_s + number / rate
            while (early_s := due_s - self._tally.now_s()) > 0:
                await asyncio.sleep(early_s)
            self._tally.late_s.append(-early_s)
            self.sending[number % len(self.sending)].send(due_s)
            number += 1


# --- readers --------------------------------------------------------------------------------------


class Asking:
    """One reader: the next request when the answer to the last one is there."""

    def __init__(
        self, reader: Reader, load: Readers, tally: Tally, on_end: Callable[[], None], dialect: Dialect = TIDINGS
    ) -> None:
        self._reader = reader
        self._dialect = dialect
        self._load = load
        self._tally = tally
        self._on_end = on_end
        self._requests: list[bytes] = []
        self._at = 0
        self._since_s = 0.0
        self.is_stopped = False
        self.is_waiting = False
        self.connection: Link | Http | None = None

    def _packed(self, request: str, host: str) -> bytes:
        if self._load.transport == "ws":
            return self._dialect.request(request)
        headers = self._reader.headers or {"Authorization": f"Bearer {self._reader.token}"}
        lines = [f"GET {request} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
        return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()

    async def open(self, url: str) -> None:
        self.prepare(urlsplit(url).netloc)
        if self._load.transport == "ws":
            self.connection = await self._dialect.connect(url, self._reader.token, self._tally, self.on_answer)
        else:
            self.connection = await open_http(url, self._tally, self.on_answer)

    def prepare(self, host: str) -> None:
        """The requests as bytes, so that none is packed while the clock runs."""
        self._requests = [self._packed(request, host) for request in self._reader.requests]

    def ask(self) -> None:
        assert self.connection is not None
        self._since_s = self._tally.now_s()
        self.is_waiting = True
        self.connection.send(self._requests[self._at % len(self._requests)])
        self._at += 1

    def on_answer(self, answer: Answer) -> None:
        if self._load.transport == "ws" and answer.id is None:
            return  # an event
        items = answer.messages if answer.messages is not None else answer.conversations
        if self._load.items is not None and len(items or ()) != self._load.items:
            self._tally.fail(f"{len(items or ())} items instead of {self._load.items}")
            return
        self.is_waiting = False
        self._tally.done(self._since_s)
        if self.is_stopped:
            return
        if self._load.is_once and self._at == len(self._requests):
            self._on_end()
        else:
            self.ask()


class ReadersLoad:
    def __init__(self, load: Readers, tally: Tally, dialect: Dialect = TIDINGS) -> None:
        self._left = len(load.readers)
        self._asking = [Asking(reader, load, tally, self._count_down, dialect) for reader in load.readers]
        self._all_done = asyncio.Event()

    async def open(self, url: str) -> None:
        await in_turn([lambda one=one: one.open(url) for one in self._asking])  # type: ignore[misc]

    def start(self) -> None:
        for one in self._asking:
            one.ask()

    async def finished(self) -> None:
        await self._all_done.wait()

    def stop(self) -> None:
        for one in self._asking:
            one.is_stopped = True

    def under_way(self) -> int:
        return sum(one.is_waiting for one in self._asking)

    def _count_down(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._all_done.set()


# --- a channel ------------------------------------------------------------------------------------


class Listener:
    """One member: every entry comes once, in its order. With `receipts`, frames with a place for the number, the member
    acknowledges each entry at once; real clients wait a moment, and acknowledge several together."""

    def __init__(self, on_post: Callable[[str], None], tally: Tally, receipts: Sequence[bytes] = ()) -> None:
        self._on_post = on_post
        self._tally = tally
        self._receipts = receipts
        self._last = 0
        self.socket: Link | None = None

    def on_frame(self, answer: Answer) -> None:
        if answer.type != "message.new" or not isinstance(answer.message, Message):
            return
        seq = answer.message.seq
        if self._last and seq != self._last + 1:
            self._tally.fail(f"entry {seq} came after entry {self._last}")
        self._last = seq
        if self.socket is not None:
            for receipt in self._receipts:
                self.socket.send(receipt % seq)
        self._on_post(answer.message.message_id or "")


def receipts_of(load: Channel) -> list[bytes]:
    """The frames of a member who has got a post, each with a place for its number. A read mark wants its answer."""
    id_ = load.conversation_id.encode()
    delivered = b'{"type":"message.delivered","acks":{"%b":%%d}}' % id_
    read = b'{"id":1,"type":"message.read","conversation_id":"%b","up_to_seq":%%d}' % id_
    return {"none": [], "delivered": [delivered], "read": [delivered, read]}[load.receipts]


class ChannelLoad:
    def __init__(self, load: Channel, tally: Tally, dialect: Dialect = TIDINGS) -> None:
        self._load = load
        self._tally = tally
        self._dialect = dialect
        self._needed = 1 + sum(map(len, load.listeners.values()))
        self._left: dict[int, int] = {}  # number -> the ok and the deliveries that have not come
        self._since_s: dict[int, float] = {}
        self._last = 0
        self._is_stopped = False
        self._prefix = f"{load.run}-"
        self._frame = dialect.message(load.conversation_id, self._prefix, load.text)
        self._receipts = receipts_of(load)
        self._socket: Link | None = None

    async def open(self, url: str) -> None:
        listening = [(where, token) for where, tokens in self._load.listeners.items() for token in tokens]
        await in_turn([lambda one=one: self._listen(*one) for one in listening])  # type: ignore[misc]
        self._socket = await self._dialect.connect(url, self._load.sender_token, self._tally, self._on_answer)

    async def _listen(self, url: str, token: str) -> None:
        listener = Listener(self._on_post, self._tally, self._receipts)
        listener.socket = await self._dialect.connect(url, token, self._tally, listener.on_frame)

    def start(self) -> None:
        for _ in range(self._load.in_flight):
            self._send()

    async def finished(self) -> None:
        await asyncio.Event().wait()  # never: the window ends it

    def stop(self) -> None:
        self._is_stopped = True

    def under_way(self) -> int:
        return len(self._left)

    def _send(self) -> None:
        assert self._socket is not None
        self._last += 1
        self._left[self._last] = self._needed
        self._since_s[self._last] = self._tally.now_s()
        self._socket.send(self._frame.replace(NUMBER, b"%d" % self._last))

    def _on_answer(self, answer: Answer) -> None:
        if answer.type != "ok" or answer.id is None:
            return
        self._tally.latencies_s.append(self._tally.now_s() - self._since_s.pop(answer.id))
        self._count(answer.id)
        if not self._load.waits_for_all:
            self._go_on()

    def _go_on(self) -> None:
        if not self._is_stopped:
            self._send()

    def _on_post(self, message_id: str) -> None:
        if message_id.startswith(self._prefix):  # others are left over from the load before
            self._count(int(message_id.removeprefix(self._prefix)))

    def _count(self, number: int) -> None:
        self._left[number] -= 1
        if self._left[number] == 0:
            del self._left[number]
            self._tally.units += 1
            if self._load.waits_for_all:
                self._go_on()
