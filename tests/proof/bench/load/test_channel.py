"""What the channel load counts: a post is done when its sender has the ok and every listener has it, in order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidings_proof.bench.load.connections import Answer, Message, Tally
from tidings_proof.bench.load.loads import ChannelLoad, Listener, receipts_of
from tidings_proof.bench.load.plan import Channel, Plan
from tidings_proof.bench.load.reconnects import load_of


class Outgoing:
    """Stands where a connection would: keeps what was sent."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(msgspec.json.decode(frame))


def channel(tally: Tally, *, in_flight: int = 1) -> tuple[ChannelLoad, Outgoing, list[Listener]]:
    load = load_of(Channel("c1", "s", {"1": ["a"], "2": ["b"]}, "hi", "run", in_flight), tally)
    assert isinstance(load, ChannelLoad)
    outgoing = Outgoing()
    load._socket = outgoing  # type: ignore[assignment]
    return load, outgoing, [Listener(load._on_post, tally) for _ in range(2)]


def post(number: int, seq: int) -> Answer:
    return Answer(type="message.new", message=Message(f"run-{number}", seq))


async def test_a_post_is_done_when_it_is_acknowledged_and_everyone_has_it() -> None:
    tally = Tally()
    load, outgoing, (one, other) = channel(tally)
    load.start()
    assert outgoing.frames[0]["message_id"] == "run-1"
    one.on_frame(post(1, 7))
    load._on_answer(Answer(type="ok", id=1))
    assert (tally.units, len(tally.latencies_s), load.under_way()) == (0, 1, 2)
    other.on_frame(post(1, 7))
    assert (tally.units, load.under_way()) == (1, 1)


async def test_a_listener_with_receipts_acknowledges_each_post_at_once() -> None:
    outgoing = Outgoing()
    channel = Channel("c1", "s", {"1": ["a"]}, "hi", "run", 1, receipts="read")
    listener = Listener(lambda message_id: None, Tally(), receipts_of(channel))
    listener.socket = outgoing  # type: ignore[assignment]
    listener.on_frame(post(1, 7))
    delivered, read = outgoing.frames
    assert delivered == {"type": "message.delivered", "acks": {"c1": 7}}
    assert read == {"id": 1, "type": "message.read", "conversation_id": "c1", "up_to_seq": 7}


async def test_the_next_post_follows_the_acknowledgement_until_the_load_stops() -> None:
    load, outgoing, _ = channel(Tally(), in_flight=2)
    load.start()
    load._on_answer(Answer(type="ok", id=1))
    assert [frame["id"] for frame in outgoing.frames] == [1, 2, 3]
    load.stop()
    load._on_answer(Answer(type="ok", id=2))
    assert len(outgoing.frames) == 3


async def test_the_next_post_may_wait_until_everyone_has_the_last_one() -> None:
    tally, outgoing = Tally(), Outgoing()
    load = ChannelLoad(Channel("c1", "s", {"1": ["a"]}, "hi", "run", 1, waits_for_all=True), tally)
    load._socket = outgoing  # type: ignore[assignment]
    load.start()
    load._on_answer(Answer(type="ok", id=1))
    assert len(outgoing.frames) == 1
    Listener(load._on_post, tally).on_frame(post(1, 7))
    assert [frame["id"] for frame in outgoing.frames] == [1, 2]


async def test_a_listener_that_misses_an_entry_or_hears_it_twice_fails_the_run() -> None:
    for seqs in ((7, 9), (7, 7)):
        tally = Tally()
        load, _, (one, _) = channel(tally, in_flight=3)
        load.start()
        for number, seq in enumerate(seqs, start=1):
            one.on_frame(post(number, seq))
        with pytest.raises(RuntimeError, match="came after entry 7"):
            await tally.failed


async def test_posts_of_an_earlier_load_are_not_counted() -> None:
    tally = Tally()
    load, _, (one, _) = channel(tally)
    load.start()
    one.on_frame(Answer(type="message.new", message=Message("before-1", 3)))
    assert load.under_way() == 1 and not tally.failed.done()


def test_a_channel_survives_the_way_to_the_generator() -> None:
    plan = Plan(url="http://h", parts={"node": [1]}, load=Channel("c1", "s", {"http://h": ["a"]}, "hi", "run"))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
