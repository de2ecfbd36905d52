"""Faults of the keyspace, on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.proof.faults.test_faults import world
from tests.support.waiting import eventually
from tidings.clock import Dice
from tidings_proof.faults import keyspace as faults
from tidings_proof.faults.schedule import Step
from tidings_proof.world.keyspaces import PREFIX, OneValkey
from tidings_proof.world.scene import Scene

STEP = Step(0, "", 0.2, 0.0, 0.5)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    keyspace = OneValkey(tmp_path, Dice(1))
    await keyspace.open(1)
    yield Scene(world(tmp_path, keyspace), cast(Any, None))
    await keyspace.close()


def ask(scene: Scene, *words: str | int) -> Any:
    return scene.world.keyspace.speakers()[0].ask(*words)


async def test_everything_is_flushed(scene: Scene) -> None:
    ask(scene, "SET", "a", 1)
    await faults.flush(scene, STEP)
    assert ask(scene, "DBSIZE") == 0


async def test_a_good_part_of_one_kind_of_keys_is_lost(scene: Scene) -> None:
    for n in range(100):
        ask(scene, "SET", f"{PREFIX}inbox:{{{n}}}", 1)
        ask(scene, "SET", f"{PREFIX}mark:{{{n}}}", 1)
    await faults.key_loss(scene, STEP)
    assert 110 < ask(scene, "DBSIZE") < 190
    assert len(list(scene.world.keyspace.speakers()[0].scan(f"{PREFIX}mark:*"))) == 100


async def test_counters_go_back_and_not_below_one(scene: Scene) -> None:
    for name, seq in (("a", 100), ("b", 3)):
        ask(scene, "HSET", f"{PREFIX}conv:{{{name}}}", "seq", seq)
    ask(scene, "HSET", f"{PREFIX}conv:{{c}}", "at", 5)
    await faults.counters_back(scene, STEP)
    assert [ask(scene, "HGET", f"{PREFIX}conv:{{{name}}}", "seq") for name in "abc"] == ["79", "1", None]


async def test_a_full_server_evicts_and_has_room_again(scene: Scene) -> None:
    for n in range(2_000):
        ask(scene, "SET", f"{PREFIX}inbox:{{{n}}}", "x" * 500)
    evicting = asyncio.create_task(faults.evict(scene, STEP))
    await eventually(lambda: "evicted_keys:0" not in str(ask(scene, "INFO", "stats")) or _writes(scene))
    await evicting
    assert ask(scene, "DBSIZE") < 2_000
    assert ask(scene, "CONFIG", "GET", "maxmemory-policy")[1] == "noeviction"
    assert ask(scene, "CONFIG", "GET", "maxmemory")[1] == "0"


def _writes(scene: Scene) -> bool:
    """A write makes room for itself."""
    ask(scene, "SET", f"{PREFIX}more", "x" * 500)
    return False


async def test_counters_are_lost_while_commits_are_slow(scene: Scene) -> None:
    ask(scene, "HSET", f"{PREFIX}conv:{{a}}", "seq", 1)
    ask(scene, "SET", f"{PREFIX}inbox:{{a}}", 1)
    await faults.counter_lost(scene, STEP)
    assert ask(scene, "KEYS", "*") == [f"{PREFIX}inbox:{{a}}"]
    assert [node.trouble.read().slow_s for node in scene.world.nodes] == [0.0, 0.0]


async def test_there_are_two_primaries_for_a_while(scene: Scene) -> None:
    ask(scene, "SET", "before", 1)
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    old = keyspace.server
    splitting = asyncio.create_task(faults.two_primaries(scene, Step(0, "", 60.0, 0.0, 0.5)))
    await eventually(lambda: keyspace.server is not old)
    assert ask(scene, "GET", "before") == "1" and old.ask("SET", "there", 1) == "OK"
    assert ask(scene, "EXISTS", "there") == 0
    splitting.cancel()
    await keyspace.heal()
    assert keyspace.links[0].target == keyspace.server.socket
    with pytest.raises(OSError):
        old.ask("PING")


async def test_a_killed_a_cut_and_a_stopped_server_are_there_again(scene: Scene) -> None:
    pid = ask(scene, "INFO", "server")
    await faults.kill(scene, STEP)
    await faults.cut(scene, STEP)
    assert ask(scene, "INFO", "server") != pid
    await faults.stop(scene, STEP)
    assert ask(scene, "PING") == "PONG"


async def test_the_replica_that_takes_over_is_another_server(scene: Scene) -> None:
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    before = keyspace.server
    await faults.fail_over(scene, STEP)
    assert keyspace.server is not before and ask(scene, "PING") == "PONG"
