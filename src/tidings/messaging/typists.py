"""Who is typing. Told to the members who watch the conversation, and over by itself when nothing more is said.

The node that hears a typist keeps the time: without renewal in TYPING_S it says itself that the typing ended, so a
client that vanished never types for ever. Where it told others, they keep the time too, a little longer: that node may
be gone before its word. Nothing is stored. signals.py calls it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidings.bounds import TYPING_AGAIN_S, TYPING_S, TYPISTS_MAX
from tidings.clock import Clock
from tidings.messaging.access import Access, Roster
from tidings.messaging.errands import Errands
from tidings.messaging.watching import Watching
from tidings.model import Typing

Key = tuple[str, str]  # user_id, conversation_id


class _Typist:
    __slots__ = ("ends", "told_s")

    def __init__(self, told_s: float, ends: asyncio.TimerHandle) -> None:
        self.told_s = told_s
        self.ends = ends


class Typists:
    def __init__(
        self, access: Access, watching: Watching, errands: Errands, clock: Clock, *, typing_s: float = TYPING_S
    ) -> None:
        self._access = access
        self._watching = watching
        self._errands = errands
        self._clock = clock
        self._typing_s = typing_s
        self._typists: dict[Key, _Typist] = {}
        self._elsewhere: dict[Key, asyncio.TimerHandle] = {}  # people who type on other nodes -> when we end it

    async def typing(self, user_id: str, conversation_id: str, is_typing: bool) -> None:
        """NotFound for strangers. Raises StoreError when the member list cannot be read."""
        key = (user_id, conversation_id)
        if is_typing and self._is_told(key):
            self._keep(key, self._typists[key].told_s)
            return
        roster = await self._access.authorize(user_id, conversation_id, "write")
        if is_typing:
            if key not in self._typists and len(self._typists) >= TYPISTS_MAX:
                return
            self._keep(key, self._clock.monotonic_s())
        elif not self._end(key):
            return
        await self._tell(roster, Typing(conversation_id, user_id, is_typing))

    def heard(self, event: Typing) -> None:
        """The word of another node. It is told of a renewal once in TYPING_AGAIN_S, so that much later we end it."""
        key = (event.user_id, event.conversation_id)
        if (earlier := self._elsewhere.pop(key, None)) is not None:
            earlier.cancel()
        if event.typing and len(self._elsewhere) < TYPISTS_MAX:
            most_s = self._typing_s + TYPING_AGAIN_S
            self._elsewhere[key] = asyncio.get_running_loop().call_later(most_s, self._lapse, key)

    async def tell_heard(self, conversation_ids: Iterable[str], event: Typing) -> None:
        """To watchers here; but not that somebody types who has stopped meanwhile."""
        rosters = await self._watching.rosters(conversation_ids)
        if not event.typing or (event.user_id, event.conversation_id) in self._elsewhere:
            self._watching.tell(rosters, event)

    def close(self) -> None:
        for ends in (*(typist.ends for typist in self._typists.values()), *self._elsewhere.values()):
            ends.cancel()
        self._typists.clear()
        self._elsewhere.clear()

    def __len__(self) -> int:
        return len(self._typists)

    def _is_told(self, key: Key) -> bool:
        typist = self._typists.get(key)
        return typist is not None and self._clock.monotonic_s() - typist.told_s < TYPING_AGAIN_S

    def _keep(self, key: Key, told_s: float) -> None:
        self._end(key)
        ends = asyncio.get_running_loop().call_later(self._typing_s, self._expire, key)
        self._typists[key] = _Typist(told_s, ends)

    def _end(self, key: Key) -> bool:
        typist = self._typists.pop(key, None)
        if typist is not None:
            typist.ends.cancel()
        return typist is not None

    def _expire(self, key: Key) -> None:
        if self._end(key):
            self._errands.run(self._stopped(*key), "typing")

    def _lapse(self, key: Key) -> None:
        del self._elsewhere[key]
        if key not in self._typists:
            user_id, conversation_id = key
            self._errands.run(self.tell_heard([conversation_id], Typing(conversation_id, user_id, False)), "typing")

    async def _stopped(self, user_id: str, conversation_id: str) -> None:
        """Told even where the typist has left the conversation since: the others still see them typing."""
        roster = await self._access.fresh(conversation_id)
        if roster is not None:
            await self._tell(roster, Typing(conversation_id, user_id, False))

    async def _tell(self, roster: Roster, event: Typing) -> None:
        self._watching.tell([roster], event)
        self._watching.post(await self._watching.nodes_of([event.conversation_id]), event)
