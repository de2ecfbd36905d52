"""The keyspace fails over to a replica that never got the last numbers, and back again, while people go on sending.

The replication link is cut first, numbers are handed out and acknowledged, and then the primary is killed: the replica
comes up with a lost tail. The tables are the truth: no acknowledged message is lost, none is there twice, the order
holds, and every count is right.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.nodes.cluster_core import core_on
from tests.support.waiting import eventually
from tidings.config.settings import Node, Settings
from tidings.errors import Problem, Unavailable
from tidings.model import Content, Entry
from tidings.node import graph
from tidings.node.graph import Core
from tidings.stores.keyspace.hash_slots import slot_of
from tidings_proof.world.cluster import Cluster, running_cluster
from tidings_proof.world.ports import free_port
from tidings_proof.world.proxy import Proxy, open_proxy
from tidings_proof.world.valkey import ValkeyProcess, start_valkey

LOST = 137  # numbers handed out, acknowledged and gone
USERS = [f"user{n}" for n in range(8)]
AGAIN_S = 0.02  # before a refused send is sent again
T = TypeVar("T")


class People:
    """Who sends, through which node, and what they were told."""

    def __init__(self, nodes: list[Core], c: str) -> None:
        self.nodes = nodes
        self.c = c
        self.sent: dict[str, list[str]] = {user_id: [] for user_id in USERS}
        self.told: dict[str, int] = {}  # message_id -> seq_no
        self.cursors = dict.fromkeys(USERS, 0)
        self.refused = 0

    async def send(self, count: int) -> None:
        """Everybody at once, each in order; what is refused for the moment is sent again, by the same id."""
        shares = [count // len(USERS) + (n < count % len(USERS)) for n in range(len(USERS))]
        await asyncio.gather(*(self._speak(*pair) for pair in zip(USERS, shares, strict=True)))

    async def send_until_refused(self, count: int) -> None:
        """At least so many, and on until one is refused: who sends meets the failover however late it comes."""
        refused = self.refused
        await self.send(count)
        while self.refused == refused:
            await self.send(len(USERS))

    async def read(self, user_id: str) -> None:
        """Up to what they see now."""
        page = await answered(lambda: self.nodes[0].history.page(user_id, self.c, limit=1))
        self.cursors[user_id] = page.entries[0].seq_no
        await answered(lambda: self.nodes[1].unread.mark_read(user_id, self.c, up_to_seq=self.cursors[user_id]))

    async def check(self) -> None:
        """Everything, as every node shows it."""
        log = await self._log()
        self._check_log(log)
        for node in self.nodes:
            await self._check_counts(node, log)

    async def _check_counts(self, node: Core, log: list[tuple[int, str, str]]) -> None:
        """A node that met another epoch marks the changes of the last minute cold in its next pass, once. The next read
        counts them again. So counts are right at every moment, and in the end all are warm."""
        deadline_s, cold = time.monotonic() + 60, 1
        while cold:
            assert time.monotonic() < deadline_s, "counts stay cold though they are read"
            for user_id in USERS:
                unread = [seq for seq, sender, _ in log if seq > self.cursors[user_id] and sender != user_id]
                totals = await answered(partial(node.unread.totals, user_id))
                assert totals.total_unread == len(unread), user_id
            report = await answered(lambda: node.verify.run(None, repair=False))
            assert (report.users, report.wrong) == (len(USERS), [])
            cold = report.cold

    def _check_log(self, log: list[tuple[int, str, str]]) -> None:
        seq_of = {message_id: seq for seq, _, message_id in log}
        assert len(seq_of) == len(log), "an id is there twice"
        assert {id_: seq_of.get(id_) for id_ in self.told} == self.told, "lost, or under another number"
        assert self.told.keys() == seq_of.keys(), "everything was acknowledged in the end"
        for ids in self.sent.values():
            assert all(a < b for a, b in pairwise(seq_of[id_] for id_ in ids)), "out of order"

    async def _speak(self, user_id: str, count: int) -> None:
        ids = self.sent[user_id]
        for n in range(len(ids), len(ids) + count):
            ids.append(f"{user_id}-{n}")
            await self._say(user_id, ids[-1], self.nodes[n % 2])

    async def _say(self, user_id: str, message_id: str, node: Core) -> None:
        while message_id not in self.told:
            try:
                sent = await node.sends.send(user_id, self.c, message_id, Content(f"text of {message_id}"))
                self.told[message_id] = sent.entry.seq_no
            except Problem as problem:
                assert problem.is_temporary, problem
                self.refused += 1
                await asyncio.sleep(AGAIN_S)

    async def _log(self) -> list[tuple[int, str, str]]:
        """(seq_no, sender, message_id) of every message, from the first number to the last without a gap."""
        entries: list[Entry] = []
        deadline_s = time.monotonic() + 60
        while True:
            after = entries[-1].seq_no if entries else 0
            read = partial(self.nodes[0].history.page, USERS[0], self.c, after_seq=after, limit=100)
            page = await answered(read)
            entries += reversed(page.entries)
            if page.next_after_seq is None:
                break
            assert time.monotonic() < deadline_s, "a slot stays open"
            if not page.entries:
                await asyncio.sleep(AGAIN_S)
        assert [entry.seq_no for entry in entries] == list(range(1, len(entries) + 1))
        messages = (entry for entry in entries if entry.kind == "message")
        return [(entry.seq_no, entry.sender_id or "", entry.message_id or "") for entry in messages]


async def answered(ask: Callable[[], Awaitable[T]]) -> T:
    """What a node says. Its link may have been cut just now: then it refuses until the link is there again."""
    deadline_s = time.monotonic() + 60
    while True:
        try:
            return await ask()
        except (Problem, Unavailable) as error:
            assert isinstance(error, Unavailable) or error.is_temporary, error
            assert time.monotonic() < deadline_s, error
            await asyncio.sleep(AGAIN_S)


async def gather_people(nodes: list[Core]) -> People:
    """A conversation of everybody; all have looked, so everything is warm."""
    view, _ = await nodes[0].directory.create(USERS[0], kind="group", members=USERS[1:], name="all")
    people = People(nodes, view.head.conversation_id)
    for user_id in USERS:
        await nodes[0].unread.totals(user_id)
    return people


def counter(server: ValkeyProcess, key: str) -> int:
    """The last number handed out, as a server has it; a replica of a cluster answers once READONLY was said."""
    _, size, *value = server.commands(("READONLY",), ("HGET", key, "seq")).decode().splitlines()
    return int(value[0]) if size != "$-1" else 0


@asynccontextmanager
async def beating(core: Core) -> AsyncIterator[Core]:
    """With what a node does beside answering."""
    await core.heartbeat.start()
    try:
        yield core
    finally:
        await core.heartbeat.stop()


# --- one server with a replica --------------------------------------------------------------------


class Pair:
    """Two servers, of which one is the primary; nodes reach it through `front`, the replica through `wire`."""

    def __init__(self, folder: Path, front: Proxy, wire: Proxy) -> None:
        assert isinstance(front.target, int)
        self.ports = (front.target, free_port())
        self.servers = tuple(start_on(folder / name, port) for name, port in zip("ab", self.ports, strict=True))
        self.front = front
        self.wire = wire

    async def replicate(self) -> None:
        """The second copies the first, and is in step."""
        second = self.servers[1]
        assert second.command("REPLICAOF", "127.0.0.1", str(self.wire.port)) == b"+OK\r\n"
        await eventually(lambda: b"master_link_status:up" in second.command("INFO", "replication"))

    async def cut_replication(self, key: str) -> int:
        """From here on the second hears nothing of the first. The last number that it has."""
        first, second = self.servers
        await eventually(lambda: counter(first, key) == counter(second, key))
        await self.wire.cut()
        await eventually(lambda: b"master_link_status:down" in second.command("INFO", "replication"))
        return counter(second, key)

    async def promote_second(self, is_noticed: Callable[[], bool] = lambda: True) -> None:
        first, second = self.servers
        first.kill()
        await eventually(is_noticed)
        assert second.command("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        await self.front.switch(self.ports[1])

    async def fall_back(self) -> None:
        """The old primary comes back with what it had, as a primary; the other one goes."""
        first, second = self.servers
        first.start()
        second.kill()
        await self.front.switch(self.ports[0])

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


def start_on(folder: Path, port: int) -> ValkeyProcess:
    own = ("--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes", "--repl-diskless-sync-delay", "0")
    return start_valkey(folder, args=own)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        first = free_port()
        front, wire = [await stack.enter_async_context(open_proxy(first)) for _ in range(2)]
        pair = Pair(tmp_path, front, wire)
        stack.callback(pair.stop)
        await pair.replicate()
        yield pair


@pytest.fixture
async def people(pair: Pair, settings: Settings) -> AsyncIterator[People]:
    """Two nodes, reached through the front."""
    url = f"redis://127.0.0.1:{pair.front.port}"
    async with AsyncExitStack() as stack:
        nodes = []
        for name in ("n1", "n2"):
            own = dataclasses.replace(settings, keyspace=url, node=Node(id=name))
            core = await stack.enter_async_context(graph.open_core(own))
            nodes.append(await stack.enter_async_context(beating(core)))
        yield await gather_people(nodes)


async def test_a_replica_with_a_lost_tail_takes_over_and_the_old_primary_comes_back(pair: Pair, people: People) -> None:
    key = f"conv:{{{people.c}}}"
    await people.send(60)
    reached = await pair.cut_replication(key)
    await people.send(LOST)
    await people.read(USERS[3])  # the replica knows nothing of this either
    assert [counter(server, key) for server in pair.servers] == [reached + LOST, reached]

    sending = asyncio.create_task(people.send_until_refused(80), name="sending")
    await eventually(lambda: len(people.told) >= 60 + LOST + 20)
    assert counter(pair.servers[1], key) == reached  # a lost tail, indeed
    await pair.promote_second(lambda: people.refused > 0)
    await sending
    await people.send(40)
    await people.check()

    await people.read(USERS[5])
    told = len(people.told)
    sending = asyncio.create_task(people.send(80), name="sending")
    await eventually(lambda: len(people.told) >= told + 20)
    await pair.fall_back()
    await sending
    await people.check()
    await people.send(20)
    await people.check()


async def test_a_quiet_failover_is_noticed_by_whoever_looks_next(pair: Pair, people: People) -> None:
    """Nobody sends anything meanwhile: the counts alone tell, and they are warm on the replica."""
    await people.send(30)
    await pair.cut_replication(f"conv:{{{people.c}}}")
    await people.send(LOST)
    await people.read(USERS[2])
    await pair.promote_second()
    await eventually(lambda: all(node.keyspace.is_up() for node in people.nodes))
    await people.check()
    await pair.fall_back()
    await eventually(lambda: all(node.keyspace.is_up() for node in people.nodes))
    await people.check()


# --- a shard of a cluster -------------------------------------------------------------------------


COPIER = ("--user", "copier", "on", ">copies", "~*", "&*", "+@all", "--masteruser", "copier", "--masterauth", "copies")


class Shards:
    """A cluster whose first shard has a replica. Replicas sign in as a user of their own, who can be locked out."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.primary = cluster.servers[0]
        self.replica = cluster.add_replica(self.primary)

    async def cut_replication(self, key: str) -> int:
        primary, replica = self.primary, self.replica
        await eventually(lambda: counter(primary, key) == counter(replica, key))
        primary.say("ACL", "SETUSER", "copier", "off")
        primary.say("CLIENT", "KILL", "TYPE", "replica")
        await eventually(lambda: replica.info("replication", "master_link_status") == "down")
        return counter(replica, key)

    async def promote(self, is_noticed: Callable[[], bool]) -> None:
        """The replica takes over without asking anybody, when somebody has noticed."""
        self.primary.kill()
        await eventually(is_noticed)
        self.replica.say("CLUSTER", "FAILOVER", "TAKEOVER")
        await eventually(lambda: self.replica.info("replication", "role") == "master")
        self.primary, self.replica = self.replica, self.primary

    async def bring_back(self) -> None:
        """Who was the primary comes back with its old data, finds that it is none, and copies its successor."""
        self.replica.start()
        self.replica.say("CONFIG", "SET", "cluster-replica-no-failover", "yes")
        await eventually(lambda: b"master_link_status:up" in self.replica.command("INFO", "replication"), within_s=60)


