"""Waiting for something to become true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
    """Wait until the condition holds. Fails the test when it does not hold in time."""
    for _ in range(round(within_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    assert condition(), f"not within {within_s} s"
