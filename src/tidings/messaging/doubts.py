"""Whose change may or may not be in the tables, or may be in the tables alone: a store did not answer.

The note in the keyspace (unread_put) makes such a user COLD, but a keyspace that is lost takes its notes along. So the
node that asked remembers too, and notes it once more when a commit can no longer be late. What is left to `tidings
unread verify` is a node that dies in that time beside a lost keyspace. Told by unread.py and conversations.py, run by
tending.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tidings.bounds import DOUBTS_MAX
from tidings.clock import Clock
from tidings.errors import StoreError, Unavailable
from tidings.messaging.rebuild import HOLD_MS
from tidings.stores.calls import Keyspace
from tidings.stores.scripts import Scripts

log = logging.getLogger("tidings.doubts")
_TOGETHER = 100  # notes under way at the same time


class Doubts:
    def __init__(self, keyspace: Keyspace, scripts: Scripts, clock: Clock) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._clock = clock
        self._due_s: dict[str, float] = {}  # user -> when everything of theirs is decided, the soonest first

    @contextmanager
    def of(self, user_ids: Iterable[str]) -> Iterator[None]:
        """Around a change of theirs that is committed to the tables and followed by the keyspace."""
        try:
            yield
        except Unavailable:
            due_s = self._clock.monotonic_s() + HOLD_MS / 1000
            for user_id in user_ids:
                self._due_s.pop(user_id, None)
                self._due_s[user_id] = due_s
            while len(self._due_s) > DOUBTS_MAX:
                del self._due_s[next(iter(self._due_s))]
            raise

    async def settle(self) -> None:
        """Who is due is COLD from now on: whoever looks next reads the tables. Who cannot be noted now stays."""
        now_s = self._clock.monotonic_s()
        due = [one for one in self._due_s.items() if one[1] <= now_s]
        for start in range(0, len(due), _TOGETHER):
            await asyncio.gather(*(self._note(*one) for one in due[start:][:_TOGETHER]))

    async def _note(self, user_id: str, due_s: float) -> None:
        try:
            await self._keyspace.one(self._scripts.unread_put(user_id, self._clock.random_id(8), hold_ms=-1))
        except StoreError as error:
            log.info("a doubt waits for the keyspace: %s", error)
            return
        if self._due_s.get(user_id) == due_s:  # else there is another doubt meanwhile
            del self._due_s[user_id]
