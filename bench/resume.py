"""2,000 clients that reconnect at once have all they missed within seconds, and those who are connected hardly notice.

Every client names the last seq it has in three conversations and is behind in each; it is caught up when the last of
its three `resumed` says complete. Meanwhile 20 connected senders each send a message every 100 ms in a conversation of
their own; their acknowledgement latency during the storm is compared with the time before it. The storm comes twice:
on a keyspace that knows none of these users, as after its loss, and on a warm one, as after a network's hiccup.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.common import Check, command_of, cpu_s, options, percentile, result, show, token, write
from bench.connections import Answer, Socket, Tally, connect
from bench.generator import passed
from bench.seeding import group, tables_in
from bench.servers import Server, folder, tidings

NAME = "resume"
CLAIM = "clients that reconnect at once, each behind in three conversations"
COLUMNS = ("", "caught up s", "clients/s", "CPU us a client", "ack p50 ms", "ack p99 ms", "acks")
EACH = 3  # conversations of a client
MESSAGES, HAD = 20, 10  # in each conversation, and how many of them a client has
SENDERS, PAUSE_S = 20, 0.1
STORM_S = 120.0
COLD, WARM = "keyspace cold", "keyspace warm"


def seen_by(number: int, clients: int) -> dict[str, int]:
    """Conversation `at` has the clients at, at+1 and at+2: everyone is in three."""
    return {f"c{(number - back) % clients}": HAD for back in range(EACH)}


async def seed(data: Path, clients: int) -> None:
    last_ms = int(time.time() * 1000) - 60_000
    async with tables_in(data) as tables:
        for start in range(0, clients, 200):
            numbers = range(start, min(start + 200, clients))
            users = {at: [f"client{(at + ahead) % clients}" for ahead in range(EACH)] for at in numbers}
            await asyncio.gather(*(group(tables, f"c{at}", users[at], MESSAGES, last_ms) for at in numbers))


class Sender:
    """One message every PAUSE_S; keeps how long each acknowledgement took."""

    def __init__(self, number: int, conversation_id: str, tally: Tally) -> None:
        self._number = number
        self._conversation_id = conversation_id
        self._tally = tally
        self._since_s: dict[int, float] = {}
        self._last = 0
        self.socket: Socket | None = None

    async def run(self) -> None:
        await asyncio.sleep(PAUSE_S * self._number / SENDERS)
        while True:
            self._send()
            await asyncio.sleep(PAUSE_S)

    def _send(self) -> None:
        assert self.socket is not None
        self._last += 1
        self._since_s[self._last] = time.perf_counter()
        frame = {"id": self._last, "type": "message.send", "conversation_id": self._conversation_id}
        self.socket.send(msgspec.json.encode({**frame, "message_id": f"s{self._number}-{self._last}", "text": "hi"}))

    def on_frame(self, answer: Answer) -> None:
        if answer.type == "ok" and answer.id is not None:
            self._tally.done(self._since_s.pop(answer.id))


class Comeback:
    """One client of the storm: entries in order, then `resumed` for each conversation."""

    def __init__(self, number: int, clients: int, tally: Tally) -> None:
        self._token = token(f"client{number}")
        self._resume = seen_by(number, clients)
        self._tally = tally
        self._left = EACH
        self._entries = 0
        self.is_done = asyncio.Event()

    async def run(self, port: int) -> None:
        await connect(port, self._token, self._tally, self.on_frame, self._resume)
        await self.is_done.wait()

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
        if self._entries != EACH * (MESSAGES - HAD):
            self._tally.fail(f"{self._entries} entries instead of {EACH * (MESSAGES - HAD)}")
        self.is_done.set()


def latencies(tally: Tally) -> dict[str, float]:
    found = {f"ack_p{share}_ms": round(percentile(tally.latencies_s, share / 100) * 1000, 2) for share in (50, 99)}
    return {**found, "acks": tally.units}


async def storm(server: Server, clients: int, tally: Tally) -> dict[str, float]:
    """All at once; until the last one is caught up."""
    coming = [Comeback(number, clients, tally) for number in range(clients)]
    tally.clear()
    cpu_before, began_s = cpu_s(server.parts), time.perf_counter()
    everyone = asyncio.gather(*(one.run(server.port) for one in coming))
    await passed(tally, asyncio.wait_for(everyone, STORM_S))
    took_s, cpu_after = time.perf_counter() - began_s, cpu_s(server.parts)
    used_us = sum(cpu_after[name] - cpu_before[name] for name in cpu_after) * 1e6
    return {"caught_up_s": round(took_s, 3), "cpu_us_per_client": round(used_us / clients, 1), **latencies(tally)}


async def run(server: Server, clients: int, seconds: float) -> dict[str, Any]:
    """The storms one after another, as if by the same users; who came before stays, as an older device."""
    tally = Tally()
    senders = [Sender(at, server.direct(f"sender{at}", f"friend{at}"), tally) for at in range(SENDERS)]
    for number, sender in enumerate(senders):
        sender.socket = await connect(server.port, token(f"sender{number}"), tally, sender.on_frame)
    sending = [asyncio.create_task(sender.run(), name="sender") for sender in senders]
    found: dict[str, Any] = {}
    try:
        for name in (COLD, WARM):
            await passed(tally, asyncio.sleep(1.0))
            tally.clear()
            await passed(tally, asyncio.sleep(seconds))
            before = latencies(tally)
            found[name] = {"before": before, "storm": await storm(server, clients, tally)}
    finally:
        for task in sending:
            task.cancel()
    return found


def checks_of(found: dict[str, Any]) -> list[Check]:
    warm = found[WARM]["storm"]
    return [
        Check("until all are caught up, keyspace warm", warm["caught_up_s"], "<=", 10, "s"),
        Check("ack p99 of the connected meanwhile", warm["ack_p99_ms"], "<=", 250, "ms"),
    ]


def rows(found: dict[str, Any], clients: int) -> list[tuple[object, ...]]:
    lines: list[tuple[object, ...]] = []
    for name, one in found.items():
        for label, figures in one.items():
            took_s = figures.get("caught_up_s", "")
            each = (took_s, clients / took_s if took_s else "", figures.get("cpu_us_per_client", ""))
            lines.append((f"{name}: {label}", *each, figures["ack_p50_ms"], figures["ack_p99_ms"], figures["acks"]))
    return lines


def main(words: Sequence[str] | None = None) -> None:
    parser = options(NAME, __doc__, seconds=5)
    parser.add_argument("--clients", type=int, default=2_000)
    given = parser.parse_args(words)
    with folder() as data:
        uvloop.run(seed(data, given.clients))
        with tidings(data) as server:
            found = uvloop.run(run(server, given.clients, given.seconds))
    settings = {
        "clients": given.clients,
        "conversations_each": EACH,
        "entries_missed_in_each": MESSAGES - HAD,
        "senders": SENDERS,
        "sends_per_s": SENDERS / PAUSE_S,
        "seconds": given.seconds,
    }
    finished = result(command_of(NAME, parser, given), CLAIM, settings, found, checks_of(found))
    show(finished, COLUMNS, rows(found, given.clients))
    write(finished, given.out)


if __name__ == "__main__":
    main()
