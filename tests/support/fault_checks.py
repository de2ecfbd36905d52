"""What the fault tests share: a blow in the middle of a crowd's sends, and the look at everything afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping

from tests.support.devices.many_senders import Crowd, check_log, check_unread, read_log
from tests.support.nodes.node_process import NodeProcess
from tests.support.waiting import eventually

_LOOKS = 10  # at the counts: each of them takes a second or more


async def connect(crowd: Crowd, node: NodeProcess) -> None:
    await crowd.connect(lambda name: node.port, node.token)


async def send_until(crowd: Crowd, c: str, *, count: int, at: int, blow: Callable[[], object]) -> None:
    """The crowd sends `count`; the blow falls when `at` more of them are acknowledged."""
    goal = crowd.acknowledged + at
    sending = asyncio.create_task(crowd.send(c, count), name="crowd")
    await eventually(lambda: crowd.acknowledged >= goal or sending.done())
    assert not sending.done(), "the blow came too late"
    blow()
    await asyncio.wait_for(sending, 60)


async def check_counts(crowd: Crowd, node: NodeProcess, c: str, cursors: Mapping[str, int] | None = None) -> None:
    """Every member's counts as the log and the cursors have them, and the node's own verdict on its counts.

    A write whose outcome was unknown may make a user cold a little later, which is no fault: the next read rebuilds.
    """
    entries = await read_log(crowd.connected[crowd.names[0]], c)
    for _ in range(_LOOKS):
        for user_id in crowd.user_ids:
            await check_unread(
                crowd.connected[f"{user_id}-d0"], c, user_id, entries, cursor=(cursors or {}).get(user_id, 0)
            )
        verdict = node.tidings("unread", "verify", "--json")
        assert verdict.returncode == 0, verdict
        report = json.loads(verdict.stdout)
        assert (report["users"], report["wrong"]) == (len(crowd.user_ids), [])
        if report["cold"] == 0:
            return
    raise AssertionError(f"the inboxes stay cold: {report}")


async def check_everything(crowd: Crowd, node: NodeProcess, c: str, cursors: Mapping[str, int] | None = None) -> None:
    check_log(await read_log(crowd.connected[crowd.names[0]], c), crowd)
    await check_counts(crowd, node, c, cursors)
