"""Loads of clients that come, come back, or want more than they may: connects, comebacks, and senders past their limit.

A connect is done with its hello, a comeback when every entry it missed is there and every conversation said complete, a
decision of the limiter when it is answered, stored or refused. `load_of` finds the load of any plan.
"""

from __future__ import annotations

import asyncio
from itertools import cycle

import msgspec

from tidings_proof.bench.load.connections import Answer, Socket, Tally, connect, in_turn
from tidings_proof.bench.load.dialects import TIDINGS, Dialect
from tidings_proof.bench.load.loads import ChannelLoad, Load, PairsLoad, ReadersLoad
from tidings_proof.bench.load.plan import AnyLoad, Channel, Comeback, Comebacks, Connects, Excess, Pair, Pairs, Readers

CAUGHT_UP_S = 120.0


class ConnectsLoad:
    def __init__(self, load: Connects, tally: Tally) -> None:
        self._load = load
        self._tally = tally
        self._tokens = cycle(load.tokens)
        self._is_stopped = False
        self._url = ""
        self._coming: list[asyncio.Task[None]] = []

    async def open(self, url: str) -> None:
        self._url = url

    def start(self) -> None:
        self._coming = [
            asyncio.create_task(self._come_and_go(), name=f"connects {number}") for number in range(self._load.at_once)
        ]

    async def finished(self) -> None:
        await asyncio.gather(*self._coming)

    def stop(self) -> None:
        self._is_stopped = True

    def under_way(self) -> int:
        return sum(not task.done() for task in self._coming)

    async def _come_and_go(self) -> None:
        try:
            while not self._is_stopped:
                since_s = self._tally.now_s()
                socket = await connect(self._url, next(self._tokens), self._tally, lambda answer: None)
                self._tally.done(since_s)
                await socket.leave()
        except Exception as error:
            self._tally.fail(f"a connect failed: {error!r}")


class Returning:
    """One client that comes back: every missed entry, then `resumed` for each conversation."""

    def __init__(self, client: Comeback, tally: Tally) -> None:
        self._client = client
        self._tally = tally
        self._left = len(client.resume)
        self._entries = 0
        self.is_done = asyncio.Event()

    async def run(self, url: str) -> None:
        since_s = self._tally.now_s()
        await connect(url, self._client.token, self._tally, self.on_frame, self._client.resume)
        await self.is_done.wait()
        self._tally.done(since_s)

    def on_frame(self, answer: Answer) -> None:
        if answer.type == "message.new":
            self._entries += 1
        elif answer.type == "resumed":
            self._left -= 1
            if not answer.complete or self._left < 0:
                self._tally.fail("a resume was not complete, or came twice")
            if self._left == 0:
                self._finish()

    def _finish(self) -> None:
        if self._entries != self._client.entries:
            self._tally.fail(f"{self._entries} entries instead of {self._client.entries}")
        self.is_done.set()


class ComebacksLoad:
    def __init__(self, load: Comebacks, tally: Tally) -> None:
        self._returning = [Returning(client, tally) for client in load.clients]
        self._url = ""
        self._everyone: asyncio.Future[list[None]] | None = None

    async def open(self, url: str) -> None:
        self._url = url

    def start(self) -> None:
        self._everyone = asyncio.gather(*(one.run(self._url) for one in self._returning))

    async def finished(self) -> None:
        assert self._everyone is not None
        await asyncio.wait_for(self._everyone, CAUGHT_UP_S)

    def stop(self) -> None:
        """All of them have come by then."""

    def under_way(self) -> int:
        return sum(not one.is_done.is_set() for one in self._returning)


class Pushing:
    """One sender past its limit: the next message when the last is decided. A refused message is given up."""

    def __init__(self, pair: Pair, number: int, load: Excess, tally: Tally) -> None:
        self._pair = pair
        self._in_flight = load.in_flight
        self._text = load.text
        self._tally = tally
        self._prefix = f"{load.run}-{number}-"
        self._since_s: dict[int, float] = {}
        self._last = 0
        self.is_stopped = False
        self.socket: Socket | None = None

    async def open(self, url: str) -> None:
        token = self._pair.sender_token
        self.socket = await connect(url, token, self._tally, self.on_answer, may_be_refused=True)

    def start(self) -> None:
        for _ in range(self._in_flight):
            self._send()

    def under_way(self) -> int:
        return len(self._since_s)

    def _send(self) -> None:
        assert self.socket is not None
        self._last += 1
        self._since_s[self._last] = self._tally.now_s()
        frame = {"id": self._last, "message_id": f"{self._prefix}{self._last}", "text": self._text}
        self.socket.send(self._packed("message.send", frame))

    def _packed(self, kind: str, frame: dict[str, object]) -> bytes:
        return msgspec.json.encode({"type": kind, "conversation_id": self._pair.conversation_id, **frame})

    def on_answer(self, answer: Answer) -> None:
        if answer.id is None or answer.id not in self._since_s:
            return
        if answer.type == "error":
            self._tally.refused += 1
            assert self.socket is not None
            self.socket.send(self._packed("message.abandon", {"message_id": f"{self._prefix}{answer.id}"}))
        self._tally.done(self._since_s.pop(answer.id))
        if not self.is_stopped:
            self._send()


class ExcessLoad:
    def __init__(self, load: Excess, tally: Tally) -> None:
        self._pushing = [Pushing(pair, number, load, tally) for number, pair in enumerate(load.senders)]

    async def open(self, url: str) -> None:
        await in_turn([lambda one=one: one.open(url) for one in self._pushing])  # type: ignore[misc]

    def start(self) -> None:
        for one in self._pushing:
            one.start()

    async def finished(self) -> None:
        await asyncio.Event().wait()  # never: the window ends it

    def stop(self) -> None:
        for one in self._pushing:
            one.is_stopped = True

    def under_way(self) -> int:
        return sum(one.under_way() for one in self._pushing)


def load_of(plan: AnyLoad, tally: Tally, dialect: Dialect = TIDINGS) -> Load:
    """The load of a plan. The first three are put on rivals too, in their dialects."""
    match plan:
        case Pairs():
            return PairsLoad(plan, tally, dialect)
        case Readers():
            return ReadersLoad(plan, tally, dialect)
        case Channel():
            return ChannelLoad(plan, tally, dialect)
        case Connects():
            return ConnectsLoad(plan, tally)
        case Comebacks():
            return ComebacksLoad(plan, tally)
        case Excess():
            return ExcessLoad(plan, tally)
