"""kill -9 in the middle of a crowd's sends: what was acknowledged is there, once, where it was, and counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.devices.many_senders import Crowd
from tests.support.fault_checks import check_everything, connect, send_until
from tests.support.nodes.node_process import NodeProcess

Blow = Callable[[NodeProcess], None]


async def fall_and_return(crowd: Crowd, node: NodeProcess, c: str, blow: Blow, *, count: int, at: int) -> None:
    """Killed, started again on the same folder; what was not acknowledged is sent again, and all that was, too."""
    await send_until(crowd, c, count=count, at=at, blow=lambda: blow(node))
    before = dict(crowd.told)
    node.start()
    await connect(crowd, node)
    await crowd.send(c, count // 2)
    await crowd.resend(c, list(before))
    assert {id_: crowd.told[id_] for id_ in before} == before


@pytest.mark.parametrize(
    ("blow", "at"),
    [(NodeProcess.kill_both, 20), (NodeProcess.kill_both, 300), (NodeProcess.kill_both, 700), (NodeProcess.kill, 300)],
    ids=["both-early", "both-midway", "both-late", "node-alone"],
)
async def test_nothing_acknowledged_is_lost_or_stored_twice(tmp_path: Path, blow: Blow, at: int) -> None:
    crowd = Crowd(users=5, devices=2, seed=at)
    with NodeProcess(tmp_path / "data") as node:
        c = node.start().create_group(crowd.user_ids)
        await connect(crowd, node)
        await fall_and_return(crowd, node, c, blow, count=1_000, at=at)
        await check_everything(crowd, node, c)


@pytest.mark.long
async def test_five_falls_in_a_row_lose_and_repeat_nothing(tmp_path: Path) -> None:
    crowd = Crowd(users=10, devices=5)
    with NodeProcess(tmp_path / "data") as node:
        c = node.start().create_group(crowd.user_ids)
        await connect(crowd, node)
        for fall in range(5):
            blow = NodeProcess.kill_both if fall % 2 else NodeProcess.kill
            await fall_and_return(crowd, node, c, blow, count=1_000, at=200)
        await check_everything(crowd, node, c)
