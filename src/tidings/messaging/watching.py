"""Who has which conversation on screen: connections of this node, and the other nodes that have some.

Typing and presence go only where somebody watches. A node says in `watch:{conversation}` that it has watchers and says
it again while that is so; when it stops, or dies, the word runs out. That a watcher is still a member is asked whenever
something is told, never remembered: who was removed hears nothing more. typists.py and presence.py tell through this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from tidings.bounds import WATCH_S, WATCHED_MAX
from tidings.clock import Clock
from tidings.errors import TooLarge
from tidings.messaging.access import Access, Roster
from tidings.model import Presence, Typing
from tidings.routing.bus import Bus, Signal
from tidings.routing.hub import Hub, Outbound
from tidings.routing.registry import Registry
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.keys import Keys

_CHUNK = 500  # conversations announced in one round trip


class Watching:
    def __init__(
        self,
        *,
        access: Access,
        hub: Hub,
        registry: Registry,
        bus: Bus,
        keyspace: Keyspace,
        keys: Keys,
        clock: Clock,
        node_id: str,
    ) -> None:
        self._access = access
        self._hub = hub
        self._registry = registry
        self._bus = bus
        self._keyspace = keyspace
        self._keys = keys
        self._clock = clock
        self._node_id = node_id
        self._watchers: dict[str, set[Outbound]] = {}
        self._watched: dict[str, tuple[str, ...]] = {}  # by connection_id
        self._said: dict[str, int] = {}  # conversation -> until when the others know of our watchers, ms

    async def watch(self, outbound: Outbound, conversation_ids: Sequence[str]) -> list[Roster]:
        """Replaces what the connection watched before. NotFound where it is not theirs, and then nothing changes."""
        ids = tuple(dict.fromkeys(conversation_ids))
        if len(ids) > WATCHED_MAX:
            raise TooLarge(f"a connection watches at most {WATCHED_MAX} conversations")
        rosters = await asyncio.gather(*(self._access.authorize(outbound.user_id, id_, "read") for id_ in ids))
        if outbound not in self._hub.of_user(outbound.user_id):
            return []  # it went meanwhile, and nobody would ever take it off again
        self.forget(outbound)
        if ids:
            self._watched[outbound.connection_id] = ids
        for id_ in ids:
            self._watchers.setdefault(id_, set()).add(outbound)
        return rosters

    def forget(self, outbound: Outbound) -> None:
        for id_ in self._watched.pop(outbound.connection_id, ()):
            watchers = self._watchers[id_]
            watchers.discard(outbound)
            if not watchers:
                del self._watchers[id_]

    def is_watched(self, conversation_id: str) -> bool:
        return conversation_id in self._watchers

    def __iter__(self) -> Iterator[str]:
        """The conversations watched here."""
        return iter(tuple(self._watchers))

    def __len__(self) -> int:
        return len(self._watchers)

    # --- telling ----------------------------------------------------------------------------------

    @property
    def is_anyone_there(self) -> bool:
        """Whether somebody might be watching, here or elsewhere."""
        return bool(self._watchers) or self._registry.has_others

    def tell(self, rosters: Iterable[Roster], event: Typing | Presence) -> None:
        """To the members who watch here, each connection once, never to the one it is about."""
        told: set[Outbound] = set()
        for roster in rosters:
            # A push may close a slow socket, which takes it off the set we walk.
            for outbound in tuple(self._watchers.get(roster.head.conversation_id, ())):
                user_id = outbound.user_id
                if outbound not in told and user_id != event.user_id and user_id in roster.members:
                    told.add(outbound)
                    outbound.push(event)

    def post(self, nodes: dict[str, list[str]], event: Typing | Presence) -> None:
        """To other nodes, each with the conversations that are watched there."""
        for node_id, conversation_ids in nodes.items():
            self._bus.post(node_id, Signal(tuple(conversation_ids), event))

    async def rosters(self, conversation_ids: Iterable[str]) -> list[Roster]:
        """The member lists as of now, of those that are watched here."""
        here = [id_ for id_ in conversation_ids if id_ in self._watchers]
        found = await asyncio.gather(*(self._access.fresh(id_) for id_ in here))
        return [roster for roster in found if roster is not None]

    async def nodes_of(self, conversation_ids: Iterable[str]) -> dict[str, list[str]]:
        """Other nodes -> which of these conversations are watched there."""
        ids = list(conversation_ids)
        if not self._registry.has_others or not ids:
            return {}
        now_ms = self._clock.now_ms()
        keys = [self._keys.watch(id_) for id_ in ids]
        replies = await self._keyspace.run([plain(key, b"ZRANGE", key, now_ms, b"+inf", b"BYSCORE") for key in keys])
        nodes: dict[str, list[str]] = {}
        for id_, names in zip(ids, replies, strict=True):
            for name in names:
                nodes.setdefault(name.decode(), []).append(id_)
        nodes.pop(self._node_id, None)
        return nodes

    # --- saying that we watch ---------------------------------------------------------------------

    async def announce(self, conversation_ids: Iterable[str]) -> None:
        """Tell the other nodes, unless they know it for a while yet. Raises StoreError."""
        half_ms = self._clock.now_ms() + WATCH_S * 500
        await self._say([id_ for id_ in conversation_ids if self._said.get(id_, 0) < half_ms])

    async def renew(self) -> None:
        """Say all of it again: a keyspace that was flushed has forgotten it. Raises StoreError."""
        self._said = {id_: until_ms for id_, until_ms in self._said.items() if id_ in self._watchers}
        await self._say(list(self._watchers))

    async def _say(self, conversation_ids: Sequence[str]) -> None:
        for start in range(0, len(conversation_ids), _CHUNK):
            chunk = conversation_ids[start : start + _CHUNK]
            now_ms = self._clock.now_ms()
            until_ms = now_ms + WATCH_S * 1000
            await self._keyspace.run([call for id_ in chunk for call in self._words(id_, now_ms, until_ms)])
            self._said.update(dict.fromkeys(chunk, until_ms))

    def _words(self, conversation_id: str, now_ms: int, until_ms: int) -> list[Call[object]]:
        key = self._keys.watch(conversation_id)
        return [
            plain(key, b"ZADD", key, until_ms, self._node_id),
            plain(key, b"ZREMRANGEBYSCORE", key, b"-inf", now_ms),
            plain(key, b"EXPIRE", key, WATCH_S),
        ]
