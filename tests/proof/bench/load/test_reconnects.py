"""What counts as a comeback, and as a decision of the limiter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidings_proof.bench.load.connections import Answer, Tally
from tidings_proof.bench.load.plan import Comeback, Excess, Pair
from tidings_proof.bench.load.reconnects import Pushing, Returning


class Outgoing:
    """Stands where a connection would: keeps what was sent."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def send(self, frame: bytes) -> None:
        self.frames.append(msgspec.json.decode(frame))


def returning(tally: Tally) -> Returning:
    return Returning(Comeback("t", {"c1": 1, "c2": 1}, 2), tally)


async def test_a_client_is_back_when_all_it_missed_is_there_and_every_conversation_is_complete() -> None:
    one = returning(Tally())
    one.on_frame(Answer(type="message.new"))
    one.on_frame(Answer(type="resumed", complete=True))
    one.on_frame(Answer(type="message.new"))
    assert not one.is_done.is_set()
    one.on_frame(Answer(type="resumed", complete=True))
    assert one.is_done.is_set()


@pytest.mark.parametrize(("entries", "complete"), [(1, True), (3, True), (2, False)])
async def test_a_missing_entry_one_too_many_or_an_incomplete_resume_fails_the_run(entries: int, complete: bool) -> None:
    tally = Tally()
    one = returning(tally)
    for _ in range(entries):
        one.on_frame(Answer(type="message.new"))
    one.on_frame(Answer(type="resumed", complete=complete))
    one.on_frame(Answer(type="resumed", complete=True))
    with pytest.raises(RuntimeError, match=r"entries instead of 2|not complete"):
        await tally.failed


def pushing(tally: Tally) -> tuple[Pushing, Outgoing]:
    pair = Pair("one", "other", "c1")
    one, outgoing = Pushing(pair, 0, Excess([pair], "hi", "run", 1), tally), Outgoing()
    one.socket = outgoing  # type: ignore[assignment]
    one.start()
    return one, outgoing


async def test_a_refused_message_is_given_up_counted_and_followed_by_the_next() -> None:
    tally = Tally()
    one, outgoing = pushing(tally)
    one.on_answer(Answer(type="error", id=1, code="rate_limited"))
    assert (tally.units, tally.refused) == (1, 1)
    assert [(frame["type"], frame["message_id"]) for frame in outgoing.frames] == [
        ("message.send", "run-0-1"),
        ("message.abandon", "run-0-1"),
        ("message.send", "run-0-2"),
    ]
    one.on_answer(Answer(type="ok", id=2))
    assert (tally.units, tally.refused) == (2, 1)


async def test_a_sender_that_is_stopped_waits_for_its_last_answer_only() -> None:
    tally = Tally()
    one, outgoing = pushing(tally)
    one.is_stopped = True
    assert one.under_way() == 1
    one.on_answer(Answer(type="ok", id=1))
    one.on_answer(Answer(type="ok", id=1))
    assert (one.under_way(), tally.units, len(outgoing.frames)) == (0, 1, 1)
