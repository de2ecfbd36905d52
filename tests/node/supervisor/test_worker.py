"""The process of a worker: what it tells its supervisor, and what it does when the supervisor is gone."""

from __future__ import annotations

import asyncio
import dataclasses
import socket

from tidings.config.settings import Settings
from tidings.node.channel import Channel
from tidings.node.supervisor.worker import Order, Worker


class Boss:
    """The other end of the channel. It remembers what it was told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.heard = asyncio.Event()

    async def answer(self, what: str, text: str) -> str:
        self.told[what] = text
        self.heard.set()
        return ""


async def test_a_worker_says_that_it_is_ready_and_leaves_when_its_supervisor_is_gone(settings: Settings) -> None:
    ours, theirs = socket.socketpair()
    boss = Boss()
    channel = await Channel.over(ours, boss.answer)
    talking = asyncio.create_task(channel.run())
    worker = asyncio.create_task(
        Worker(Order(dataclasses.replace(settings, port=0), {}, ("dead",)), asyncio.Event()).run(theirs)
    )
    await asyncio.wait_for(boss.heard.wait(), 60)
    assert "ready" in boss.told and await channel.ask("state") == "ready"
    assert "tidings_messages_total" in await channel.ask("page")
    talking.cancel()
    assert await asyncio.wait_for(worker, 60) == 0


async def test_a_worker_that_cannot_start_names_the_store(settings: Settings) -> None:
    ours, theirs = socket.socketpair()
    boss = Boss()
    talking = asyncio.create_task((await Channel.over(ours, boss.answer)).run())
    gone = dataclasses.replace(settings, keyspace="unix:///nowhere/at.all")
    assert await Worker(Order(gone, {}, ()), asyncio.Event()).run(theirs) == 1
    assert "at.all" in boss.told["store"]
    talking.cancel()
