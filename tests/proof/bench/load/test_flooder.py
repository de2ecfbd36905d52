"""What the flooder counts: what was due, what went out, and the answers by their code."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
from picows import WSMsgType

from tidings_proof.bench.claims.flood import checks_of
from tidings_proof.bench.load.flooder import HELD_BYTES, Code, Flooding, FloodOrder, Seen, flood

ORDER = FloodOrder(url="http://h", token="t", conversation_id="c1", per_s=1_000, sockets=1)


class Transport:
    """Keeps what was sent; says how much waits."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.waiting = 0
        self.underlying_transport = self

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def send(self, kind: WSMsgType, frame: bytes) -> None:
        self.frames.append(msgspec.json.decode(frame))
        self.waiting += len(frame)


def flooding(codes: Counter[str] | None = None) -> tuple[Flooding, Transport]:
    one, transport = Flooding(3, ORDER, codes if codes is not None else Counter()), Transport()
    one._transport = transport  # type: ignore[assignment]
    return one, transport


async def test_messages_have_ids_of_their_own() -> None:
    one, transport = flooding()
    assert one.send(3) == 3
    assert [(frame["id"], frame["message_id"]) for frame in transport.frames] == [(1, "f3-1"), (2, "f3-2"), (3, "f3-3")]
    assert {frame["conversation_id"] for frame in transport.frames} == {"c1"}


async def test_who_is_not_read_is_held_up() -> None:
    one, transport = flooding()
    sent = one.send(1_000_000)
    assert sent == len(transport.frames) and HELD_BYTES < transport.waiting < HELD_BYTES + 1_000
    assert one.send(5) == 0


async def test_answers_are_counted_by_code_and_events_are_not() -> None:
    codes: Counter[str] = Counter()
    one, _ = flooding(codes)
    one._hear(Code("hello", id=0))
    for answer in (Code("ok", id=1), Code("error", "held", 2), Code("error", "held", 3), Code("message.new")):
        one._hear(answer)
    assert codes == {"ok": 1, "held": 2}
    assert Seen(3, 3, dict(codes)).refused == 2


async def test_the_flood_keeps_its_rate_until_it_is_told_to_end() -> None:
    one, transport = flooding()
    told = asyncio.Event()

    async def end() -> bytes:
        await told.wait()
        return b""

    flooded = asyncio.create_task(flood([one], 10_000, asyncio.create_task(end())))
    async with asyncio.timeout(60):
        while len(transport.frames) < 50:
            await asyncio.sleep(0.001)
    told.set()
    seen = await flooded
    assert seen.sent == len(transport.frames) and seen.wanted >= seen.sent


def test_a_reject_that_is_not_audited_is_a_missed_target() -> None:
    figures = {"quiet": {"ack_p99_ms": 4.0}, "flood": {"ack_p99_ms": 5.0}, "flooder": {"refused": 7}, "audited": 6}
    assert [check.is_met for check in checks_of(figures)] == [True, False]
