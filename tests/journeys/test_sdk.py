"""Delivery, driven through the Python client, while the network is cut at random and nodes come and go."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.support.devices.plain_client import token_for
from tests.support.devices.sdk_journey import Journey, eventually, open_journey
from tests.support.nodes.node_process import NodeProcess
from tidings.config.settings import Node as NodeSettings
from tidings.config.settings import Settings
from tidings.node.node import Node, open_node


async def talk_in_a_storm(journey: Journey, count: int, chance: random.Random) -> None:
    storm = asyncio.create_task(journey.storm(chance), name="storm")
    try:
        await journey.talk(count, chance)
    finally:
        storm.cancel()
        await asyncio.gather(storm, return_exceptions=True)


async def test_with_the_network_cut_at_random_everyone_is_told_exactly_what_was_sent(node: Node) -> None:
    async with open_journey(node.port, lambda user_id: token_for(node, user_id)) as journey:
        await talk_in_a_storm(journey, 60, random.Random(1))
        assert min(device.cut_count for device in journey.devices) >= 3
        await journey.check()
        report = await node.core.verify.run(None, repair=False)
        assert not report.wrong, report


async def test_a_node_drained_under_the_conversation_loses_doubles_and_reorders_nothing(settings: Settings) -> None:
    one = dataclasses.replace(settings, node=NodeSettings(id="one"))
    other = dataclasses.replace(settings, node=NodeSettings(id="other"))
    async with open_node(other) as stays, AsyncExitStack() as leaving:
        goes = await leaving.enter_async_context(open_node(one))
        async with open_journey(goes.port, lambda user_id: token_for(stays, user_id)) as journey:
            talking = asyncio.create_task(journey.talk(50, random.Random(2)), name="talk")
            for device in journey.devices:
                device.proxy.target = stays.port  # what a load balancer does with a node that is not ready
            await goes.gateway.drain(spread_ms=300)
            await leaving.aclose()
            await talking
            await journey.check()


@pytest.mark.long
async def test_a_node_killed_under_the_conversation_loses_doubles_and_reorders_nothing(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", env={"TIDINGS_LIMITS_CONNECT": "off"}) as process:
        process.start()
        async with open_journey(process.port, process.token) as journey:
            talking = asyncio.create_task(journey.talk(100, random.Random(3)), name="talk")
            for told_count in (50, 500):
                await eventually(partial(journey.is_under_way, told_count), "a conversation to interrupt")
                await asyncio.to_thread(process.kill)
                await asyncio.to_thread(process.start)
            await talking
            await journey.check()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [11, 12, 13])
async def test_thousands_of_messages_over_a_network_that_keeps_failing(node: Node, seed: int) -> None:
    async with open_journey(node.port, lambda user_id: token_for(node, user_id)) as journey:
        await talk_in_a_storm(journey, 500, random.Random(seed))
        await journey.check()
