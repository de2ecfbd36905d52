"""A slow network and a slow machine on request: they show what a page or a test takes for certain too early.

`SLOW=7 pytest tests/browser` delays every request to the API, every script and every frame of a WebSocket, each by a
time of its own, and gives the page a part of a processor. The number seeds the delays. A route of a test goes first.
Routes turn the browser's cache off, so the test that counts what a second visit loads fails with this.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Callable, Coroutine

from playwright.async_api import BrowserContext, Error, Page, Route, WebSocketRoute

SEED = os.environ.get("SLOW")
DELAY_MAX_S = 1.5
FRAME_DELAY_MAX_S = 0.5
CPU_RATE = int(os.environ.get("SLOW_CPU", "4"))  # the page gets the fourth part of a processor
DELAYED = re.compile(r"/v1/(?!ws)|\.js(\?|$)")
SOCKET = re.compile(r"/v1/ws$")

_chance = random.Random(SEED)
_tasks: set[asyncio.Task[None]] = set()


async def slow_down(context: BrowserContext) -> None:
    """Before the first page of the context. Without `SLOW` it does nothing."""
    if SEED is None:
        return
    await context.route(DELAYED, _delay)
    await context.route_web_socket(SOCKET, _join)
    context.on("page", lambda page: _begin(_throttle(page)))


def _begin(work: Coroutine[None, None, None]) -> None:
    """Run beside the test. A page may be closed at any time."""
    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _throttle(page: Page) -> None:
    try:
        session = await page.context.new_cdp_session(page)
        await session.send("Emulation.setCPUThrottlingRate", {"rate": CPU_RATE})
    except Error:
        return


def _delay(route: Route) -> None:
    asyncio.get_running_loop().call_later(_chance.random() * DELAY_MAX_S, lambda: _begin(_pass_on(route)))


async def _pass_on(route: Route) -> None:
    try:
        await route.fallback()
    except Error:
        return


def _join(socket: WebSocketRoute) -> None:
    server = socket.connect_to_server()
    socket.on_message(_later(server))
    server.on_message(_later(socket))


def _later(socket: WebSocketRoute) -> Callable[[str | bytes], None]:
    """Frames keep their order."""
    loop = asyncio.get_running_loop()
    due_s = 0.0

    def send(frame: str | bytes) -> None:
        nonlocal due_s
        due_s = max(due_s + 0.001, loop.time() + _chance.random() * FRAME_DELAY_MAX_S)
        loop.call_at(due_s, socket.send, frame)

    return send
