"""Typing and presence behind one door: droppable, renewed while anybody watches, closed with the node."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support.messaging.presence_nodes import open_presence_node
from tests.support.waiting import eventually
from tidings.config.settings import Settings
from tidings.errors import NotFound
from tidings.pushes import Presence, Typing
from tidings.routing.bus import Signal
from tidings_proof.world.valkey import start_valkey


async def test_without_the_keyspace_nothing_is_refused_and_local_typing_goes_on(
    settings: Settings, tmp_path: Path
) -> None:
    server = start_valkey(tmp_path / "v")
    try:
        async with open_presence_node(dataclasses.replace(settings, keyspace=server.url), away_s=0.05) as node:
            crew = await node.group("alice", "bob")
            alice, bob = await node.connect("alice"), await node.connect("bob")
            server.kill()
            await node.live_status.watch(bob, [crew])
            await node.live_status.typing("alice", crew, True, alice.connection_id)
            assert bob.typing() == [("alice", True)]
            node.disconnect(alice)
            await eventually(lambda: len(node.tasks) == 1)  # what renews the watch goes on
            with pytest.raises(NotFound):
                await node.live_status.watch(bob, ["c-that-does-not-exist"])
    finally:
        server.stop()


async def test_what_another_node_has_is_told_to_watchers_here(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew, other = await node.group("alice", "bob"), await node.group("alice", "carol")
        bob, carol = await node.watcher("bob", crew), await node.watcher("carol", other)
        node.live_status.take(Signal((crew,), Typing(crew, "alice", True)))
        node.live_status.take(Signal((crew, "c-gone"), Presence("alice", True, None)))
        await eventually(lambda: len(bob.events) == 2)
        assert (bob.typing(), bob.presence()) == ([("alice", True)], [("alice", True)])
        assert carol.events == []


async def test_the_watch_is_renewed_while_anybody_watches_and_no_longer(settings: Settings) -> None:
    async with open_presence_node(settings, renew_s=0.02) as node:
        crew = await node.group("alice", "bob")
        await node.core.registry.renew_node()
        bob = await node.watcher("bob", crew)
        assert len(node.tasks) == 1
        node.live_status.forget(bob)
        await eventually(lambda: len(node.tasks) == 0)
        await node.live_status.watch(bob, [crew])
        assert len(node.tasks) == 1


async def test_closing_leaves_nothing_behind(settings: Settings) -> None:
    async with open_presence_node(settings, typing_s=0.05, away_s=0.05) as node:
        crew = await node.group("alice", "bob")
        alice, bob = await node.connect("alice"), await node.watcher("bob", crew)
        await node.live_status.typing("alice", crew, True, alice.connection_id)
        node.disconnect(alice)
        await node.live_status.close()
        assert (len(node.tasks), len(node.typing_status)) == (0, 0)
        started_s = node.core.clock.monotonic_s()
        await eventually(lambda: node.core.clock.monotonic_s() > started_s + 0.2)
        assert ("alice", False) not in [*bob.typing(), *bob.presence()]
