"""A world: nodes on stores of their own, which heals; and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SECRET
from tidings.clock import Dice
from tidings.config.settings import Auth, Settings
from tidings.config.values import SettingsError
from tidings_proof.people.wire import rest
from tidings_proof.world.world import Place, _port_of, open_world


def place(folder: Path, **fields: Any) -> Place:
    return Place(folder, 1, "sqlite+valkey", Settings())._replace(**fields)


async def test_a_world_starts_and_heals(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("w")
    async with open_world(place(folder), Dice(1)) as world:
        (node,) = world.nodes
        (port,) = world.ports()
        assert port != node.port and world.sqlite == folder / "tidings.db"
        assert world.is_ours and world.has_own_stores
        assert (await rest(port, world.token("u0"), "GET", "/v1/inbox"))[0] == 200
        await world.keyspace.links[0].cut()
        await world.fronts[0].cut()
        node.trouble.change(refused=1.0)
        node.kill()
        await world.heal()
        assert (await rest(port, world.token("u0"), "GET", "/v1/inbox"))[0] == 200
    assert not node.is_running


async def test_nodes_that_run_already_are_only_looked_at(tmp_path: Path) -> None:
    settings = Settings(auth=Auth(secret=SECRET))
    addresses = ("http://127.0.0.1:9", "http://127.0.0.1:10")
    async with open_world(place(tmp_path, nodes=0, addresses=addresses, settings=settings), Dice(1)) as world:
        assert world.nodes == [] and not world.is_ours and len(world.ports()) == 2
        assert [front.target for front in world.fronts] == [9, 10] and not world.has_own_stores


async def test_stores_that_are_named_are_used_and_not_made(tmp_path: Path) -> None:
    settings = dataclasses.replace(Settings(), keyspace="redis://127.0.0.1:1", tables="sqlite:///x/y.db")
    async with open_world(place(tmp_path, nodes=0, settings=settings), Dice(1)) as world:
        assert (world.keyspace.url, world.tables) == ("redis://127.0.0.1:1", "sqlite:///x/y.db")
        assert not world.keyspace.can("flush") and world.is_ours and not world.has_own_stores


@pytest.mark.parametrize("address", ["http://example.com:8000", "127.0.0.1", "http://10.0.0.1:80"])
def test_a_node_elsewhere_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="--at takes loopback"):
        _port_of(address)


def test_nodes_that_run_already_need_their_secret_and_take_no_plant(tmp_path: Path) -> None:
    running = place(tmp_path, nodes=0, addresses=("http://127.0.0.1:9",))
    with pytest.raises(SettingsError, match="--auth-secret"):
        running.targets()
    with pytest.raises(SettingsError, match="--plant"):
        running._replace(plants=("no-dedupe",)).targets()
    assert running._replace(settings=Settings(auth=Auth(secret=SECRET))).targets() == [9]
    assert place(tmp_path, plants=("no-dedupe",)).targets() == []
