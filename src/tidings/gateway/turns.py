"""Connects and resumes take turns: few are carried out at the same time, so that a storm does not starve the connected.

Whoever waits for a reader gives the turn back meanwhile, or a few who read slowly would keep everybody else out. How
many do so is bounded too, because each holds what it has read so far. welcome.py takes turns, resume.py gives back.
"""

from __future__ import annotations

import asyncio


class Turns:
    def __init__(self, most: int, lent_max: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._lent_max = lent_max
        self._lent = 0

    def turn(self) -> Turn:
        """`async with turns.turn() as turn`"""
        return Turn(self)


class Turn:
    __slots__ = ("_is_held", "_is_lent", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._is_held = False
        self._is_lent = False

    async def __aenter__(self) -> Turn:
        await self._take()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._end_lending()
        if self._is_held:
            self._release()

    def give_back(self) -> bool:
        """Until `take_again`, whose wait counts as well. False: too many have, and this one keeps its turn."""
        turns = self._turns
        if turns._lent >= turns._lent_max:
            return False
        turns._lent += 1
        self._is_lent = True
        self._release()
        return True

    async def take_again(self) -> None:
        if not self._is_held:
            await self._take()
        self._end_lending()

    async def _take(self) -> None:
        await self._turns._free.acquire()
        self._is_held = True

    def _release(self) -> None:
        self._is_held = False
        self._turns._free.release()

    def _end_lending(self) -> None:
        if self._is_lent:
            self._is_lent = False
            self._turns._lent -= 1
