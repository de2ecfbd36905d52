"""Everything that goes wrong on purpose, by name: nodes, the keyspace, the tables, the links and the clocks.

A fault is a coroutine that does its harm to a world and undoes it when its time is over. What a world cannot suffer (no
append-only file of a server that is not ours, no libfaketime) is said by name before the run begins. Carried out by
run.py as schedule.py has planned it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import NamedTuple

from tidings.bounds import DRAIN_S
from tidings.clock import Dice
from tidings.torture import archiving
from tidings.torture.keyspaces import ClusterKeyspace, EmbeddedKeyspace, OneValkey, faketime_library
from tidings.torture.processes import NodeProcess
from tidings.torture.schedule import Step
from tidings.torture.workload import Workload
from tidings.torture.world import World

CUT_BYTES_MAX = 20_000  # of an append-only file: some hundred commands
FULL_BYTES = 4_096  # no file of a node with a full disk grows beyond this
KEY_CLASSES = (
    "inbox",
    "mark",
    "unread",
    "conv",
    "sent",
    "delivered",
    "readby",
    "ws",
    "session",
    "open",
    "nodes",
    "due",
)
_LOST_TAIL_S = 1.0
_DROP_S = 0.4
Strike = Callable[["Scene", Step], Awaitable[None]]


class Scene(NamedTuple):
    """What a fault may touch."""

    world: World
    people: Workload

    def node(self, step: Step) -> NodeProcess:
        nodes = self.world.nodes
        return nodes[int(step.target * len(nodes))]


class Fault(NamedTuple):
    about: str
    strike: Strike
    lacking: Callable[[World], str | None]  # why it cannot be; None: it can
    holds: str = ""  # what it has to itself: of two such faults at once the second is left out


class Struck:
    """Carries faults out, and knows which of them are under way."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._held: set[str] = set()
        self.under_way: dict[str, int] = {}

    async def strike(self, step: Step) -> bool:
        """False: another fault had what this one needs."""
        fault = FAULTS[step.fault]
        holds = self._holds(fault, step)
        if holds & self._held:
            return False
        self._held |= holds
        self.under_way[step.fault] = self.under_way.get(step.fault, 0) + 1
        try:
            await fault.strike(self._scene, step)
        finally:
            self._held -= holds
            self.under_way[step.fault] -= 1
        return True

    def _holds(self, fault: Fault, step: Step) -> set[str]:
        nodes = {node.name for node in self._scene.world.nodes}
        if fault.holds == "node":
            return {self._scene.node(step).name}
        return nodes if fault.holds == "nodes" else {fault.holds} - {""}


# --- nodes ------------------------------------------------------------------------------------------


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


async def _restart(node: NodeProcess) -> None:
    life = node.lives
    code = await node.drain(DRAIN_S + 5)
    if code not in (0, -9):  # -9: another fault killed it meanwhile
        raise RuntimeError(f"{node.name} drained with exit code {code}: {node.said()}")
    if node.lives == life:  # else another fault has started it
        await node.start()


# --- the keyspace -----------------------------------------------------------------------------------


async def keyspace_kill(scene: Scene, step: Step) -> None:
    """kill -9, and again from what its append-only file holds."""
    keyspace = scene.world.keyspace
    if isinstance(keyspace, EmbeddedKeyspace):
        await asyncio.to_thread(keyspace.kill)
        return
    assert isinstance(keyspace, OneValkey | ClusterKeyspace)
    servers = [keyspace.server] if isinstance(keyspace, OneValkey) else keyspace.cluster.servers
    server = servers[int(step.target * len(servers))]
    server.kill()
    await asyncio.sleep(step.lasts_s / 2)
    await asyncio.to_thread(server.start)


async def keyspace_cut(scene: Scene, step: Step) -> None:
    """The same, and the end of the file is gone."""
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    keyspace.server.kill()
    keyspace.cut_tail(int(step.degree * CUT_BYTES_MAX))
    await asyncio.to_thread(keyspace.server.start)


async def keyspace_stop(scene: Scene, step: Step) -> None:
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    keyspace.pause()
    await asyncio.sleep(step.lasts_s)
    keyspace.resume()


async def keyspace_failover(scene: Scene, step: Step) -> None:
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    await keyspace.fail_over(_LOST_TAIL_S + step.degree)


