"""A worker answers for all workers, and for itself alone when the supervisor does not answer."""

from __future__ import annotations

import asyncio
import socket

from tidings.node.channel import Channel
from tidings.node.siblings import Siblings


async def nothing(what: str, text: str) -> str:
    return ""


async def supervisor(what: str, text: str) -> str:
    return {"page": "all of us\n", "states": '{"1":"ready","2":"draining"}'}[what]


async def test_the_answers_are_those_of_the_supervisor() -> None:
    ours, theirs = socket.socketpair()
    ends = await Channel.over(ours, nothing), await Channel.over(theirs, supervisor)
    runs = [asyncio.create_task(end.run()) for end in ends]
    siblings = Siblings(ends[0])
    assert await siblings.page(lambda: b"mine alone") == b"all of us\n"
    assert await siblings.states() == {"1": "ready", "2": "draining"}
    for run in runs:
        run.cancel()


async def test_a_worker_without_a_supervisor_speaks_for_itself() -> None:
    ours, theirs = socket.socketpair()
    channel = await Channel.over(ours, nothing)
    theirs.close()
    await asyncio.wait_for(channel.run(), 60)
    siblings = Siblings(channel)
    assert (await siblings.page(lambda: b"mine alone"), await siblings.states()) == (b"mine alone", {})
