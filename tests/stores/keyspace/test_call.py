"""A call is a value: complete, but for the epoch of the connection it is written to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from tidings.clock import Clock
from tidings.stores.keyspace.call import SLICE_STEPS, Call, Slices, op_of, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.session import session_release
from tidings.stores.keyspace.server import open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

KEYS = (("a", 20), ("b", 22))


def test_an_ordinary_command_needs_no_epoch_and_answers_as_the_server_does() -> None:
    call = plain("k", b"GET", "k")
    assert (call.key, call.words, call.epoch_at) == ("k", (b"GET", "k"), None)
    assert call.parse(b"raw") == b"raw"


def test_an_answer_is_read_as_the_caller_says() -> None:
    assert plain("k", b"GET", "k", parse=int).parse(b"7") == 7


def test_the_name_of_an_operation_is_the_scripts_and_commands_without_arguments() -> None:
    script = session_release(Keys(), "alice", "phone", lease="l1", now_ms=1)
    assert op_of([plain("k", b"GET", "k"), script, plain("l", "GET", "l")]) == "GET session_release"


class Recorded:
    """Stands where a keyspace would: keeps the sizes of the runs, and lets others run in between."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def run(self, calls: Sequence[Call[Any]]) -> list[Any]:
        self.runs.append(f"{calls[0].key}{len(calls)}")
        await asyncio.sleep(0)
        return [call.parse(call.words[1]) for call in calls]


async def test_a_long_run_goes_in_slices_and_those_of_two_take_turns() -> None:
    keyspace = Recorded()
    slices = Slices(cast(Any, keyspace))
    long, longer = ([plain(key, b"ECHO", str(i), *["x"] * 98, parse=int) for i in range(n)] for key, n in KEYS)
    assert [*await asyncio.gather(slices.run(long), slices.run(longer))] == [list(range(20)), list(range(22))]
    assert keyspace.runs == [*["a5", "b5"] * 4, "b2"]
    keyspace.runs.clear()
    assert await slices.run(long[:10]) == list(range(10)) and await slices.run([]) == []
    assert keyspace.runs == ["a10"], "a batch of the usual size leaves at once"
    wide = plain("w", b"ECHO", "1", *["x"] * 2 * SLICE_STEPS, parse=int)
    assert await slices.run([wide, *long[:2], wide]) == [1, 0, 1, 1], "a call is never cut"


async def test_a_run_is_cut_by_what_its_calls_cost_the_server_and_not_by_their_words() -> None:
    keyspace = Recorded()
    dear = [Call("d", (b"ECHO", str(i)), int, steps=SLICE_STEPS // 2) for i in range(6)]
    assert await Slices(cast(Any, keyspace)).run(dear) == list(range(6))
    assert keyspace.runs == ["d2"] * 3
    assert plain("k", b"ECHO", "1").steps == 2


async def test_the_epoch_goes_in_where_the_call_says(valkey: ValkeyProcess) -> None:
    keyspace = await open_keyspace(valkey.url, (), Clock())
    try:
        echo = Call("k", (b"EVAL", "return {KEYS[1], ARGV[1], ARGV[2]}", 1, "k", "last"), list, epoch_at=4)
        assert await keyspace.one(echo) == [b"k", keyspace.epoch("k").encode(), b"last"]
    finally:
        await keyspace.close()


async def test_calls_of_one_run_are_answered_in_their_order(valkey: ValkeyProcess) -> None:
    keyspace = await open_keyspace(valkey.url, (), Clock())
    try:
        calls = [plain("calls.k", b"ECHO", str(i), parse=int) for i in range(500)]
        assert await keyspace.run(calls) == list(range(500))
        assert await keyspace.run([]) == []
    finally:
        await keyspace.close()
