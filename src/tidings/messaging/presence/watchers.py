"""Watchers: the connections of this node that have a conversation on screen, and the other nodes that have some.

Typing and presence go only where somebody watches. A node records in `watch:{conversation}` that it has watchers, and
renews the record while that is so; when the node stops or dies, the record expires. Membership of a watcher is checked
at every push and never remembered, so a removed member gets nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidings.bounds import WATCH_S, WATCHED_MAX
from tidings.errors import TooLarge
from tidings.messaging.access import Access, MemberList
from tidings.messaging.people.sight import Sight
from tidings.pushes import Presence, Typing
from tidings.routing.bus import Bus, Signal
from tidings.routing.hub import Connection, Hub
from tidings.routing.registry import Registry
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.keys import Keys

_CHUNK = 500  # conversations announced in one round trip


@dataclass(eq=False, repr=False, kw_only=True)
class Watchers:
    access: Access
    sight: Sight
    hub: Hub
    registry: Registry
    bus: Bus
    keyspace: Keyspace
    keys: Keys
    node_id: str

    def __post_init__(self) -> None:
        self._watchers: dict[str, set[Connection]] = {}
        self._watched: dict[str, tuple[str, ...]] = {}  # by connection_id
        self._recorded_ms: dict[str, int] = {}  # conversation -> until when the record of our watchers lives, ms

    async def watch(self, connection: Connection, conversation_ids: Sequence[str]) -> list[MemberList]:
        """Replace what the connection watches. Raises NotFound for a foreign conversation; then nothing changes."""
        ids = tuple(dict.fromkeys(conversation_ids))
        if len(ids) > WATCHED_MAX:
            raise TooLarge(f"a connection watches at most {WATCHED_MAX} conversations")
        member_lists = await asyncio.gather(*(self.access.authorize(connection.user_id, id_, "read") for id_ in ids))
        if connection not in self.hub.of_user(connection.user_id):
            return []  # the connection ended meanwhile, and nothing would ever remove it again
        self.forget(connection)
        if ids:
            self._watched[connection.connection_id] = ids
        for id_ in ids:
            self._watchers.setdefault(id_, set()).add(connection)
        return member_lists

    def forget(self, connection: Connection) -> None:
        for id_ in self._watched.pop(connection.connection_id, ()):
            watchers = self._watchers[id_]
            watchers.discard(connection)
            if not watchers:
                del self._watchers[id_]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the conversations watched here."""
        return iter(tuple(self._watchers))

    def __len__(self) -> int:
        return len(self._watchers)

    # --- pushing ----------------------------------------------------------------------------------

    @property
    def is_anyone_there(self) -> bool:
        """Whether somebody might be watching, here or elsewhere."""
        return bool(self._watchers) or self.registry.has_others

    async def push(self, member_lists: Iterable[MemberList], event: Typing | Presence) -> None:
        """Push to the members who watch here, to each connection once, never to the user whom the event is about.

        A member who may not see that user gets nothing. Raises StoreError."""
        pushed: set[Connection] = set()
        for member_list in member_lists:
            blind = await self.sight.blind_to(event.user_id, member_list)
            # A push may close a slow socket, which takes it off the set we walk.
            for connection in tuple(self._watchers.get(member_list.head.conversation_id, ())):
                user_id = connection.user_id
                is_seen = user_id != event.user_id and user_id in member_list.members and user_id not in blind
                if is_seen and connection not in pushed:
                    pushed.add(connection)
                    connection.push(event)

    def publish(self, nodes: dict[str, list[str]], event: Typing | Presence) -> None:
        """Publish to other nodes, to each with the conversations that are watched there."""
        for node_id, conversation_ids in nodes.items():
            self.bus.publish(node_id, Signal(tuple(conversation_ids), event))

    async def member_lists(self, conversation_ids: Iterable[str]) -> list[MemberList]:
        """Return the current member lists of those that are watched here."""
        here = [id_ for id_ in conversation_ids if id_ in self._watchers]
        found = await asyncio.gather(*(self.access.fresh(id_) for id_ in here))
        return [member_list for member_list in found if member_list is not None]

    async def nodes_of(self, conversation_ids: Iterable[str]) -> dict[str, list[str]]:
        """Return other nodes -> the conversations among these that are watched there."""
        ids = list(conversation_ids)
        if not self.registry.has_others or not ids:
            return {}
        now_ms = self.registry.now_ms()
        keys = [self.keys.watch(id_) for id_ in ids]
        replies = await self.keyspace.run([plain(key, b"ZRANGE", key, now_ms, b"+inf", b"BYSCORE") for key in keys])
        nodes: dict[str, list[str]] = {}
        for id_, names in zip(ids, replies, strict=True):
            for name in names:
                nodes.setdefault(name.decode(), []).append(id_)
        nodes.pop(self.node_id, None)
        return nodes

    # --- announcing our watchers ---------------------------------------------------------------------

    async def announce(self, conversation_ids: Iterable[str]) -> None:
        """Record our watchers for the other nodes, unless a record lives for a while yet. Raises StoreError."""
        half_ms = self.registry.now_ms() + WATCH_S * 500
        await self._record([id_ for id_ in conversation_ids if self._recorded_ms.get(id_, 0) < half_ms])

    async def renew(self) -> None:
        """Record all of them again: a keyspace that was flushed has forgotten them. Raises StoreError."""
        self._recorded_ms = {id_: until_ms for id_, until_ms in self._recorded_ms.items() if id_ in self._watchers}
        await self._record(list(self._watchers))

    async def _record(self, conversation_ids: Sequence[str]) -> None:
        for start in range(0, len(conversation_ids), _CHUNK):
            chunk = conversation_ids[start : start + _CHUNK]
            now_ms = self.registry.now_ms()
            until_ms = now_ms + WATCH_S * 1000
            await self.keyspace.run([call for id_ in chunk for call in self._calls(id_, now_ms, until_ms)])
            self._recorded_ms.update(dict.fromkeys(chunk, until_ms))

    def _calls(self, conversation_id: str, now_ms: int, until_ms: int) -> list[Call[object]]:
        key = self.keys.watch(conversation_id)
        return [
            plain(key, b"ZADD", key, until_ms, self.node_id),
            plain(key, b"ZREMRANGEBYSCORE", key, b"-inf", now_ms),
            plain(key, b"EXPIRE", key, WATCH_S),
        ]