async def keyspace_flush(scene: Scene, step: Step) -> None:
    speakers = scene.world.keyspace.speakers()
    await asyncio.to_thread(speakers[int(step.target * len(speakers))].ask, "FLUSHALL")


async def key_loss(scene: Scene, step: Step) -> None:
    """A good part of the keys of one kind is gone."""
    prefix = scene.world.keyspace.prefix
    pattern = f"{prefix}{KEY_CLASSES[int(step.target * len(KEY_CLASSES))]}*"
    dice = Dice(step.degree)

    def lose() -> None:
        for speaker in scene.world.keyspace.speakers():
            doomed = [key for key in speaker.scan(pattern) if dice.random() < 0.5]
            speaker.ask_all([["DEL", key] for key in doomed])

    await asyncio.to_thread(lose)


async def counters_back(scene: Scene, step: Step) -> None:
    """Numbers that were handed out are handed out again, in the same life of the keyspace."""
    prefix, back = scene.world.keyspace.prefix, 1 + int(step.degree * 40)

    def turn() -> None:
        for speaker in scene.world.keyspace.speakers():
            for key in speaker.scan(f"{prefix}conv:*"):
                seq = int(speaker.ask("HGET", key, "seq") or 0)
                if seq:
                    speaker.ask("HSET", key, "seq", max(1, seq - back))

    await asyncio.to_thread(turn)


async def keyspace_clock(scene: Scene, step: Step) -> None:
    keyspace = scene.world.keyspace
    assert isinstance(keyspace, OneValkey)
    keyspace.clock_file.write_text(f"{Dice(step.degree).choice((-300, 300, -3_600)):+d}")
    await asyncio.sleep(step.lasts_s)
    keyspace.clock_file.write_text("+0")


# --- links ------------------------------------------------------------------------------------------


async def partition(scene: Scene, step: Step) -> None:
    """One node and the keyspace: refused, or a black hole."""
    links = scene.world.keyspace.links
    link = links[int(step.target * len(links))]
    if step.degree < 0.5:
        await link.cut()
    else:
        link.freeze()
    await asyncio.sleep(step.lasts_s)
    link.mend()


async def slow_link(scene: Scene, step: Step) -> None:
    links = scene.world.keyspace.links
    link = links[int(step.target * len(links))]
    link.delay_s = 0.02 + 0.2 * step.degree
    await asyncio.sleep(step.lasts_s)
    link.mend()


async def dropping_links(scene: Scene, step: Step) -> None:
    """Connections die in the middle of what they carry, again and again, everywhere."""
    links = [*scene.world.keyspace.links, *scene.world.fronts]
    for _ in range(max(1, int(step.lasts_s / _DROP_S))):
        await asyncio.gather(*(link.drop(0.3) for link in links))
        await asyncio.sleep(_DROP_S)


async def clients_cut(scene: Scene, step: Step) -> None:
    """Everybody at one node loses the connection at once, and comes back at once."""
    fronts = scene.world.fronts
    await fronts[int(step.target * len(fronts))].drop()


async def clients_frozen(scene: Scene, step: Step) -> None:
    """Half-open: a node believes in its clients and they in it, and nothing passes."""
    fronts = scene.world.fronts
    front = fronts[int(step.target * len(fronts))]
    front.freeze()
    await asyncio.sleep(step.lasts_s)
    front.mend()


async def clients_slow(scene: Scene, step: Step) -> None:
    fronts = scene.world.fronts
    front = fronts[int(step.target * len(fronts))]
    front.is_dripping = True
    await asyncio.sleep(step.lasts_s)
    front.mend()


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
        from tidings.torture.dynamodb_shim import FAULTS, Faults

        world.dynamodb.shim.choose = Faults(int(step.target * 1e6), **dict.fromkeys(FAULTS, chance / 4))


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


# --- people -----------------------------------------------------------------------------------------


async def members_churn(scene: Scene, step: Step) -> None:
    for _ in range(5 + int(25 * step.degree)):
        await scene.people.change_members()


async def reconnect_storm(scene: Scene, step: Step) -> None:
    for device in scene.people.devices:
        if device.line is not None:
            device.line.cut()


