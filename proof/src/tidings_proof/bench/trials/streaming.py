"""A streamed answer at 100 pieces a second is at 50 watchers within 30 ms, half of the time or more.

One agent writes; every watcher is another user with one connection. The delay of a piece counts from the time at which
it was due, so an agent that falls behind shows in it. Agent and watchers share one process and one clock. A watcher
that misses a piece, or has another text at the end, ends the run without a figure.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from tidings.clock import Clock
from tidings_proof.bench.load.connections import Answer, Tally, connect
from tidings_proof.bench.load.generator import passed
from tidings_proof.bench.report.figures import percentile
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import folder, own_node, token
from tidings_proof.bench.target.processes import cpu_s
from tidings_proof.bench.target.seeding import group, tables_in
from tidings_proof.bench.target.target import Target

CLAIM = "pieces of a streamed answer at its watchers"
COLUMNS = ["watchers", "pieces/s", "p50 ms", "p95 ms", "p99 ms", "CPU us per piece and watcher"]
AGENT, PLACE = "agent", {"conversation_id": "answers", "message_id": "re-1"}
LATE_S = 60.0


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A piece of the answer: the characters up to `end`, due at this time."""

    end: int
    due_s: float


class Watcher:
    """A watcher checks that no character is missing, and notes the delay of each piece."""

    def __init__(self, tally: Tally, pieces: list[Piece], length: int) -> None:
        self._tally = tally
        self._pieces = pieces
        self._length = length
        self._next = 0  # the piece that is awaited
        self._text = ""
        self.has_all = asyncio.Event()

    def hear(self, answer: Answer) -> None:
        if answer.type != "message.appended":
            return
        if answer.offset != len(self._text):
            self._tally.fail(f"a watcher has {len(self._text)} characters, and the next piece is at {answer.offset}")
        self._text += answer.text
        while self._next < len(self._pieces) and self._pieces[self._next].end <= len(self._text):
            self._tally.done(self._pieces[self._next].due_s)
            self._next += 1
        if len(self._text) == self._length:
            self.has_all.set()


async def seed(data: Path, watchers: list[str]) -> None:
    async with tables_in(data) as tables:
        await group(tables, PLACE["conversation_id"], [AGENT, *watchers], 0, Clock().now_ms())


async def measure(server: Target, watchers: list[str], seconds: float, rate: float) -> dict[str, float]:
    tokens = [f"t{number} " for number in range(max(1, round(seconds * rate)))]
    tally, pieces = Tally(), list[Piece]()
    watching = [Watcher(tally, pieces, sum(map(len, tokens))) for _ in watchers]
    for user_id, one in zip(watchers, watching, strict=True):
        await connect(server.url, token(user_id), tally, one.hear)
    answers: asyncio.Queue[Answer] = asyncio.Queue()
    agent = await connect(server.url, token(AGENT), tally, answers.put_nowait)

    def say(kind: str, **more: Any) -> None:
        agent.send(msgspec.json.encode({"id": 1, "type": kind, **PLACE, **more}))

    async def write() -> None:
        say("message.begin")
        await answers.get()
        began_s, offset = tally.now_s(), 0
        for number, text in enumerate(tokens):
            due_s = began_s + number / rate
            await asyncio.sleep(max(0.0, due_s - tally.now_s()))
            pieces.append(Piece(offset + len(text), due_s))
            say("message.append", offset=offset, text=text)
            offset += len(text)
        async with asyncio.timeout(LATE_S):
            await asyncio.gather(*(one.has_all.wait() for one in watching))

    before, began_s = cpu_s(server.parts), time.perf_counter()
    await passed(tally, write())
    took_s, used_s = time.perf_counter() - began_s, sum(cpu_s(server.parts).values()) - sum(before.values())
    say("message.end")
    found_ms = [percentile(tally.latencies_s, share) * 1000 for share in (0.5, 0.95, 0.99)]
    p50_ms, p95_ms, p99_ms = (round(one, 2) for one in found_ms)
    return {
        "watchers": len(watchers),
        "pieces_per_s": round(len(tokens) / took_s, 1),
        "p50_ms": p50_ms,
        "p95_ms": p95_ms,
        "p99_ms": p99_ms,
        "cpu_us": round(used_s * 1e6 / tally.units, 1),
    }


def checks_of(figures: dict[str, float]) -> list[Check]:
    return [Check("append p50 at the watchers", figures["p50_ms"], "<=", 30, "ms")]


def run(given: Any) -> Findings:
    watchers = [f"w{number}" for number in range(given.clients)]
    with folder() as data:
        asyncio.run(seed(data, watchers))
        with own_node(data) as server:
            figures = uvloop.run(measure(server, watchers, given.seconds, given.rate))
    return Findings(
        claim=CLAIM,
        settings={"watchers": given.clients, "rate": given.rate, "seconds": given.seconds},
        figures=figures,
        columns=COLUMNS,
        rows=[list(figures.values())],
        checks=checks_of(figures),
    )
