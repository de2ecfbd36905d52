"""Who serves which slot: read from any server, kept up to date, and never changed without a word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.hash_slots import SLOTS, Place, parse_cluster_url
from tidings.stores.keyspace.link import Link
from tidings.stores.keyspace.topology import Topology
from tidings_proof.world.cluster import Cluster, Server, running_cluster
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess, start_valkey


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("t")) as cluster:
        yield cluster


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Topology]:
    topology = Topology(parse_cluster_url(url), (), Clock(), lambda commands: None)
    await topology.open()
    try:
        yield topology
    finally:
        await topology.close()


def served_by(topology: Topology, server: Server) -> int:
    """How many slots are given to a server."""
    return sum(link.address.port == server.port for link in topology.owners)


def place_of(server: Server) -> Place:
    return Place("127.0.0.1", server.port)


async def test_every_slot_has_the_link_of_its_primary(cluster: Cluster) -> None:
    async with opened(cluster.url) as topology:
        assert len(topology.owners) == SLOTS and topology.is_up
        assert [served_by(topology, server) for server in cluster.servers] == [5461, 5461, 5462]


async def test_a_move_that_nobody_stumbles_over_is_noticed(cluster: Cluster) -> None:
    source, to, _ = cluster.servers
    changes: list[int] = []
    async with opened(cluster.url) as topology:
        topology.on_change(lambda: changes.append(served_by(topology, to)))
        cluster.move([7], to)
        await eventually(lambda: changes == [5462])
        assert served_by(topology, source) == 5460


async def test_a_server_without_slots_is_left_and_taken_up_again(cluster: Cluster) -> None:
    async with opened(cluster.url) as topology:
        newcomer = cluster.add_server()
        cluster.servers[0].meet(newcomer)
        cluster.settle()
        link = await topology.link_to(place_of(newcomer))
        assert link is await topology.link_to(place_of(newcomer)) and link.is_up
        await eventually(lambda: not link.is_up)  # it serves nothing
        cluster.move([7], newcomer)
        await eventually(lambda: served_by(topology, newcomer) == 1)
        again = topology.owners[7]
        assert again is not link and again.is_up


async def test_a_link_with_something_under_way_is_not_left(cluster: Cluster) -> None:
    async with opened(cluster.url) as topology:
        newcomer = cluster.add_server()
        cluster.servers[0].meet(newcomer)
        cluster.settle()
        link = await topology.link_to(place_of(newcomer))
        newcomer.pause()
        asked = asyncio.create_task(link.exchange([plain("", "PING")]), name="asked")
        try:
            await topology.refresh()
            await topology.refresh()
            await topology.refresh()
            assert not asked.done()
        finally:
            newcomer.resume()
        assert (await asked).answers == [b"PONG"]


async def test_a_refusal_teaches_one_slot_and_the_epoch_is_told_first(cluster: Cluster) -> None:
    source, to, _ = cluster.servers
    told: list[tuple[str, str, Link]] = []
    async with opened(cluster.url) as topology:
        topology.on_epoch(lambda old, new: told.append((old, new, topology.owners[7])))
        old = topology.owners[7]
        new = await topology.learn(7, place_of(to))
        assert told == [(old.epoch, new.epoch, old)]
        assert topology.owners[7] is new and served_by(topology, source) == 5460
        await eventually(lambda: topology.owners[7] is old)  # the servers did not mean it


async def test_what_is_up_is_not_given_to_a_server_that_is_down(cluster: Cluster) -> None:
    """A server that was away may still name a primary that is long gone."""
    first, second, _ = cluster.servers
    async with opened(cluster.url) as topology:
        first.kill()
        await eventually(lambda: not topology.is_up)
        await topology.learn(7, place_of(second))  # before, a reading of the first would undo it
        with pytest.raises(Unavailable):
            await topology.link_to(Place("127.0.0.1", free_port()))
        await topology.refresh()
        assert topology.owners[7].address.port == second.port
        assert topology.owners[8].address.port == first.port


async def test_replicas_are_asked_when_nobody_else_is_left(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("one"))
    try:
        (primary,) = cluster.start(1).servers
        replica = cluster.add_replica(primary)
        async with opened(f"redis+cluster://127.0.0.1:{primary.port}") as topology:
            primary.kill()
            replica.say("CLUSTER", "FAILOVER", "TAKEOVER")
            await eventually(lambda: topology.is_up and served_by(topology, replica) == SLOTS)
    finally:
        cluster.stop()


async def test_a_server_that_hangs_does_not_stop_the_reading(cluster: Cluster) -> None:
    _, to, slow = cluster.servers
    async with opened(cluster.url) as topology:
        cluster.move([7], to)
        slow.pause()
        try:
            await eventually(lambda: topology.owners[7].address.port == to.port)
        finally:
            slow.resume()


async def test_a_server_that_is_no_cluster_is_said_to_be_none(tmp_path_factory: pytest.TempPathFactory) -> None:
    port = free_port()
    alone: ValkeyProcess = start_valkey(tmp_path_factory.mktemp("v"), args=("--port", str(port)))
    try:
        with pytest.raises(Unavailable, match="cluster support disabled"):
            async with opened(f"redis+cluster://127.0.0.1:{port}"):
                pass
    finally:
        alone.stop()
