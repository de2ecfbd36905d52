"""Faults of nodes: each does its harm and undoes it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.proof.faults.test_faults import world
from tests.support.waiting import eventually
from tidings.clock import Clock, Dice
from tidings.config.settings import Settings
from tidings_proof.faults import nodes as faults
from tidings_proof.faults.schedule import Step
from tidings_proof.faults.trouble import Trouble
from tidings_proof.judge.history import History, read_history
from tidings_proof.people.wire import rest
from tidings_proof.world.keyspaces import AnyKeyspace
from tidings_proof.world.scene import Scene
from tidings_proof.world.world import Place, open_world

STEP = Step(0, "", 0.2, 0.0, 0.5)


async def test_trouble_inside_is_told_and_taken_back(tmp_path: Path) -> None:
    scene = Scene(world(tmp_path, AnyKeyspace("")), cast(Any, None))
    first, second = scene.world.nodes
    failing = asyncio.create_task(faults.tables_failing(scene, STEP))
    turned = asyncio.create_task(faults.node_clock(scene, STEP))
    await eventually(lambda: first.trouble.read().refused > 0 and first.trouble.read().clock_ms != 0)
    hot = asyncio.create_task(faults.tables_hot(scene, STEP))
    await eventually(lambda: second.trouble.read().hot > 0)
    assert second.trouble.read().answer_lost > 0 and second.trouble.read().clock_ms == 0
    await asyncio.gather(failing, turned, hot)
    assert first.trouble.read() == second.trouble.read() == Trouble()


async def test_the_tables_are_locked_for_a_while(tmp_path: Path) -> None:
    scene = Scene(world(tmp_path, AnyKeyspace("")), cast(Any, None))
    file = tmp_path / "t.db"
    scene.world.tables = f"sqlite://{file}"
    with closing(sqlite3.connect(file, timeout=0)) as other:
        other.execute("CREATE TABLE t (x)")
        locking = asyncio.create_task(faults.tables_locked(scene, STEP))

        def is_locked() -> bool:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            other.rollback()
            return False

        await eventually(is_locked)
        await locking
        assert not is_locked()


@pytest.fixture
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    place = Place(tmp_path_factory.mktemp("w"), 1, "sqlite+valkey", Settings())
    async with open_world(place, Dice(1)) as made:
        yield Scene(made, cast(Any, None))


@pytest.mark.long
async def test_a_node_is_there_again_after_each(scene: Scene) -> None:
    (node,) = scene.world.nodes
    for strike in (
        faults.node_kill,
        faults.node_kill_midway,
        faults.node_stop,
        faults.node_drain,
        faults.rolling_restart,
    ):
        await strike(scene, STEP)
        assert (await rest(node.port, "", "GET", "/readyz"))[0] == 200
    assert node.lives == 5 and node.trouble.read() == Trouble()


@pytest.mark.long
async def test_settings_are_changed_by_a_restart_and_back(scene: Scene, tmp_path: Path) -> None:
    (node,) = scene.world.nodes
    history = History(tmp_path / "history.jsonl", Clock())
    told = Scene(scene.world, cast(Any, SimpleNamespace(history=history)))
    changing = asyncio.create_task(faults.settings_changed(told, STEP))
    await eventually(lambda: node.changed.get("TIDINGS_UNREAD_POLICY") == "when_offline")
    await changing
    history.close()
    assert node.lives == 3 and node.changed == {}
    assert [record.text for record in read_history(history.file)] == ["changed", "usual"]


@pytest.mark.long
async def test_a_full_disk_refuses_and_has_room_again(scene: Scene) -> None:
    (node,) = scene.world.nodes
    body = {"kind": "group", "members": ["bob"]}

    async def create() -> int:
        return (await rest(node.port, scene.world.token("alice"), "POST", "/v1/conversations", body))[0]

    assert await create() == 201
    node.limit_files(faults.FULL_BYTES)
    assert await create() == 503
    await faults.disk_full(scene, STEP)
    assert await create() == 201
