"""Unknown outcomes: changes that may or may not be in the tables, because a store did not answer.

The marker in the keyspace (unread_put) makes the conversation cold for its user, but a keyspace that is lost loses its
markers too. So the node also remembers these changes. After HOLD_MS a late commit is no longer possible; then the node
marks them cold, and the next read rebuilds the counts from the tables. A change that a store refused, and that cannot
have been written, makes nothing cold. `tidings unread verify` finds the one case that is left: the keyspace is lost,
and the node dies within HOLD_MS.

While two primaries exist, a change may have gone to the one that is about to go. So the changes of the last minute are
marked cold as well when the node meets another epoch (docs/decisions/0012).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tidings.bounds import REINDEX_S, UNKNOWN_OUTCOMES_MAX
from tidings.clock import Clock
from tidings.errors import StoreError, Unavailable
from tidings.messaging.unread.rebuild import HOLD_MS
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.tasks import Recent

log = logging.getLogger("tidings.unread")
_TOGETHER = 100  # conversations of users marked cold at the same time
Change = tuple[str, str]  # user_id, conversation_id or thread id; an empty id stands for all of the user


class Marker:
    """An entry in `:put` of the user's mark hash: "a commit for this conversation of the user is under way"."""

    __slots__ = ("conversation_id", "may_be_written", "token", "user_id")

    def __init__(self, user_id: str, conversation_id: str, token: str) -> None:
        self.user_id = user_id
        self.conversation_id = conversation_id
        self.token = token
        self.may_be_written = False  # the tables hold the change, or a store did not answer


class UnknownOutcomes:
    def __init__(self, keyspace: Keyspace, scripts: Scripts, clock: Clock) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._clock = clock
        # change -> when a late commit is no longer possible, the soonest first
        self._due_s = Recent[Change, float](UNKNOWN_OUTCOMES_MAX)
        self._made_s = Recent[Change, float](UNKNOWN_OUTCOMES_MAX)  # change -> when it was made, the earliest first

    def epoch_changed(self, old: str, new: str) -> None:
        """Another primary may lack what was changed on the one before."""
        now_s = self._clock.monotonic_s()
        for change, made_s in list(self._made_s.items()):
            if now_s - made_s <= REINDEX_S:
                self._due_s.put(change, now_s)

    @contextmanager
    def of(self, changes: Iterable[Change], *, is_committed: bool = False) -> Iterator[None]:
        """Wrap a commit to the tables, or (`is_committed`) the update of the keyspace that follows one. Remember the
        changes if a store does not answer. An answer that nothing was written is an answer."""
        changes = list(changes)
        now_s = self._clock.monotonic_s()
        for change in changes:
            self._made_s.put(change, now_s)
        try:
            yield
        except Unavailable as error:
            if is_committed or error.is_ambiguous:
                self.remember(changes)
            raise

    def remember(self, changes: Iterable[Change]) -> None:
        """Remember changes to which a store did not answer."""
        due_s = self._clock.monotonic_s() + HOLD_MS / 1000
        for change in changes:
            self._due_s.put(change, due_s)

    async def settle(self) -> None:
        """Mark the changes cold whose time has come. A change stays remembered while the keyspace does not answer."""
        now_s = self._clock.monotonic_s()
        due = [one for one in self._due_s.items() if one[1] <= now_s]
        for start in range(0, len(due), _TOGETHER):
            await asyncio.gather(*(self._mark_cold(*one) for one in due[start:][:_TOGETHER]))

    async def _mark_cold(self, change: Change, due_s: float) -> None:
        """Leave a marker that is too old from the beginning (hold_ms -1)."""
        (user_id, conversation_id), token = change, self._clock.random_id(8)
        scripts = self._scripts.threads if "/" in conversation_id else self._scripts
        try:
            await self._keyspace.one(scripts.unread_put(user_id, token, hold_ms=-1, conversation_id=conversation_id))
        except StoreError as error:
            fields = {"store": "keyspace", "op": "unread_put", "user_id": user_id, "cause": str(error)}
            log.info("could not mark counts cold after an unknown outcome", extra=fields)
            return
        if self._due_s.get(change) == due_s:  # otherwise another change got no answer meanwhile
            del self._due_s[change]
