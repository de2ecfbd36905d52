"""One run at a time of something that costs: whoever asks meanwhile gets the answer of the run that is under way.

So ten operators who press the same button cost as much as one, and none waits longer than `most_s`. Used for what the
admin page asks of whole stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from tidings.errors import StoreUnavailable

T = TypeVar("T")


class Shared(Generic[T]):
    def __init__(self, run: Callable[[], Awaitable[T]], most_s: float) -> None:
        self._run = run
        self._most_s = most_s
        self._task: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Raises what the run raises, and StoreUnavailable when it takes too long."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._bounded(), name="shared")
        return await asyncio.shield(self._task)

    async def _bounded(self) -> T:
        try:
            async with asyncio.timeout(self._most_s):
                return await self._run()
        except TimeoutError:
            raise StoreUnavailable(f"not finished within {self._most_s:g} s") from None
