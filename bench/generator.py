"""The load generator: sockets of many users in one process, pinned to one core where the machine has several.

It reads a plan from stdin and writes what it measured to stdout. The window opens after the warm-up; the server's CPU
is read at both of its ends, here, so that nothing else is in it. An answer that is an error, or has another number of
items than the plan says, ends the run: a wrong answer is never counted as a fast one.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
import uvloop

from bench.common import cpu_s, percentile
from bench.connections import Answer, Http, Message, Socket, Tally, connect, in_turn
from bench.plan import Measured, Pair, Pairs, Plan, Reader, Readers


class Load(Protocol):
    async def open(self, port: int) -> None: ...

    def start(self) -> None: ...

    async def finished(self) -> None:
        """Until a load that has an end has come to it."""
        ...


# --- pairs ----------------------------------------------------------------------------------------


class Sending:
    """One pair. A message is done when its sender has the ok and its recipient the message."""

    def __init__(self, pair: Pair, number: int, load: Pairs, tally: Tally) -> None:
        self._pair = pair
        self._tally = tally
        self._is_paced = load.rate is not None
        self._halves: dict[int, tuple[float, bool]] = {}  # number -> (since, is one half there)
        self._last = 0
        prefix = f"{load.run}-{number}-"
        frame = {"type": "message.send", "conversation_id": pair.conversation_id, "text": load.text}
        rest = msgspec.json.encode(frame)[1:].replace(b"%", b"%%")
        self._frame = b'{"id":%d,"message_id":"' + prefix.encode() + b'%d",' + rest
        self.socket: Socket | None = None

    async def open(self, port: int) -> None:
        await connect(port, self._pair.recipient_token, self._tally, self.on_received)
        self.socket = await connect(port, self._pair.sender_token, self._tally, self.on_answer)

    def send(self, since_s: float) -> None:
        assert self.socket is not None
        self._last += 1
        self._halves[self._last] = (since_s, False)
        self.socket.send(self._frame % (self._last, self._last))

    def on_answer(self, answer: Answer) -> None:
        if answer.type == "ok" and answer.id is not None:
            self._half(answer.id)

    def on_received(self, answer: Answer) -> None:
        if answer.type == "message.new" and isinstance(answer.message, Message) and answer.message.message_id:
            self._half(int(answer.message.message_id.rpartition("-")[2]))

    def _half(self, number: int) -> None:
        since_s, is_other_there = self._halves[number]
        if not is_other_there:
            self._halves[number] = (since_s, True)
            return
        del self._halves[number]
        self._tally.done(since_s)
        if not self._is_paced:
            self.send(time.perf_counter())


class PairsLoad:
    def __init__(self, load: Pairs, tally: Tally) -> None:
        self._load = load
        self._tally = tally
        self._sending = [Sending(pair, number, load, tally) for number, pair in enumerate(load.pairs)]
        self._pacing: asyncio.Task[None] | None = None

    async def open(self, port: int) -> None:
        await in_turn([lambda one=one: one.open(port) for one in self._sending])  # type: ignore[misc]

    def start(self) -> None:
        if self._load.rate is not None:
            self._pacing = asyncio.create_task(self._pace(self._load.rate), name="pace")
            return
        for one in self._sending:
            for _ in range(self._load.in_flight):
                one.send(time.perf_counter())

    async def finished(self) -> None:
        await asyncio.Event().wait()  # never: the window ends it

    async def _pace(self, rate: float) -> None:
        """Every message has its time, whatever became of the ones before; its latency counts from there."""
        began_s, number = time.perf_counter(), 0
        while True:
            due_s = began_s + number / rate
            while (early_s := due_s - time.perf_counter()) > 0:
                await asyncio.sleep(early_s)
            self._tally.late_s.append(-early_s)
            self._sending[number % len(self._sending)].send(due_s)
            number += 1


# --- readers --------------------------------------------------------------------------------------


class Asking:
    """One reader: the next request when the answer to the last one is there."""

    def __init__(self, reader: Reader, load: Readers, tally: Tally, on_end: Callable[[], None]) -> None:
        self._reader = reader
        self._load = load
        self._tally = tally
        self._on_end = on_end
        self._requests = [self._packed(request) for request in reader.requests]
        self._at = 0
        self._since_s = 0.0
        self.connection: Socket | Http | None = None

    def _packed(self, request: str) -> bytes:
        if self._load.transport == "ws":
            return b'{"id":1,' + request.encode()[1:]
        authorization = f"Authorization: Bearer {self._reader.token}"
        return f"GET {request} HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}\r\n\r\n".encode()

    async def open(self, port: int) -> None:
        if self._load.transport == "ws":
            self.connection = await connect(port, self._reader.token, self._tally, self.on_answer)
            return
        loop = asyncio.get_running_loop()
        _, self.connection = await loop.create_connection(lambda: Http(self._tally, self.on_answer), "127.0.0.1", port)

    def ask(self) -> None:
        assert self.connection is not None
        self._since_s = time.perf_counter()
        self.connection.send(self._requests[self._at % len(self._requests)])
        self._at += 1

    def on_answer(self, answer: Answer) -> None:
        if self._load.transport == "ws" and answer.id is None:
            return  # an event
        items = answer.messages if answer.messages is not None else answer.conversations
        if self._load.items is not None and len(items or ()) != self._load.items:
            self._tally.fail(f"{len(items or ())} items instead of {self._load.items}")
            return
        self._tally.done(self._since_s)
        if self._load.is_once and self._at == len(self._requests):
            self._on_end()
        else:
            self.ask()


class ReadersLoad:
    def __init__(self, load: Readers, tally: Tally) -> None:
        self._left = len(load.readers)
        self._asking = [Asking(reader, load, tally, self._count_down) for reader in load.readers]
        self._all_done = asyncio.Event()

    async def open(self, port: int) -> None:
        await in_turn([lambda one=one: one.open(port) for one in self._asking])  # type: ignore[misc]

    def start(self) -> None:
        for one in self._asking:
            one.ask()

    async def finished(self) -> None:
        await self._all_done.wait()

    def _count_down(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._all_done.set()


# --- the window -----------------------------------------------------------------------------------


async def run(plan: Plan) -> Measured:
    tally = Tally()
    load: Load = PairsLoad(plan.load, tally) if isinstance(plan.load, Pairs) else ReadersLoad(plan.load, tally)
    await load.open(plan.port)
    is_once = isinstance(plan.load, Readers) and plan.load.is_once
    if not is_once:
        load.start()
        await passed(tally, asyncio.sleep(plan.warm_up_s))
        tally.clear()
    server_s, own_s, began_s = cpu_s(plan.parts), time.process_time(), time.perf_counter()
    if is_once:
        load.start()
    await passed(tally, load.finished() if is_once else asyncio.sleep(plan.seconds))
    seconds = time.perf_counter() - began_s
    server_end_s, own_end_s = cpu_s(plan.parts), time.process_time()
    return Measured(
        units=tally.units,
        seconds=seconds,
        cpu_s={name: server_end_s[name] - server_s[name] for name in server_s},
        p50_ms=percentile(tally.latencies_s, 0.5) * 1000,
        p99_ms=percentile(tally.latencies_s, 0.99) * 1000,
        late_p99_ms=percentile(tally.late_s, 0.99) * 1000,
        generator_share=(own_end_s - own_s) / seconds,
    )


async def passed(tally: Tally, until: Awaitable[None]) -> None:
    """Until it is over, or the load has failed."""
    task = asyncio.ensure_future(until)
    await asyncio.wait((task, tally.failed), return_when=asyncio.FIRST_COMPLETED)
    if tally.failed.done():
        await tally.failed


def main() -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        os.sched_setaffinity(0, {max(cores)})
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    try:
        measured = uvloop.run(run(plan))
    except RuntimeError as error:
        raise SystemExit(f"generator: {error}") from None
    sys.stdout.buffer.write(msgspec.json.encode(measured))


if __name__ == "__main__":
    main()
