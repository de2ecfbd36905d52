"""Order and idempotency: many devices send at once and resend a good part; the log holds each once, in order."""

from __future__ import annotations

import pytest

from tests.support.devices.many_senders import Crowd, check_log, check_unread, read_log
from tests.support.devices.plain_client import token_for
from tidings.node.node import Node


async def crowd_into_one_conversation(node: Node, count: int) -> None:
    crowd = Crowd(users=10, devices=5)
    view, _ = await node.core.directory.create("u0", kind="group", members=crowd.user_ids[1:])
    c = view.head.conversation_id
    await crowd.connect(lambda name: node.port, lambda user_id: token_for(node, user_id))
    await crowd.send(c, count)
    await crowd.resend(c, crowd.some_acknowledged(0.05))

    assert crowd.acknowledged == count
    assert crowd.resends >= count * 0.2
    assert set(crowd.stored.values()) == {1}, "exactly one answer said that it was stored now"
    entries = await read_log(crowd.connected["u0-d0"], c)
    assert len(entries) == count
    assert {entry["kind"] for entry in entries} == {"message"}
    check_log(entries, crowd)
    for user_id in crowd.user_ids:
        await check_unread(crowd.connected[f"{user_id}-d0"], c, user_id, entries)
    for device in crowd.connected.values():
        assert device.heard == sorted(set(device.heard)), "live entries came in order, each once"
        assert device.answered | set(device.heard) == set(range(1, count + 1)), "and none was left out"
    await crowd.leave()


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_thousands_of_sends_of_fifty_sockets_share_one_order(node: Node, count: int) -> None:
    await crowd_into_one_conversation(node, count)