async def slow_readers(scene: Scene, step: Step) -> None:
    lines = [device.line for device in scene.people.devices if device.line is not None]
    lines = lines[: len(lines) // 3]
    for line in lines:
        line.stop_reading()
    await asyncio.sleep(step.lasts_s)
    for line in lines:
        line.read_on()


async def archiver_race(scene: Scene, step: Step) -> None:
    await archiving.race(scene.world, step)


# --- what can be done to whom -----------------------------------------------------------------------


def _nothing(world: World) -> str | None:
    return None


def _nodes(world: World) -> str | None:
    return None if world.is_ours else "the nodes are not ours"


def _deed(deed: str) -> Callable[[World], str | None]:
    def lacking(world: World) -> str | None:
        return None if world.keyspace.can(deed) else "this keyspace does not allow it"

    return lacking


def _links(world: World) -> str | None:
    return None if world.keyspace.links else "no link stands between node and keyspace"


def _clock(world: World) -> str | None:
    if faketime_library() is None:
        return "libfaketime is not installed (Debian: apt install libfaketime)"
    return _deed("clock")(world)


def _sqlite(world: World) -> str | None:
    return _nodes(world) or (None if world.sqlite is not None else "the tables are not SQLite")


FAULTS: dict[str, Fault] = {
    "node-kill": Fault("kill -9 of a node, and a new one in its place", node_kill, _nodes, "node"),
    "node-kill-midway": Fault("kill -9 of a node with numbers but no rows", node_kill_midway, _nodes, "node"),
    "node-stop": Fault("SIGSTOP of a node, at times beyond its lease", node_stop, _nodes, "node"),
    "node-drain": Fault("SIGTERM of a node, and a new one", node_drain, _nodes, "node"),
    "rolling-restart": Fault("one node after the other is drained and started", rolling_restart, _nodes, "nodes"),
    "node-clock": Fault("the clock of a node jumps, and back", node_clock, _nodes, "clocks"),
    "disk-full": Fault("no file of a node may grow", disk_full, _nodes, "node"),
    "keyspace-kill": Fault("kill -9 of a Valkey, and again from its file", keyspace_kill, _deed("kill"), "keyspace"),
    "keyspace-cut": Fault("the same, with the end of its file gone", keyspace_cut, _deed("cut-tail"), "keyspace"),
    "keyspace-stop": Fault("SIGSTOP of the Valkey", keyspace_stop, _deed("stop"), "keyspace"),
    "keyspace-failover": Fault(
        "a replica that lost the tail takes over", keyspace_failover, _deed("failover"), "keyspace"
    ),
    "keyspace-flush": Fault("FLUSHALL", keyspace_flush, _deed("flush"), "keyspace"),
    "keyspace-clock": Fault("the clock of the Valkey jumps, and back", keyspace_clock, _clock),
    "key-loss": Fault("half of the keys of one kind are gone", key_loss, _deed("flush"), "keyspace"),
    "counters-back": Fault("counters go back in the same life", counters_back, _deed("flush"), "keyspace"),
    "partition": Fault("a node is cut off from the keyspace", partition, _links, "links"),
    "slow-link": Fault("a node's way to the keyspace is slow", slow_link, _links, "links"),
    "dropping-links": Fault("connections die in the middle, everywhere", dropping_links, _nothing),
    "clients-cut": Fault("all clients of a node are cut off", clients_cut, _nothing),
    "clients-frozen": Fault("half-open connections to a node", clients_frozen, _nothing, "fronts"),
    "clients-slow": Fault("a node's clients get a few bytes at a time", clients_slow, _nothing, "fronts"),
    "tables-failing": Fault("tables refuse, throttle, and lose answers", tables_failing, _nodes, "tables"),
    "tables-locked": Fault("another process holds the SQLite write lock", tables_locked, _sqlite, "tables"),
    "members-churn": Fault("members come and go in a burst", members_churn, _nothing),
    "reconnect-storm": Fault("every client reconnects at once", reconnect_storm, _nothing),
    "slow-readers": Fault("a third of the clients stop reading", slow_readers, _nothing),
    "archiver-race": Fault(
        "archivers that are stopped, killed and doubled", archiver_race, archiving.lacking, "archive"
    ),
}
