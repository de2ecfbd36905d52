"""Senders in a process of their own, while something else happens: how long acknowledgements took, and when.

Each sends a message every PAUSE_S, unless told otherwise, in a conversation of its own. A process of their own, because
whoever makes the trouble that they are to witness is busy with it and would measure itself. Times are those of the
machine's monotonic clock, which all processes share, so the bench can cut out the stretches it wants.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import uvloop

from tidings_proof.bench.load.connections import Answer, Socket, Tally, connect
from tidings_proof.bench.load.generator import passed
from tidings_proof.bench.report.figures import percentile
from tidings_proof.bench.target.own_node import environment, token
from tidings_proof.bench.target.target import Target

PAUSE_S = 0.1


class Pairing(msgspec.Struct, frozen=True):
    token: str
    conversation_id: str


class Order(msgspec.Struct, frozen=True):
    url: str
    pairings: list[Pairing]
    pause_s: float = PAUSE_S


class Ack(msgspec.Struct, frozen=True, array_like=True):
    sent_s: float
    took_s: float


class Sender:
    def __init__(self, number: int, conversation_id: str) -> None:
        self._number = number
        self._conversation_id = conversation_id
        self._sent_s: dict[int, float] = {}
        self._last = 0
        self.acks: list[Ack] = []
        self.socket: Socket | None = None

    async def run(self, wait_s: float, pause_s: float) -> None:
        await asyncio.sleep(wait_s)
        while True:
            self._send()
            await asyncio.sleep(pause_s)

    def _send(self) -> None:
        assert self.socket is not None
        self._last += 1
        self._sent_s[self._last] = time.monotonic()
        frame = {"id": self._last, "type": "message.send", "conversation_id": self._conversation_id}
        self.socket.send(msgspec.json.encode({**frame, "message_id": f"s{self._number}-{self._last}", "text": "hi"}))

    def on_frame(self, answer: Answer) -> None:
        if answer.type == "ok" and answer.id is not None:
            sent_s = self._sent_s.pop(answer.id)
            self.acks.append(Ack(sent_s, time.monotonic() - sent_s))


async def run(order: Order) -> list[Ack]:
    """Until stdin ends."""
    tally = Tally()
    senders = [Sender(number, one.conversation_id) for number, one in enumerate(order.pairings)]
    for sender, one in zip(senders, order.pairings, strict=True):
        sender.socket = await connect(order.url, one.token, tally, sender.on_frame)
    pause_s = order.pause_s
    waits_s = [pause_s * number / len(senders) for number in range(len(senders))]
    sending = [asyncio.create_task(one.run(wait_s, pause_s)) for one, wait_s in zip(senders, waits_s, strict=True)]
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    await passed(tally, asyncio.to_thread(sys.stdin.buffer.read))
    for task in sending:
        task.cancel()
    return [ack for sender in senders for ack in sender.acks]


class Witness:
    """Witness: keeps what the senders saw, once they have ended."""

    def __init__(self) -> None:
        self.acks: list[Ack] = []

    def figures(self, *spans: tuple[float, float]) -> dict[str, float]:
        """Of what was sent in these spans, each from a time to another."""
        took_ms = [ack.took_s * 1000 for ack in self.acks if any(start <= ack.sent_s < end for start, end in spans)]
        p50, p99 = (round(percentile(took_ms, share), 2) for share in (0.5, 0.99))
        return {"ack_p50_ms": p50, "ack_p99_ms": p99, "acks": len(took_ms)}


@contextmanager
def senders(server: Target, count: int, pause_s: float = PAUSE_S) -> Iterator[Witness]:
    """They send until the block ends; then the witness knows what they saw."""
    ids = [server.direct(f"sender{number}", f"friend{number}") for number in range(count)]
    order = Order(server.url, [Pairing(token(f"sender{number}"), id_) for number, id_ in enumerate(ids)], pause_s)
    words = [sys.executable, "-m", "tidings_proof.bench.load.senders"]
    witness = Witness()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n", "the senders did not start"
        yield witness
        process.stdin.close()
        witness.acks = msgspec.json.decode(process.stdout.read(), type=list[Ack])


def main(words: Sequence[str] | None = None) -> None:
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run(order))))


if __name__ == "__main__":
    main()
