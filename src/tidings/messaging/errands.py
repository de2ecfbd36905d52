"""Small work that nobody waits for: kept, bounded, and quiet when a store does not answer.

For what may be lost, such as presence and typing: past the bound work is dropped, and trouble of the stores is a line
of the debug log. Whatever is not the world's trouble is our mistake and is logged as one. signals.py closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from tidings.errors import Problem, StoreError

log = logging.getLogger("tidings.signals")


class Errands:
    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None], name: str) -> bool:
        """Never blocks, never raises. False: there is too much, and it was dropped."""
        if len(self._tasks) >= self._at_most:
            work.close()
            return False
        task = asyncio.get_running_loop().create_task(self._quietly(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # a task that is cancelled before its first step never began it
        return True

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._tasks)

    async def _quietly(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except (StoreError, Problem) as error:
            log.debug("%s was dropped: %s", name, error)
        except Exception:
            log.exception("%s failed", name)
