"""kill -9 of a worker in the middle of a crowd's sends: nobody loses anything, and the other worker serves on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.devices.many_senders import Crowd
from tests.support.fault_checks import check_everything, connect, send_until
from tests.support.nodes.worker_processes import Workers, needs_linux
from tests.support.waiting import eventually

pytestmark = needs_linux


@pytest.mark.parametrize("which", [0, 1])
async def test_nothing_acknowledged_is_lost_or_stored_twice(tmp_path: Path, which: int) -> None:
    crowd = Crowd(users=5, devices=2, seed=which)
    with Workers(tmp_path / "data") as workers:
        workers.start()
        await eventually(workers.is_whole)
        c = workers.create_group(crowd.user_ids)
        await connect(crowd, workers)
        await send_until(crowd, c, count=600, at=200, blow=lambda: os.kill(workers.pids()[which], signal.SIGKILL))
        before = dict(crowd.told)
        await eventually(workers.is_whole)
        await crowd.leave()
        await connect(crowd, workers)
        await crowd.send(c, 200)
        await crowd.resend(c, list(before))
        assert {id_: crowd.told[id_] for id_ in before} == before
        await check_everything(crowd, workers, c)


async def test_replacing_the_workers_under_load_loses_nothing(tmp_path: Path) -> None:
    crowd = Crowd(users=5, devices=2)
    with Workers(tmp_path / "data") as workers:
        workers.start()
        await eventually(workers.is_whole)
        c = workers.create_group(crowd.user_ids)
        await connect(crowd, workers)
        await send_until(crowd, c, count=600, at=200, blow=workers.reload)
        await eventually(lambda: "workers replaced" in workers.said())
        await crowd.leave()
        await connect(crowd, workers)
        await crowd.send(c, 200)
        await check_everything(crowd, workers, c)
