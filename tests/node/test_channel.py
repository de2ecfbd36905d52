"""The channel between two processes: questions both ways, and its end."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tidings.node.channel import Channel


async def echo(what: str, text: str) -> str:
    return f"{what} {text}"


async def never(what: str, text: str) -> str:
    await asyncio.Event().wait()
    return ""


async def test_both_ends_ask_and_answer() -> None:
    ours, theirs = socket.socketpair()
    one, other = await Channel.over(ours, echo), await Channel.over(theirs, echo)
    runs = [asyncio.create_task(end.run()) for end in (one, other)]
    page = "line\n" * 100_000
    a, b, c = await asyncio.gather(one.ask("a", "1"), other.ask("b", page), one.ask("c", "é"))
    assert (a, b, c) == ("a 1", f"b {page}", "c é")
    for run in runs:
        run.cancel()


async def test_a_question_without_an_answer_ends_in_time() -> None:
    ours, theirs = socket.socketpair()
    one, other = await Channel.over(ours, echo), await Channel.over(theirs, never)
    runs = [asyncio.create_task(end.run()) for end in (one, other)]
    with pytest.raises(TimeoutError):
        await one.ask("a", within_s=0.01)
    for run in runs:
        run.cancel()


async def test_the_end_of_the_other_process_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    one = await Channel.over(ours, echo)
    run = asyncio.create_task(one.run())
    question = asyncio.create_task(one.ask("a", within_s=60))
    await asyncio.sleep(0)
    theirs.close()
    await asyncio.wait_for(run, 60)
    with pytest.raises(ConnectionError):
        await question
    with pytest.raises(ConnectionError):
        await one.ask("b")
