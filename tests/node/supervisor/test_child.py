"""A worker process as its supervisor sees it."""

from __future__ import annotations

import dataclasses
import os
import signal

from tidings.config.settings import Settings
from tidings.node.supervisor.child import Child
from tidings.node.supervisor.worker import Order


async def nothing(what: str) -> str:
    return ""


def child_of(settings: Settings, **changes: object) -> Child:
    settings = dataclasses.replace(settings, port=0, **changes)  # type: ignore[arg-type]
    return Child(1, Order(settings, {}, ()), nothing)


async def test_a_child_is_ready_answers_and_leaves(settings: Settings) -> None:
    child = child_of(settings)
    await child.start()
    assert await child.state() == "starting"
    assert await child.wait_ready(), child.last_words()
    assert await child.state() == "ready" and "tidings_connections" in await child.read_page()
    await child.stop()
    assert (child.has_left, child.is_alive, await child.state()) == (True, False, "down")


async def test_a_child_that_cannot_start_says_why(settings: Settings) -> None:
    child = child_of(settings, keyspace="unix:///nowhere/at.all")
    await child.start()
    assert not await child.wait_ready()
    await child.wait_ended()
    assert child.is_store_down and child.last_words().startswith("exit code 1: ") and "at.all" in child.reason


async def test_a_child_that_is_killed_keeps_its_last_page(settings: Settings) -> None:
    child = child_of(settings)
    await child.start()
    assert await child.wait_ready(), child.last_words()
    page = await child.read_page()
    os.kill(child.pid, signal.SIGKILL)
    await child.wait_ended()
    assert child.last_words() == "killed by SIGKILL" and not child.has_left
    assert await child.read_page() == page
