"""What a server says reaches the page when the test wants it to.

For what happens on the page while an answer is under way: on a loopback that is over too soon to be looked at.
"""

from __future__ import annotations

from playwright.async_api import Page, WebSocketRoute


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
