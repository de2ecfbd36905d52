"""A throw-away valkey-server for tests, as `tidings torture` uses it, and how a test waits for something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidings.torture.valkey import READY_S, free_port, start_valkey
from tidings.torture.valkey import Valkey as ValkeyProcess

__all__ = ["READY_S", "ValkeyProcess", "eventually", "free_port", "start_valkey"]


async def eventually(condition: Callable[[], bool], *, within_s: float = 15.0) -> None:
    """Until the condition holds; fails the test when it does not in time."""
    for _ in range(round(within_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    assert condition(), f"not within {within_s} s"
