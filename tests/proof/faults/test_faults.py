"""The table of faults: everything has a name, a reason where it cannot be, and its turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tidings.config.settings import Settings
from tidings_proof.faults import faults
from tidings_proof.faults.faults import FAULTS, Fault, Struck
from tidings_proof.faults.schedule import Step
from tidings_proof.world import keyspaces
from tidings_proof.world.keyspaces import AnyKeyspace, OneValkey
from tidings_proof.world.processes import NodeProcess
from tidings_proof.world.scene import Scene
from tidings_proof.world.world import Place, World


def world(tmp_path: Path, keyspace: AnyKeyspace, *addresses: str) -> World:
    made = World(Place(tmp_path, 2, "sqlite+valkey", Settings(), addresses), keyspace, "sqlite:///x.db", "s" * 32)
    made.nodes = [] if addresses else [NodeProcess(f"n{n}", tmp_path, 0, {}) for n in range(2)]
    return made


def test_a_world_of_ours_suffers_everything_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (faults, keyspaces):
        monkeypatch.setattr(module, "faketime_library", lambda: None)
    keyspace = OneValkey(tmp_path, cast(Any, None))
    keyspace.links = [cast(Any, None)]
    lacking = {name: fault.lacking(world(tmp_path, keyspace)) for name, fault in FAULTS.items()}
    of_postgres = {"tables-killed", "tables-failover", "tables-full", "rows-locked"}
    assert {name for name, why in lacking.items() if why} == {"keyspace-clock", "keyspace-failover-back", *of_postgres}
    assert "apt install libfaketime" in (lacking["keyspace-clock"] or "")


def test_a_world_that_is_not_ours_suffers_only_what_clients_do(tmp_path: Path) -> None:
    foreign = world(tmp_path, AnyKeyspace("redis://x"), "http://127.0.0.1:1")
    can = {name for name, fault in FAULTS.items() if fault.lacking(foreign) is None}
    assert can == {
        "clients-cut",
        "clients-frozen",
        "clients-slow",
        "dropping-links",
        "members-churn",
        "reconnect-storm",
        "slow-readers",
        "strangers-flood",
    }


async def test_of_two_faults_on_the_same_node_the_second_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, opened = asyncio.Event(), asyncio.Event()

    async def slow(scene: Scene, step: Step) -> None:
        begun.set()
        await opened.wait()

    for name, holds in (("one", "node"), ("all", "nodes"), ("free", "")):
        monkeypatch.setitem(FAULTS, name, Fault("", slow, lambda world: None, holds))
    struck = Struck(Scene(world(tmp_path, AnyKeyspace("")), cast(Any, None)))
    first = asyncio.create_task(struck.strike(Step(0, "one", 1, 0.0, 0)))
    await begun.wait()
    assert not await struck.strike(Step(0, "one", 1, 0.1, 0)) and not await struck.strike(Step(0, "all", 1, 0.9, 0))
    beside = [asyncio.create_task(struck.strike(Step(0, name, 1, 0.9, 0))) for name in ("one", "free")]
    await asyncio.sleep(0)
    assert struck.under_way == {"one": 2, "free": 1}
    opened.set()
    assert await first and all(await asyncio.gather(*beside)) and not any(struck.under_way.values())
    assert await struck.strike(Step(0, "all", 1, 0.0, 0))
