"""Siblings: the other workers of the same `tidings serve --workers`, seen from one of them through the supervisor.

Whichever worker is asked for /metrics or /readyz answers for all of them. A worker whose supervisor does not answer
speaks for itself alone.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidings.bounds import WORKER_ASK_S
from tidings.node.channel import Channel
from tidings.tasks import SingleFlight


class Siblings:
    def __init__(self, channel: Channel) -> None:
        self._pages = SingleFlight(lambda: self._ask("page"))
        self._states = SingleFlight(lambda: self._ask("states"))
        self._channel = channel

    async def page(self, own: Callable[[], bytes]) -> bytes:
        """The metrics of all workers as one page."""
        return (await self._pages()).encode() or own()

    async def states(self) -> dict[str, str]:
        """The state of each worker by its number; empty when the supervisor does not answer."""
        text = await self._states()
        return msgspec.json.decode(text, type=dict[str, str]) if text else {}

    async def _ask(self, what: str) -> str:
        try:
            return await self._channel.ask(what, within_s=2 * WORKER_ASK_S)  # the supervisor asks every worker
        except (TimeoutError, ConnectionError):
            return ""
