"""The lag of every stream is a figure of the node: entries that no worker has finished."""

from __future__ import annotations

from tidings.messaging.push.job import Job
from tidings.node.graph import Core
from tidings.node.node import Node
from tidings.operators.stream_lag import StreamLags
from tidings.stores.keyspace.streams import read_lag


async def lags_of(core: Core) -> dict[str, int]:
    found: dict[str, int] = {}
    await StreamLags(core.queues.keyspace, core.queues.keys, found.__setitem__).read()
    return found


async def test_entries_that_no_worker_has_finished_are_the_lag(core: Core) -> None:
    assert await lags_of(core) == {"audit": 0, "push": 0}
    for n in range(5):
        core.limiting.audit.rejected("send", f"u{n}")
    while await core.limiting.audit.flush():
        pass
    await core.pushing.notify._put([Job(user_id=f"u{n}", made_ms=1) for n in range(3)])
    assert await lags_of(core) == {"audit": 5, "push": 3}
    while await core.limiting.fold.step():
        pass
    assert await lags_of(core) == {"audit": 0, "push": 3}


async def test_an_entry_that_a_worker_took_and_did_not_finish_still_counts(core: Core) -> None:
    queues = core.queues
    await core.pushing.notify._put([Job(user_id="u", made_ms=1)])
    for shard in range(4):
        take = core.pushing.scripts.push_take(shard, "w", limit=10, idle_ms=60_000, deliveries_max=5)
        await queues.keyspace.one(take)
    assert await lags_of(core) == {"audit": 0, "push": 1}
    lags = [await read_lag(queues.keyspace, queues.keys.push(shard), "notify") for shard in range(4)]
    assert sum(lag.pending for lag in lags) == 1 and sum(lag.waiting for lag in lags) == 0


async def test_a_node_shows_the_lag_on_its_page_of_metrics(node: Node) -> None:
    await node.core.limiting.lags.read()
    page = node.core.metrics.render().decode()
    assert 'tidings_stream_lag{stream="audit"} 0.0' in page and 'tidings_stream_lag{stream="push"} 0.0' in page
