"""The keyspace on one server: values out of answers, and the right error for each refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.server import KeyspaceMistake, SingleKeyspace, open_keyspace, verdict
from tidings.stores.keyspace.wire import ErrorReply
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess, start_valkey


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyProcess]:
    process = start_valkey(tmp_path / "v")
    yield process
    process.stop()


@pytest.fixture
async def keyspace(valkey: ValkeyProcess) -> AsyncIterator[SingleKeyspace]:
    opened = await open_keyspace(valkey.url, (), Clock())
    yield opened
    await opened.close()


def set_key(key: str, value: str) -> Call[Any]:
    return plain(key, "SET", key, value)


def get_key(key: str) -> Call[str]:
    return Call(key, ("GET", key), lambda reply: str(reply, "ascii"))


async def test_answers_are_parsed_and_in_order_for_everyone_at_once(keyspace: Keyspace) -> None:
    async def own_thread(name: int) -> None:
        for turn in range(20):
            values = [f"{name}.{turn}.{n}" for n in range(1 + (name + turn) % 17)]
            keys = [f"k{name}:{n}" for n in range(len(values))]
            pairs = list(zip(keys, values, strict=True))
            both: list[Call[Any]] = [*(set_key(*pair) for pair in pairs), *(get_key(key) for key in keys)]
            assert await keyspace.run(both) == [b"OK"] * len(values) + values

    await asyncio.gather(*(own_thread(name) for name in range(50)))


async def test_one_call_and_no_call(keyspace: Keyspace) -> None:
    assert await keyspace.one(set_key("k", "v")) == b"OK"
    assert await keyspace.one(get_key("k")) == "v"
    assert await keyspace.run([]) == []


async def test_what_is_begun_is_sent_before_it_is_awaited(keyspace: Keyspace) -> None:
    begun = keyspace.begin([set_key("k", "v")])
    assert await keyspace.one(get_key("k")) == "v"
    assert await begun == [b"OK"]


async def test_a_link_that_is_down_is_met_by_whoever_awaits(keyspace: SingleKeyspace) -> None:
    await keyspace.close()
    begun = keyspace.begin([set_key("k", "v")])
    with pytest.raises(Unavailable):
        await begun


async def test_an_error_names_the_store_and_the_commands(keyspace: SingleKeyspace) -> None:
    await keyspace.close()
    with pytest.raises(Unavailable) as caught:
        await keyspace.run([get_key("k"), set_key("k", "v"), get_key("l")])
    assert (caught.value.store, caught.value.op) == ("keyspace", "GET SET")


async def test_the_epoch_names_the_life_of_the_server(valkey: ValkeyProcess, keyspace: SingleKeyspace) -> None:
    info = valkey.command("INFO", "server").decode()
    run_id = info.partition("run_id:")[2][:12]
    epoch = keyspace.epoch("any")
    assert epoch.startswith(f"{run_id}-") and len(epoch) == 25
    assert await keyspace.one(Call("k", ("ECHO",), bytes, epoch_at=1)) == epoch.encode()


async def test_down_and_up_again_is_told(valkey: ValkeyProcess, keyspace: SingleKeyspace) -> None:
    told: list[tuple[str, str]] = []
    keyspace.on_epoch(lambda old, new: told.append((old, new)))
    first = keyspace.epoch("k")
    valkey.kill()
    await eventually(lambda: not keyspace.is_up())
    with pytest.raises(Unavailable):
        keyspace.epoch("k")
    valkey.start()
    await eventually(keyspace.is_up)
    assert told == [(first, keyspace.epoch("k"))]


async def test_a_full_server_is_unavailable_and_ambiguity_is_told_truly(
    valkey: ValkeyProcess, keyspace: Keyspace
) -> None:
    valkey.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(Unavailable, match="OOM") as caught:
        await keyspace.run([set_key("a", "1"), set_key("b", "2")])
    assert not caught.value.is_ambiguous
    with pytest.raises(Unavailable) as caught:
        await keyspace.run([set_key("a", "1"), plain("b", "DEL", "b")])
    assert caught.value.is_ambiguous


@pytest.mark.parametrize("code", ["LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "OOM", "MISCONF"])
def test_passing_trouble_is_unavailable(code: str) -> None:
    error = verdict([set_key("k", "v")], [ErrorReply(f"{code} not now")])
    assert isinstance(error, Unavailable) and not error.is_ambiguous


async def test_a_mistake_of_ours_names_the_command_and_never_its_arguments(keyspace: Keyspace) -> None:
    await keyspace.one(set_key("k", "v"))
    with pytest.raises(KeyspaceMistake, match=r"^NOSUCH: ERR unknown command") as caught:
        await keyspace.one(plain("k", "NOSUCH", "secret", "words"))
    assert "secret" not in str(caught.value)
    with pytest.raises(KeyspaceMistake, match=r"^LPUSH: WRONGTYPE"):
        await keyspace.run([get_key("k"), plain("k", b"LPUSH", "k", "x")])
    assert await keyspace.one(get_key("k")) == "v"


def test_a_mistake_is_not_hidden_behind_passing_trouble() -> None:
    calls = [set_key("a", "1"), set_key("b", "2")]
    assert isinstance(verdict(calls, [ErrorReply("OOM full"), ErrorReply("ERR syntax error")]), KeyspaceMistake)


async def test_every_command_written_is_counted(valkey: ValkeyProcess) -> None:
    written: list[int] = []
    opened = await open_keyspace(valkey.url, ["#!lua\nreturn 1"], Clock(), written.append)
    before = sum(written)
    await asyncio.gather(*(opened.run([get_key("none") for _ in range(8)]) for _ in range(8)), return_exceptions=True)
    assert before > 0 and sum(written) - before == 64
    await opened.close()


async def test_a_node_of_a_cluster_is_refused(tmp_path: Path) -> None:
    ports = ("--port", str(free_port()), "--cluster-port", str(free_port()), "--bind", "127.0.0.1")
    valkey = start_valkey(tmp_path / "c", args=("--cluster-enabled", "yes", *ports))
    try:
        with pytest.raises(Unavailable, match="part of a cluster"):
            await open_keyspace(valkey.url, (), Clock())
    finally:
        valkey.stop()


async def test_a_bad_url_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="keyspace URL"):
        await open_keyspace("mysql://h", (), Clock())
