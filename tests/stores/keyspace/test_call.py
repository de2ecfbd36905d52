"""A call is a value: complete, but for the epoch of the connection it is written to."""

from __future__ import annotations

from tidings.clock import Clock
from tidings.stores.keyspace.call import Call, op_of, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.session import session_release
from tidings.stores.keyspace.server import open_keyspace
from tidings_proof.world.valkey import ValkeyProcess


def test_an_ordinary_command_needs_no_epoch_and_answers_as_the_server_does() -> None:
    call = plain("k", b"GET", "k")
    assert (call.key, call.words, call.epoch_at) == ("k", (b"GET", "k"), None)
    assert call.parse(b"raw") == b"raw"


def test_an_answer_is_read_as_the_caller_says() -> None:
    assert plain("k", b"GET", "k", parse=int).parse(b"7") == 7


def test_the_name_of_an_operation_is_the_scripts_and_commands_without_arguments() -> None:
    script = session_release(Keys(), "alice", "phone", lease="l1", now_ms=1)
    assert op_of([plain("k", b"GET", "k"), script, plain("l", "GET", "l")]) == "GET session_release"


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