@pytest.fixture
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    with running_cluster(tmp_path_factory.mktemp("f"), args=("--appendonly", "yes", *COPIER)) as cluster:
        yield Shards(cluster)


@pytest.fixture
async def spread(shards: Shards, settings: Settings) -> AsyncIterator[People]:
    """Two nodes on the cluster; the conversation and some of the people are on its first shard."""
    async with AsyncExitStack() as stack:
        owns = [dataclasses.replace(settings, node=Node(id=name)) for name in ("n1", "n2")]
        cores = [await stack.enter_async_context(core_on(own, shards.cluster.url)) for own in owns]
        nodes = [await stack.enter_async_context(beating(core)) for core in cores]
        while shards.cluster.serving(slot_of((people := await gather_people(nodes)).c)) is not shards.primary:
            await nodes[0].directory.delete(USERS[0], people.c)
        yield people


async def test_a_shard_with_a_lost_tail_takes_over_and_the_old_primary_comes_back(
    shards: Shards, spread: People
) -> None:
    key, people = f"conv:{{{spread.c}}}", spread
    assert shards.primary in {shards.cluster.serving(slot_of(user_id)) for user_id in USERS}
    for turn in range(2):  # there, and back
        await people.send(40)
        reached = await shards.cut_replication(key)
        await people.send(LOST)
        await people.read(USERS[turn])
        acknowledged, refused = len(people.told), people.refused
        sending = asyncio.create_task(people.send_until_refused(80), name="sending")
        await eventually(lambda at=acknowledged + 20: len(people.told) >= at)  # type: ignore[misc]
        assert counter(shards.primary, key) >= reached + LOST and counter(shards.replica, key) == reached
        await shards.promote(lambda before=refused: people.refused > before)  # type: ignore[misc]
        await sending
        await people.check()
        await shards.bring_back()
        await people.send(20)
        await people.check()
