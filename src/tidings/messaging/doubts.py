"""Whose change may or may not be in the tables: a store did not answer, and may still carry it out.

The note in the keyspace (unread_put) makes such a user COLD, but a keyspace that is lost takes its notes along. So the
node that asked remembers too, and notes it once more when a commit can no longer be late. What is left to `tidings
verify` is a node that dies in that time beside a lost keyspace. Told by unread.py and conversations.py, run by
tending.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tidings.bounds import DOUBTS_MAX
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.messaging.rebuild import HOLD_MS
from tidings.stores.calls import Keyspace
from tidings.stores.scripts import Scripts

_TOGETHER = 100  # notes in one round trip


class Doubts:
    def __init__(self, keyspace: Keyspace, scripts: Scripts, clock: Clock) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._clock = clock
        self._due_s: dict[str, float] = {}  # user -> when everything of theirs is decided

    @contextmanager
    def of(self, user_ids: Iterable[str]) -> Iterator[None]:
        """Around a change of theirs that is committed to the tables."""
        try:
            yield
        except StoreError:
            due_s = self._clock.monotonic_s() + HOLD_MS / 1000
            self._due_s.update(dict.fromkeys(user_ids, due_s))
            while len(self._due_s) > DOUBTS_MAX:
                del self._due_s[next(iter(self._due_s))]
            raise

    async def settle(self) -> None:
        """Who is due is COLD from now on: whoever looks next reads the tables. Who was not noted stays."""
        now_s = self._clock.monotonic_s()
        due = [user_id for user_id, due_s in self._due_s.items() if due_s <= now_s]
        for start in range(0, len(due), _TOGETHER):
            some, token = due[start:][:_TOGETHER], self._clock.random_id(8)
            await self._keyspace.run([self._scripts.unread_put(user_id, token, hold_ms=-1) for user_id in some])
            for user_id in some:
                if self._due_s.get(user_id, now_s) <= now_s:  # else there is another doubt meanwhile
                    self._due_s.pop(user_id, None)
