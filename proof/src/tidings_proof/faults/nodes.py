"""Faults of nodes and of what is inside them: killed, stopped, drained; tables, disks and clocks that fail them.

Each does its harm and undoes it when its time is over. The table of faults.py names them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress

from tidings.bounds import DRAIN_S
from tidings.clock import Dice
from tidings_proof.faults.schedule import Step
from tidings_proof.people import archiving
from tidings_proof.world.processes import NodeProcess
from tidings_proof.world.scene import Scene
from tidings_proof.world.world import World

FULL_BYTES = 4_096  # no file of a node with a full disk grows beyond this


async def node_kill(scene: Scene, step: Step) -> None:
    node = scene.node(step)
    node.kill()
    await asyncio.sleep(step.lasts_s / 2)
    await node.start()


async def node_kill_midway(scene: Scene, step: Step) -> None:
    """Between number and commit: what it handed out stays open, and others must close it."""
    node = scene.node(step)
    node.trouble.change(slow_s=1.0)
    await asyncio.sleep(0.4 + 0.4 * step.degree)
    node.kill()
    node.trouble.change(slow_s=0.0)
    await node.start()


async def node_stop(scene: Scene, step: Step) -> None:
    """At times for longer than its lease, so that the others take it for dead."""
    node = scene.node(step)
    node.stop()
    await asyncio.sleep(12.0 if step.degree > 0.8 else step.lasts_s)
    node.resume()


async def node_drain(scene: Scene, step: Step) -> None:
    await _restart(scene.node(step))


async def rolling_restart(scene: Scene, step: Step) -> None:
    for node in scene.world.nodes:
        await _restart(node)


async def settings_changed(scene: Scene, step: Step) -> None:
    """Another cap and policy of unread counts, node after node, and back: both are at work for a while."""
    changed = {"TIDINGS_UNREAD_CAP": Dice(step.degree).choice(("2", "5")), "TIDINGS_UNREAD_POLICY": "when_offline"}
    scene.people.history.event("settings", text="changed")
    for settings in (changed, {}):
        for node in scene.world.nodes:
            node.changed = settings
            await _restart(node)
        await asyncio.sleep(step.lasts_s / 2)
    scene.people.history.event("settings", text="usual")


async def _restart(node: NodeProcess) -> None:
    life = node.lives
    code = await node.drain(DRAIN_S + 5)
    if code not in (0, -9):  # -9: another fault killed it meanwhile
        raise RuntimeError(f"{node.name} drained with exit code {code}: {node.said()}")
    if node.lives == life:  # else another fault has started it
        await node.start()


# --- tables, disks, clocks --------------------------------------------------------------------------


async def tables_failing(scene: Scene, step: Step) -> None:
    """Writes are refused, throttled, lost, or done without an answer, a part of them."""
    chance = 0.05 + 0.35 * step.degree
    harm = {"refused": chance / 3, "throttled": chance, "request_lost": chance, "answer_lost": chance, "slow_s": 0.05}
    for node in scene.world.nodes:
        node.trouble.change(**harm)
    _dynamodb_chances(scene.world, step, chance)
    await asyncio.sleep(step.lasts_s)
    for node in scene.world.nodes:
        node.trouble.change(**dict.fromkeys(harm, 0.0))
    if scene.world.dynamodb is not None:
        scene.world.dynamodb.shim.choose = None


def _dynamodb_chances(world: World, step: Step, chance: float) -> None:
    if world.dynamodb is not None:
        from tidings_proof.world.dynamodb_shim import FAULTS, Faults

        world.dynamodb.shim.choose = Faults(int(step.target * 1e6), **dict.fromkeys(FAULTS, chance / 4))


async def tables_hot(scene: Scene, step: Step) -> None:
    """Some conversations are throttled. The others must not notice, although they share batches with them."""
    for node in scene.world.nodes:
        node.trouble.change(hot=0.1 + 0.3 * step.degree)
    await asyncio.sleep(min(step.lasts_s, 4.0))
    for node in scene.world.nodes:
        node.trouble.change(hot=0.0)


async def tables_locked(scene: Scene, step: Step) -> None:
    """Somebody else holds the file's write lock, at times for longer than a node waits for it."""
    assert scene.world.sqlite is not None
    with closing(sqlite3.connect(scene.world.sqlite, isolation_level=None, timeout=5)) as lock:
        try:
            lock.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return  # the nodes were faster, all the time: they had their share of waiting
        await asyncio.sleep(6.0 if step.degree > 0.85 else min(step.lasts_s, 4.0))
        lock.execute("ROLLBACK")


async def tables_killed(scene: Scene, step: Step) -> None:
    """The database server crashes with its commits under way, and recovers from its log when it is started again."""
    server = scene.world.postgres
    assert server is not None
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(min(step.lasts_s, 3.0))
    if not server.is_running:  # the end of the run starts it too
        await asyncio.to_thread(server.start)


async def tables_failover(scene: Scene, step: Step) -> None:
    """A synchronous replica takes over from a database server that crashes with its commits under way."""
    server = scene.world.postgres
    assert server is not None
    await asyncio.to_thread(server.fail_over)


async def tables_full(scene: Scene, step: Step) -> None:
    """The disk of the database server is full. Somebody frees it and starts the server again."""
    server = scene.world.postgres
    assert server is not None
    server.limit_files(FULL_BYTES)
    await asyncio.sleep(min(step.lasts_s, 4.0))
    server.limit_files(None)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def rows_locked(scene: Scene, step: Step) -> None:
    """Another client of the database holds every head row, at times for longer than a statement may take."""
    import asyncpg

    from tidings.stores.tables.postgres.adapter import Place

    place = Place(scene.world.tables)
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):  # it was killed meanwhile
        link = await asyncpg.connect(**place.options)
        async with link.transaction():
            await link.execute(f"SELECT 1 FROM {place.schema}.conversation_heads ORDER BY conversation_id FOR UPDATE")
            await asyncio.sleep(6.0 if step.degree > 0.85 else min(step.lasts_s, 3.0))
        await link.close()


async def disk_full(scene: Scene, step: Step) -> None:
    node = scene.node(step)
    node.limit_files(FULL_BYTES)
    await asyncio.sleep(step.lasts_s)
    node.limit_files(None)


async def node_clock(scene: Scene, step: Step) -> None:
    node = scene.node(step)
    jump_s = Dice(step.degree).choice((-300, 300, -3_600, 3_600, -20, 20))
    node.trouble.change(clock_ms=jump_s * 1000)
    await asyncio.sleep(step.lasts_s)
    node.trouble.change(clock_ms=0)


async def archiver_race(scene: Scene, step: Step) -> None:
    await archiving.race(scene.world, step)
