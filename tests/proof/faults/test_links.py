"""Faults on the way, to people on a real node: everybody comes back and has everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.faults.test_faults import world
from tests.support.waiting import eventually
from tidings_proof.faults import links as faults
from tidings_proof.faults.faults import Strike
from tidings_proof.faults.schedule import Step
from tidings_proof.people.workload import Workload
from tidings_proof.torture.run import unsettled
from tidings_proof.world.keyspaces import AnyKeyspace
from tidings_proof.world.proxy import Proxy
from tidings_proof.world.scene import Scene

STEP = Step(0, "", 0.5, 0.0, 0.1)


@pytest.mark.parametrize(
    "strike",
    [
        faults.dropping_links,
        faults.clients_cut,
        faults.clients_frozen,
        faults.clients_slow,
        faults.members_churn,
        faults.reconnect_storm,
        faults.strangers_flood,
        faults.slow_readers,
    ],
    ids=lambda strike: strike.__name__,
)
async def test_people_get_over_it(people: Workload, front: Proxy, tmp_path: Path, strike: Strike) -> None:
    scene = Scene(world(tmp_path, AnyKeyspace(""), "http://127.0.0.1:1"), people)
    scene.world.fronts = [front]
    await eventually(lambda: all(one.is_live for one in people.devices))
    for device in people.devices:
        device.compose(next(id_ for id_, one in device.followed.items() if one.is_here))
    await strike(scene, STEP)
    await eventually(lambda: all(one.is_live for one in people.devices) and not unsettled(people))


@pytest.mark.parametrize("degree", [0.1, 0.9])
async def test_a_link_to_the_keyspace_is_cut_or_frozen_or_slow_and_mended(tmp_path: Path, degree: float) -> None:
    keyspace = AnyKeyspace("")
    link = Proxy(1)
    await link.open()
    keyspace.links = [link]
    scene = Scene(world(tmp_path, keyspace), None)  # type: ignore[arg-type]
    for strike in (faults.partition, faults.slow_link):
        await strike(scene, Step(0, "", 0.01, 0.0, degree))
        assert not link._is_cut and link._flowing.is_set() and link.delay_s == 0
    await link.close()
