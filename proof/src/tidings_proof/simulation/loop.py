"""An event loop that a seed decides: virtual time, and a seeded choice of who goes on next.

Callbacks belong to a `Party` (a node, or the world around them), told apart by a context variable that every task
inherits. Those of one party run in their order, as asyncio promises; which party goes on is a throw of the dice. When
nobody can, time jumps to the next timer. A party that died is never run again: its tasks stay where they are, as after
kill -9 at that very await.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

START_MS = 1_700_000_000_000  # what the wall clocks show at virtual time 0


class Party:
    """Party: a node or a device, to which the scheduler may give the next step."""

    def __init__(self, name: str, on_death: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.on_death = on_death
        self.ready: deque[Handle] = deque()
        self.steps = 0
        self.dies_at: int | None = None  # its step before which it is killed
        self.is_dead = False
        self.stopped_until_s = 0.0  # SIGSTOP: nothing runs before
        self.context = contextvars.copy_context()
        self.context.run(_party.set, self)


_party: contextvars.ContextVar[Party] = contextvars.ContextVar("party")


class Handle:
    __slots__ = ("args", "callback", "context", "is_cancelled", "party", "when_s")

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: contextvars.Context, when_s: float
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.party = context[_party]
        self.when_s = when_s
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s


class OutOfSteps(AssertionError):
    """A schedule that does not come to an end."""


class SimLoop(asyncio.AbstractEventLoop):
    def __init__(self, dice: random.Random, steps_max: int = 300_000) -> None:
        self._dice = dice
        self._now_s = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._serial = 0
        self._steps_left = steps_max
        self.world = Party("world")
        self._parties = [self.world]
        self.errors: list[dict[str, Any]] = []  # what nobody caught
        self.before_step: Callable[[], None] | None = None  # of any node

    def party(self, name: str, on_death: Callable[[], None]) -> Party:
        party = Party(name, on_death)
        self._parties.append(party)
        return party

    def bury(self, party: Party) -> None:
        """It runs no more."""
        party.is_dead = True
        party.ready.clear()
        self._parties.remove(party)
        party.on_death()

    def in_world(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> None:
        """Run the coroutine in the world's name: it goes on when the party that asked dies."""
        self._at(self._now_s + delay_s, callback, args, self.world.context.copy())

    async def elapse(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        events._set_running_loop(self)
        try:
            task = self.world.context.run(self.create_task, work)
            while not task.done():
                self._step()
            return task.result()
        finally:
            events._set_running_loop(None)

    def _step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise OutOfSteps("the schedule does not come to an end")
        now_s = self._now_s
        able = [party for party in self._parties if party.ready and party.stopped_until_s <= now_s]
        if not able:
            self._wait()
            return
        party = able[0] if len(able) == 1 else able[int(self._dice.random() * len(able))]
        if party.dies_at is not None and party.steps >= party.dies_at:
            self.bury(party)
            return
        if self.before_step is not None and party is not self.world:
            self.before_step()
        party.steps += 1
        handle = party.ready.popleft()
        if not handle.is_cancelled:
            handle.context.run(handle.callback, *handle.args)

    def _wait(self) -> None:
        """Time goes on: to the next timer, or to when a stopped party continues."""
        stopped = [party.stopped_until_s for party in self._parties if party.ready]
        next_s = min([*stopped, *(timer[0] for timer in self._timers[:1])])
        self._now_s = max(self._now_s, next_s)
        while self._timers and self._timers[0][0] <= self._now_s:
            handle = heapq.heappop(self._timers)[2]
            if not handle.is_cancelled and not handle.party.is_dead:
                handle.party.ready.append(handle)

    def _at(
        self, when_s: float, callback: Callable[..., Any], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> Handle:
        handle = Handle(callback, args, context or contextvars.copy_context(), when_s)
        self._serial += 1
        heapq.heappush(self._timers, (when_s, self._serial, handle))
        return handle

    # --- what asyncio asks of a loop ----------------------------------------------------------------

    def time(self) -> float:
        return self._now_s

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        handle = Handle(callback, args, context or contextvars.copy_context(), self._now_s)
        if not handle.party.is_dead:
            handle.party.ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return self._at(self._now_s + delay, callback, args, context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return self._at(when, callback, args, context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """A thread takes no time here."""
        done = self.create_future()
        done.set_result(func(*args))
        return done

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "was destroyed but it is pending" not in context.get("message", ""):
            self.errors.append(context)
