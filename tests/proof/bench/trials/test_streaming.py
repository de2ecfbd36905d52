"""Streaming: a watcher notes the delay of each piece, and misses none."""

from __future__ import annotations

import asyncio
from argparse import Namespace

import pytest

from tidings_proof.bench.load.connections import Answer, Tally
from tidings_proof.bench.trials.streaming import Piece, Watcher, checks_of, run


def appended(offset: int, text: str) -> Answer:
    return Answer("message.appended", offset=offset, text=text)


async def test_a_push_of_two_pieces_counts_for_both_and_the_last_one_is_the_end() -> None:
    tally = Tally()
    now_s = tally.now_s()
    watcher = Watcher(tally, [Piece(3, now_s - 2), Piece(6, now_s - 1), Piece(9, now_s)], 9)
    watcher.hear(Answer("message.new"))
    watcher.hear(appended(0, "t0 t1 "))
    assert tally.units == 2 and tally.latencies_s[0] >= 2 and 1 <= tally.latencies_s[1] < 2
    assert not watcher.has_all.is_set()
    watcher.hear(appended(6, "t2 "))
    assert tally.units == 3 and watcher.has_all.is_set() and not tally.failed.done()


async def test_a_piece_that_is_missing_ends_the_run() -> None:
    tally = Tally()
    Watcher(tally, [], 9).hear(appended(3, "t1 "))
    with pytest.raises(RuntimeError, match="0 characters"):
        await asyncio.wait_for(tally.failed, 60)


def test_half_of_the_pieces_may_take_thirty_milliseconds() -> None:
    assert checks_of({"p50_ms": 30.0})[0].is_met and not checks_of({"p50_ms": 30.1})[0].is_met


@pytest.mark.long
def test_a_short_run_measures_every_piece_at_every_watcher() -> None:
    found = run(Namespace(clients=3, seconds=1.0, rate=50.0))
    assert found.figures["watchers"] == 3 and 0 < found.figures["p50_ms"] <= found.figures["p99_ms"]
