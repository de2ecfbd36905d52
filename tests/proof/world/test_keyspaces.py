"""Keyspaces that can be hurt: a tail that is cut off, a failover that loses one, and what may not be done to whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tidings.clock import Dice
from tidings_proof.world.keyspaces import AnyKeyspace, ClusterKeyspace, EmbeddedKeyspace, OneValkey, faketime_library
from tidings_proof.world.valkey import ask_all


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[OneValkey]:
    keyspace = OneValkey(tmp_path, Dice(1))
    await keyspace.open(2)
    yield keyspace
    await keyspace.close()


async def asked(keyspace: OneValkey, node: int, *words: str) -> object:
    """Through the link of a node."""
    listen = keyspace.links[node].listen
    assert isinstance(listen, Path)
    return (await asyncio.to_thread(ask_all, listen, [words]))[0]


async def test_each_node_has_a_way_of_its_own(one: OneValkey) -> None:
    assert one.url_of(0) != one.url_of(1)
    await one.links[0].cut()
    assert await asked(one, 1, "PING") == "PONG"
    with pytest.raises(OSError):
        await asked(one, 0, "PING")
    await one.heal()
    assert await asked(one, 0, "PING") == "PONG"


async def test_a_server_whose_file_lost_its_end_comes_back_with_less(one: OneValkey) -> None:
    one.server.ask_all([["SET", f"k{n}", "x" * 100] for n in range(200)])
    await eventually(lambda: "aof_pending_bio_fsync:0" in str(one.server.ask("INFO", "persistence")))
    one.server.kill()
    assert one.cut_tail(5_000) == 5_000
    await asyncio.to_thread(one.server.start)
    size = one.server.ask("DBSIZE")
    assert 100 < size < 200


async def test_a_failover_loses_what_the_replica_never_got(one: OneValkey) -> None:
    one.server.ask("SET", "early", "1")
    old = one.server

    async def write_late() -> None:
        await eventually(lambda: "connected_slaves:1" in str(old.ask("INFO", "replication")))
        await eventually(lambda: "connected_slaves:0" in str(old.ask("INFO", "replication")))
        old.ask("SET", "late", "1")

    await asyncio.gather(one.fail_over(1.0), write_late())
    assert one.server is not old
    assert await asked(one, 0, "GET", "early") == "1" and await asked(one, 1, "GET", "late") is None


async def test_a_paused_server_is_healed(one: OneValkey) -> None:
    one.pause()
    await one.heal()
    assert one.server.ask("PING") == "PONG"


async def test_the_clock_jumps_where_libfaketime_is(one: OneValkey) -> None:
    if faketime_library() is None:
        pytest.skip("libfaketime is not installed (Debian: apt install libfaketime)")

    def seconds() -> int:
        return int(one.server.ask("TIME")[0])

    before = seconds()
    one.clock_file.write_text("-3600")
    await eventually(lambda: seconds() < before - 3_000)
    await one.heal()
    await eventually(lambda: seconds() >= before)


async def test_nothing_is_done_to_what_is_not_ours(tmp_path: Path) -> None:
    foreign = AnyKeyspace("redis://somewhere:6379")
    await foreign.open(2)
    deeds = ("flush", "kill", "restart", "cut-tail", "stop", "failover", "clock", "link")
    assert not any(foreign.can(deed) for deed in deeds) and not foreign.links and not foreign.speakers()
    assert foreign.url_of(0) == foreign.url == "redis://somewhere:6379"


def test_the_first_node_has_its_own_and_the_others_share_it(tmp_path: Path) -> None:
    embedded = EmbeddedKeyspace(tmp_path, tmp_path / "n0", Dice(1))
    assert embedded.url_of(0) is None and embedded.can("kill") and not embedded.can("failover")
    assert not ClusterKeyspace(tmp_path).can("cut-tail")
