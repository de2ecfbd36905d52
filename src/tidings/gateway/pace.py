"""So many of a kind in one turn of the event loop; the rest in the turns that follow, in their order.

Work that comes in a storm, such as the upgrades of clients that all reconnect at once, would fill a turn for as long as
there is any of it, and everybody who is connected would wait. In between the loop now hears and answers them.
server.py has one for upgrades.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Pace:
    __slots__ = ("_is_counting", "_left", "_per_turn", "_waiting")

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._left = per_turn
        self._is_counting = False  # some were begun in this turn
        self._waiting: deque[Callable[[], None]] = deque()

    def go(self, work: Callable[[], None]) -> bool:
        """At once where there is room in this turn, else later. False: later."""
        if self._waiting or not self._left:
            self._waiting.append(work)
            return False
        self._left -= 1
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        work()
        return True

    def _next_turn(self) -> None:
        loop = asyncio.get_running_loop()
        ready = [self._waiting.popleft() for _ in range(min(self._per_turn, len(self._waiting)))]
        self._left = self._per_turn - len(ready)
        self._is_counting = bool(ready)
        for work in ready:
            loop.call_soon(work)  # not called here: one that fails must not take the others with it
        if ready:
            loop.call_soon(self._next_turn)
