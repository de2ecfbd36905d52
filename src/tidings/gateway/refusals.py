"""What becomes of those who are refused: each refusal is counted once, and too many of them are answered slowly.

A user who is refused more than REFUSALS_PER_TURN_MAX times in a turn is read no further until the next one: what a
flood sends waits in the sender's own buffers, so it costs the others nothing. Nobody is closed for it, and every answer
comes. dispatch.py and http.py note here what they answer; connection.py asks who has to wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tidings.bounds import REFUSALS_PER_TURN_MAX, REFUSALS_TURN_S, REFUSED_WAITING_MAX
from tidings.errors import Held, Problem, RateLimited
from tidings.gateway.usecases import Audit


class Refusals:
    def __init__(self, audit: Audit | None = None) -> None:
        self._audit = audit
        self._counts: dict[str, int] = {}  # user -> refusals in this turn
        self._over: set[str] = set()  # who has had the share of this turn
        self._hot: set[str] = set()  # the same in this turn or the one before
        self._waiting: dict[str, deque[Callable[[], None]]] = {}  # by user, the first first
        self._slow = 0  # answers that wait
        self._turning: asyncio.TimerHandle | None = None

    def note(self, user_id: str, problem: object) -> None:
        """The answer to a request, if it refuses because of a limit."""
        if isinstance(problem, RateLimited):
            self._count(user_id, problem.class_name)
        elif isinstance(problem, Held):
            self._count(user_id, problem.code)

    def _count(self, user_id: str, class_name: str) -> None:
        if self._audit is not None:
            self._audit.rejected(class_name, user_id)
        count = self._counts[user_id] = self._counts.get(user_id, 0) + 1
        if count >= REFUSALS_PER_TURN_MAX:
            self._over.add(user_id)
            self._hot.add(user_id)
        if self._turning is None:
            self._turn_later()

    def sign_in_failed(self, way: str) -> None:
        """By `ws` or `http`; `operator`: with a token or key that is good, but not for what it asked."""
        if self._audit is not None:
            self._audit.sign_in_failed(way)

    def is_over(self, user_id: str) -> bool:
        """Whether the user has to wait for the next turn."""
        return user_id in self._over

    def is_hot(self, user_id: str) -> bool:
        """Whether the user was refused too often a moment ago: one request at a time is enough."""
        return user_id in self._hot

    def at_next_turn(self, user_id: str, go_on: Callable[[], None]) -> None:
        """Or at a later one: however many connections a user has, a turn has room for as many."""
        self._waiting.setdefault(user_id, deque()).append(go_on)

    async def answer_slowly(self, user_id: str, problem: Problem) -> None:
        """Notes it; returns when it is time to answer."""
        self.note(user_id, problem)
        if self.is_over(user_id) and self._slow < REFUSED_WAITING_MAX:
            turn = asyncio.Event()
            self.at_next_turn(user_id, turn.set)
            self._slow += 1
            try:
                await turn.wait()
            finally:
                self._slow -= 1

    def _turn_later(self) -> None:
        self._turning = asyncio.get_running_loop().call_later(REFUSALS_TURN_S, self._turn)

    def _turn(self) -> None:
        """Goes on while somebody is refused, then rests."""
        self._hot, self._over = self._over | self._waiting.keys(), set()
        self._counts.clear()
        self._turning = None
        if self._hot:
            self._turn_later()
        loop = asyncio.get_running_loop()
        for user_id, waiting in list(self._waiting.items()):
            for _ in range(min(len(waiting), REFUSALS_PER_TURN_MAX)):
                loop.call_soon(waiting.popleft())  # not called here: one that fails must not take the others with it
            if not waiting:
                del self._waiting[user_id]
