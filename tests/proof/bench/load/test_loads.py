"""What the generator counts: whole messages and right answers, nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidings_proof.bench.load.connections import Answer, Message, Tally
from tidings_proof.bench.load.generator import drain
from tidings_proof.bench.load.loads import Asking, PairsLoad, Sending
from tidings_proof.bench.load.plan import Pair, Pairs, Reader, Readers


class Outgoing:
    """Stands where a connection would: keeps what was sent."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(msgspec.json.decode(frame))


def sending(tally: Tally, **load: Any) -> tuple[Sending, Outgoing]:
    pair = Pair("one", "other", "c1")
    one, outgoing = Sending(pair, 7, Pairs([pair], "100 %", "run", **load), tally), Outgoing()
    one.socket = outgoing  # type: ignore[assignment]
    return one, outgoing


def received(number: int) -> Answer:
    return Answer(type="message.new", message=Message(f"run-7-{number}"))


async def test_a_message_is_done_when_it_is_acknowledged_and_received() -> None:
    tally = Tally()
    one, outgoing = sending(tally)
    one.send(0.0)
    assert outgoing.frames == [
        {"id": 1, "message_id": "run-7-1", "type": "message.send", "conversation_id": "c1", "text": "100 %"}
    ]
    one.on_answer(Answer(type="ok", id=1))
    assert (tally.units, len(outgoing.frames)) == (0, 1)
    one.on_received(received(1))
    assert (tally.units, len(outgoing.frames)) == (1, 2)


async def test_the_order_of_the_two_halves_does_not_matter() -> None:
    tally = Tally()
    one, _ = sending(tally)
    one.send(0.0)
    one.send(0.0)
    one.on_received(received(2))
    one.on_answer(Answer(type="ok", id=1))
    assert tally.units == 0
    one.on_answer(Answer(type="ok", id=2))
    one.on_received(received(1))
    assert tally.units == 2


async def test_a_message_that_comes_twice_fails_the_run() -> None:
    tally = Tally()
    one, _ = sending(tally)
    one.send(0.0)
    one.on_received(received(1))
    one.on_received(received(1))
    assert tally.units == 0
    with pytest.raises(RuntimeError, match="run-7-1 was received twice"):
        await tally.failed


async def test_a_message_that_comes_again_after_it_was_done_fails_the_run() -> None:
    tally = Tally()
    one, _ = sending(tally)
    one.send(0.0)
    one.on_received(received(1))
    one.on_answer(Answer(type="ok", id=1))
    one.on_received(received(1))
    with pytest.raises(RuntimeError, match="run-7-1 was received twice"):
        await tally.failed


async def test_what_is_left_of_an_earlier_load_is_not_counted() -> None:
    tally = Tally()
    one, _ = sending(tally)
    one.send(0.0)
    one.on_received(Answer(type="message.new", message=Message("earlier-7-1")))
    one.on_answer(Answer(type="ok", id=1))
    assert tally.units == 0 and not tally.failed.done()


async def test_a_message_that_nobody_receives_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings_proof.bench.load.generator.DRAIN_S", 0.1)
    tally, pair = Tally(), Pair("one", "other", "c1")
    load = PairsLoad(Pairs([pair], "hi", "run", in_flight=1), tally)
    load.sending[0].socket = Outgoing()  # type: ignore[assignment]
    load.start()
    load.sending[0].on_answer(Answer(type="ok", id=1))
    with pytest.raises(RuntimeError, match="1 did not come to their end"):
        await drain(load, tally)


async def test_a_load_that_has_finished_is_drained_and_sends_no_more() -> None:
    tally, pair, outgoing = Tally(), Pair("one", "other", "c1"), Outgoing()
    load = PairsLoad(Pairs([pair], "hi", "run", in_flight=1), tally)
    load.sending[0].socket = outgoing  # type: ignore[assignment]
    load.start()
    load.stop()
    load.sending[0].on_answer(Answer(type="ok", id=1))
    load.sending[0].on_received(Answer(type="message.new", message=Message("run-0-1")))
    await drain(load, tally)
    assert (tally.units, len(outgoing.frames)) == (1, 1)


async def test_a_paced_sender_does_not_send_because_a_message_is_done() -> None:
    tally = Tally()
    one, outgoing = sending(tally, rate=500.0)
    one.send(0.0)
    one.on_answer(Answer(type="ok", id=1))
    one.on_received(received(1))
    assert (tally.units, len(outgoing.frames)) == (1, 1)


def asking(tally: Tally, ended: list[bool], **load: Any) -> tuple[Asking, Outgoing]:
    reader = Reader("token", ['{"type":"inbox","limit":2}', '{"type":"inbox","limit":3}'])
    one, outgoing = Asking(reader, Readers([reader], **load), tally, lambda: ended.append(True)), Outgoing()
    one.prepare("h")
    one.connection = outgoing  # type: ignore[assignment]
    return one, outgoing


async def test_a_reader_goes_round_and_passes_over_events() -> None:
    tally = Tally()
    one, outgoing = asking(tally, [])
    one.ask()
    one.on_answer(Answer(type="presence"))
    assert tally.units == 0
    one.on_answer(Answer(id=1))
    one.on_answer(Answer(id=1))
    assert [frame["limit"] for frame in outgoing.frames] == [2, 3, 2]
    assert tally.units == 2


async def test_a_single_pass_ends_after_the_last_request() -> None:
    tally, ended = Tally(), list[bool]()
    one, outgoing = asking(tally, ended, is_once=True)
    one.ask()
    one.on_answer(Answer(id=1))
    assert not ended
    one.on_answer(Answer(id=1))
    assert ended == [True] and len(outgoing.frames) == 2


async def test_an_answer_with_too_few_items_fails_the_run() -> None:
    tally = Tally()
    one, _ = asking(tally, [], items=2)
    one.ask()
    one.on_answer(Answer(id=1, conversations=[msgspec.Raw(b"{}")]))
    assert tally.units == 0
    with pytest.raises(RuntimeError, match="1 items instead of 2"):
        await tally.failed
