"""What a server says reaches the page when the test wants it to.

For what happens on the page while an answer is under way: on a loopback that is over too soon to be looked at.
"""

from __future__ import annotations

import asyncio

from playwright.async_api import APIResponse, Page, Route, WebSocketRoute

# A request that the test keeps back must not end by itself, however slow the machine is.
PATIENT = """
  const soon = window.setTimeout;
  window.setTimeout = (run, ms, ...rest) => (ms > 10_000 ? 0 : soon(run, ms, ...rest));
"""


WAIT_S = 90


class Answers:
    """`hold()` keeps back whatever the server says from now on; `release()` lets it through, in its order."""

    def __init__(self) -> None:
        self._is_held = False
        self._kept: list[tuple[WebSocketRoute, str | bytes]] = []

    async def join(self, page: Page) -> None:
        """Before the page connects."""
        await page.route_web_socket("**/v1/ws", self._route)

    def _route(self, socket: WebSocketRoute) -> None:
        socket.connect_to_server().on_message(lambda said: self._pass(socket, said))

    def _pass(self, socket: WebSocketRoute, said: str | bytes) -> None:
        if self._is_held:
            self._kept.append((socket, said))
        else:
            socket.send(said)

    def hold(self) -> None:
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        for socket, said in self._kept:
            socket.send(said)
        self._kept.clear()


class LateAnswers:
    """Answers over HTTP to one address: read when the page asks, and kept back until `release`, the newest first."""

    def __init__(self) -> None:
        self._is_held = True
        self._kept: list[tuple[Route, APIResponse]] = []
        self._came = asyncio.Condition()

    async def join(self, page: Page, url: str) -> LateAnswers:
        await page.route(url, self._keep)
        return self

    async def _keep(self, route: Route) -> None:
        if route.request.method != "GET" or not self._is_held:
            return await route.fallback()
        answer = await route.fetch()
        if not self._is_held:
            return await route.fulfill(response=answer)
        async with self._came:
            self._kept.append((route, answer))
            self._came.notify_all()

    async def asked(self, count: int) -> None:
        """Wait until so many answers are kept back."""
        async with self._came:
            await asyncio.wait_for(self._came.wait_for(lambda: len(self._kept) >= count), WAIT_S)

    def hold(self) -> None:
        self._is_held = True

    async def release(self) -> None:
        self._is_held = False
        while self._kept:
            route, answer = self._kept.pop()
            await route.fulfill(response=answer)
