"""Audit, activity and the limiter on its own on a cluster, of the wheel's Valkey and of Debian's Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.messaging.audit_stream import Auditing
from tests.support.messaging.faulty_stores import FaultyKeyspace
from tidings.clock import Clock
from tidings.limiter import Limiter
from tidings.operators.active_users import ActiveUsers
from tidings.stores.keyspace.cluster import open_cluster
from tidings.stores.keyspace.scripts.audit import SOURCES
from tidings_proof.world.cluster import Cluster, binary_of, running_cluster

USERS = 40


@pytest.fixture(scope="module", params=["valkey", "redis"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if (binary := binary_of(request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    with running_cluster(tmp_path_factory.mktemp("c"), binary=binary) as cluster:
        yield cluster


@pytest.fixture
async def one(cluster: Cluster) -> AsyncIterator[Auditing]:
    keyspace = await open_cluster(cluster.url, SOURCES.values(), Clock())
    yield Auditing(FaultyKeyspace(keyspace), f"audit.{Clock().random_id(4)}.")
    await keyspace.close()


async def test_the_audit_is_written_taken_over_counted_replayed_and_shown(one: Auditing) -> None:
    for number in range(USERS):
        one.audit.rejected("send", f"user{number}", number)
    assert len(await one.write()) == USERS
    await one.worker("dead").take(2)
    await one.count_all(one.worker("n2", idle_s=0))
    wanted = {f"reject:send:user{number}": number for number in range(USERS)}
    assert await one.sums() == wanted
    assert (await one.replay.run("0")).entries == USERS
    assert await one.sums() == wanted
    key = one.scripts.keys.audit(0)
    await one.ask(key, b"XADD", key, b"*", b"event", b"poison")
    for _ in range(7):
        await one.worker("n2", idle_s=0).step()
    lag = await one.reader.lag()
    assert (lag.entries, lag.waiting, lag.pending, lag.dead) == (USERS + 1, 0, 0, 1)


async def test_days_are_counted_together(one: Auditing) -> None:
    activity = ActiveUsers(one.keyspace, one.scripts.keys, one.clock, lambda: ())
    for number in range(USERS):
        activity.note(f"user{number}")
    await activity.flush()
    assert abs(await activity.actives(7) - USERS) <= 1
    assert len(await activity.active_days("user7")) == 1


async def test_the_limiter_on_its_own_is_exact(cluster: Cluster) -> None:
    async with Limiter(f"{cluster.url}?prefix=l{Clock().random_id(4)}.", "10/60s") as limiter:
        verdicts = await asyncio.gather(*(limiter.admit(f"k{n % 3}") for n in range(90)))
        assert sum(map(bool, verdicts)) == 30
