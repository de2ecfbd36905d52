"""Everything that goes wrong on purpose, by name: nodes, the keyspace, the tables, the links and the clocks.

A fault is a coroutine that does its harm to a world and undoes it when its time is over. A world that
cannot suffer a fault (no libfaketime; no append-only file, because the server is not ours) names the fault before the
run begins. `schedule.py` plans the faults; `run.py` carries them out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tidings_proof.faults import keyspace, links, nodes
from tidings_proof.faults.schedule import Step
from tidings_proof.people import archiving
from tidings_proof.world.keyspaces import faketime_library
from tidings_proof.world.scene import Scene
from tidings_proof.world.world import World

Strike = Callable[[Scene, Step], Awaitable[None]]


class Fault(NamedTuple):
    about: str
    strike: Strike
    lacking: Callable[[World], str | None]  # why it cannot be; None: it can
    holds: str = ""  # what it has to itself: of two such faults at once the second is left out
    is_usual: bool = True  # False: only when it is asked for by name; nothing that happens by itself


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


def _postgres(world: World) -> str | None:
    return None if world.postgres is not None else "the tables are not a PostgreSQL that torture started"


FAULTS: dict[str, Fault] = {
    "node-kill": Fault("kill -9 of a node, and a new one in its place", nodes.node_kill, _nodes, "node"),
    "node-kill-midway": Fault("kill -9 of a node with numbers but no rows", nodes.node_kill_midway, _nodes, "node"),
    "node-stop": Fault("SIGSTOP of a node, at times beyond its lease", nodes.node_stop, _nodes, "node"),
    "node-drain": Fault("SIGTERM of a node, and a new one", nodes.node_drain, _nodes, "node"),
    "rolling-restart": Fault("one node after the other is drained and started", nodes.rolling_restart, _nodes, "nodes"),
    "settings-changed": Fault(
        "another cap and policy of unread, node after node, and back", nodes.settings_changed, _nodes, "nodes"
    ),
    "node-clock": Fault("the clock of a node jumps, and back", nodes.node_clock, _nodes, "clocks"),
    "disk-full": Fault("no file of a node may grow", nodes.disk_full, _nodes, "node"),
    "keyspace-kill": Fault("kill -9 of a Valkey, and again from its file", keyspace.kill, _deed("kill"), "keyspace"),
    "keyspace-cut": Fault("the same, with the end of its file gone", keyspace.cut, _deed("cut-tail"), "keyspace"),
    "keyspace-stop": Fault("SIGSTOP of the Valkey", keyspace.stop, _deed("stop"), "keyspace"),
    "keyspace-failover": Fault(
        "a replica that lost the tail takes over", keyspace.fail_over, _deed("failover"), "keyspace"
    ),
    "keyspace-flush": Fault("FLUSHALL", keyspace.flush, _deed("flush"), "keyspace"),
    "keyspace-clock": Fault("the clock of the Valkey jumps, and back", keyspace.turn_clock, _clock),
    "keyspace-failover-back": Fault(
        "a replica whose clock is behind takes over", keyspace.fail_over_back, _clock, "keyspace"
    ),
    "keyspace-two-primaries": Fault(
        "two primaries for a while (only when named)",
        keyspace.two_primaries,
        _deed("failover"),
        "keyspace",
        is_usual=False,
    ),
    "keyspace-evict": Fault("the Valkey evicts keys, maxmemory with allkeys-lru", keyspace.evict, _deed("flush")),
    "counter-lost": Fault(
        "counters are lost while commits are slow", keyspace.counter_lost, _deed("flush"), "keyspace"
    ),
    "key-loss": Fault("half of the keys of one kind are gone", keyspace.key_loss, _deed("flush"), "keyspace"),
    "counters-back": Fault(
        "counters go back in the same life (only when named)",
        keyspace.counters_back,
        _deed("flush"),
        "keyspace",
        is_usual=False,
    ),
    "partition": Fault("a node is cut off from the keyspace", links.partition, _links, "links"),
    "slow-link": Fault("a node's way to the keyspace is slow", links.slow_link, _links, "links"),
    "dropping-links": Fault("connections die in the middle, everywhere", links.dropping_links, _nothing),
    "clients-cut": Fault("all clients of a node are cut off", links.clients_cut, _nothing),
    "clients-frozen": Fault("half-open connections to a node", links.clients_frozen, _nothing, "fronts"),
    "clients-slow": Fault("a node's clients get a few bytes at a time", links.clients_slow, _nothing, "fronts"),
    "tables-failing": Fault("tables refuse, throttle, and lose answers", nodes.tables_failing, _nodes, "tables"),
    "tables-hot": Fault("some conversations are throttled, others are not", nodes.tables_hot, _nodes, "tables"),
    "tables-locked": Fault("another process holds the SQLite write lock", nodes.tables_locked, _sqlite, "tables"),
    "tables-killed": Fault("the PostgreSQL server crashes and recovers", nodes.tables_killed, _postgres, "tables"),
    "tables-failover": Fault(
        "a synchronous replica of PostgreSQL takes over", nodes.tables_failover, _postgres, "tables"
    ),
    "tables-full": Fault("the disk of PostgreSQL is full, and it starts again", nodes.tables_full, _postgres, "tables"),
    "rows-locked": Fault("another client holds PostgreSQL's head rows", nodes.rows_locked, _postgres, "tables"),
    "members-churn": Fault("members come and go in a burst", links.members_churn, _nothing),
    "strangers-flood": Fault("a stranger sends into every conversation", links.strangers_flood, _nothing),
    "reconnect-storm": Fault("every client reconnects at once", links.reconnect_storm, _nothing),
    "slow-readers": Fault("a third of the clients stop reading", links.slow_readers, _nothing),
    "archiver-race": Fault(
        "archivers that are stopped, killed and doubled", nodes.archiver_race, archiving.lacking, "archive"
    ),
}
