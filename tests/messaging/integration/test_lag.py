"""How far a webhook is behind."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.servers.hook_endpoint import Endpoint
from tidings.errors import NotFound
from tidings.model import Content
from tidings.node.node import Node


async def test_the_state_says_what_is_missing_and_what_was_answered(
    node: Node, endpoint: Endpoint, conversation: str
) -> None:
    endpoint.status = 500
    hook = await node.core.integration.hooks.create(endpoint.url, is_from_start=True)
    sent = await node.core.sends.send("alice", conversation, None, Content("hi"))
    lag = node.core.integration.lag
    async with asyncio.timeout(60):
        while (state := await lag.state(hook.webhook_id)).last_answer is None:
            await asyncio.sleep(0.02)
    assert (state.behind_by, state.oldest_ms) == (1, sent.entry.sent_ms)
    assert (state.last_answer.status, state.paused, state.is_complete) == (500, [], True)
    await lag.measure()
    assert b'tidings_webhook_lag_seconds{webhook="%b"}' % hook.webhook_id.encode() in node.core.metrics.render()
    endpoint.status = 200
    async with asyncio.timeout(60):
        while (await lag.state(hook.webhook_id)).behind_by:
            await asyncio.sleep(0.02)
    await node.core.integration.hooks.remove(hook.webhook_id)
    await lag.measure()
    assert hook.webhook_id.encode() not in node.core.metrics.render()


async def test_a_replay_of_nothing_is_refused(node: Node, endpoint: Endpoint, conversation: str) -> None:
    hook = await node.core.integration.hooks.create(endpoint.url)
    for webhook_id, conversation_id in (("wh_none", conversation), (hook.webhook_id, "nowhere")):
        with pytest.raises(NotFound):
            await node.core.integration.lag.replay(webhook_id, conversation_id, 1)
