"""The primary of the keyspace is killed under load, and sentinels promote the replica: every promise is kept."""

from __future__ import annotations

from pathlib import Path

from tests.support.devices.many_senders import Crowd
from tests.support.fault_checks import check_everything, connect, send_until
from tests.support.nodes.node_process import NodeProcess
from tests.support.servers.sentinels import running_sentinels
from tests.support.waiting import eventually


async def test_sends_go_on_after_a_failover_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    crowd = Crowd(users=5, devices=2)
    with running_sentinels(tmp_path / "k") as watched:
        await eventually(watched.is_ready)
        with NodeProcess(tmp_path / "data", {"TIDINGS_KEYSPACE": watched.url}) as node:
            c = node.start().create_group(crowd.user_ids)
            await connect(crowd, node)
            old = watched.primary_port()
            await send_until(crowd, c, count=1_000, at=300, blow=watched.primary.kill)
            assert watched.primary_port() != old
            await crowd.send(c, 200)
            await check_everything(crowd, node, c)
