"""Blocks: people from whom a user wants to hear nothing.

The tables hold the blocks, and they are part of the rule of unread: a message of somebody blocked is never counted for
the blocker. A node keeps them in memory by both sides, so a send costs one lookup. The keyspace lists who was concerned
by a change lately; every node reads that list each BLOCKS_READ_S and forgets what it knew of those users.

A change makes the blocker's index cold twice: at once, and after HOLD_MS, when every node knows of the block. So a
message that another node counted in between is not counted for longer than that.

The blocked user learns nothing: a direct message is refused in the same way as by a user who takes none from strangers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidings.bounds import BLOCKS_CACHED_MAX, BLOCKS_CHANGED_S, BLOCKS_PER_USER_MAX, BLOCKS_READ_S
from tidings.clock import Clock
from tidings.errors import BadRequest, Forbidden, TooLarge
from tidings.messaging.access import MemberList
from tidings.messaging.unread.rebuild import HOLD_MS
from tidings.pushes import Blocked
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import People
from tidings.stores.tables.values import Block
from tidings.tasks import Listeners, Loop, Recent

log = logging.getLogger("tidings.people")
NOBODY: frozenset[str] = frozenset()


@dataclass(eq=False, repr=False)
class Blocks:
    people: People
    keyspace: Keyspace
    scripts: Scripts
    router: Router
    clock: Clock
    unread_changed: Listeners[[str]]

    def __post_init__(self) -> None:
        self._blockers = Recent[str, frozenset[str]](BLOCKS_CACHED_MAX)  # user -> the people who blocked them
        self._blocked = Recent[str, frozenset[str]](BLOCKS_CACHED_MAX)  # user -> the people whom they blocked
        self.loop = Loop("blocks", lambda: BLOCKS_READ_S, self.refresh)

    # --- asking -------------------------------------------------------------------------------------

    def is_known(self, sender_ids: Iterable[str | None]) -> bool:
        """Whether `blockers` can answer for all of these without a read."""
        return all(map(self._blockers.__contains__, filter(None, sender_ids)))

    def has_blocker(self, sender_ids: Iterable[str | None]) -> bool:
        """Whether anybody has blocked one of these, as far as this node knows. Loaded before."""
        return any(map(self._blockers.get, filter(None, sender_ids)))

    async def load(self, sender_ids: Iterable[str | None]) -> None:
        """Read the blockers of those users whom this node does not know yet. Raises StoreError."""
        unknown = {id_ for id_ in sender_ids if id_ is not None and id_ not in self._blockers}
        if unknown:
            for sender_id, blockers in (await self.people.blockers_of(unknown)).items():
                self._blockers.put(sender_id, blockers)

    def blockers(self, sender_id: str | None) -> frozenset[str]:
        """The people who have blocked the sender, as far as this node knows. Loaded before."""
        return self._blockers.get(sender_id, NOBODY) if sender_id is not None else NOBODY

    async def blocked_by(self, user_id: str) -> frozenset[str]:
        """The people whom the user has blocked."""
        blocked = self._blocked.get(user_id)
        if blocked is None:
            blocked = frozenset(block.blocked_id for block in await self.people.blocks_of(user_id))
            self._blocked.put(user_id, blocked)
        return blocked

    def check_direct(self, member_list: MemberList, sender_id: str) -> None:
        """Raise Forbidden where the other member of a direct conversation has blocked the sender. Loaded before."""
        if member_list.head.kind == "direct" and self.blockers(sender_id) & member_list.members.keys():
            raise Forbidden("this person takes no messages from you")

    async def all(self, user_id: str) -> list[Block]:
        return await self.people.blocks_of(user_id)

    # --- changing -----------------------------------------------------------------------------------

    async def block(self, user_id: str, other_id: str) -> None:
        if user_id == other_id:
            raise BadRequest("`user_id` must be another user")
        if len(await self.people.blocks_of(user_id)) >= BLOCKS_PER_USER_MAX:
            raise TooLarge(f"at most {BLOCKS_PER_USER_MAX} people can be blocked")
        await self._announce(user_id, other_id)
        await self.people.block(Block(user_id, other_id, self.clock.now_ms()))
        await self._changed(user_id, other_id, is_blocked=True)

    async def unblock(self, user_id: str, other_id: str) -> None:
        await self._announce(user_id, other_id)
        await self.people.unblock(user_id, other_id)
        await self._changed(user_id, other_id, is_blocked=False)

    async def _announce(self, user_id: str, other_id: str) -> None:
        """Before the commit: should this node die, the others forget the two, and the index becomes cold in time."""
        cold_later = self._chilled(user_id, hold_ms=HOLD_MS)
        await self.keyspace.run([*self._list_changed(user_id, other_id), *cold_later])

    async def _changed(self, user_id: str, other_id: str, *, is_blocked: bool) -> None:
        self.forget((user_id, other_id))
        cold_now = self._chilled(user_id, hold_ms=-1)
        await self.keyspace.run([*self._list_changed(user_id, other_id), *cold_now])
        self.router.push(user_id, Blocked(other_id, is_blocked))
        self.unread_changed(user_id)

    def _chilled(self, user_id: str, *, hold_ms: int) -> list[Call[int]]:
        """Make all counts of a user cold, those of threads too."""
        token = self.clock.random_id(8)
        return [one.unread_put(user_id, token, hold_ms=hold_ms) for one in (self.scripts, self.scripts.threads)]

    # --- following the other nodes ------------------------------------------------------------------

    def forget(self, user_ids: Iterable[str]) -> None:
        for user_id in user_ids:
            self._blockers.pop(user_id, None)
            self._blocked.pop(user_id, None)

    def epoch_changed(self, old: str, new: str) -> None:
        """The keyspace may have lost the list of changes."""
        self._blockers.clear()
        self._blocked.clear()

    async def refresh(self) -> None:
        """Forget the users whose blocks changed within the last BLOCKS_CHANGED_S. Raises StoreError."""
        key, since_ms = self.scripts.keys.blocks_changed(), self._since_ms()
        try:
            found = await self.keyspace.one(plain(key, b"ZRANGE", key, since_ms, b"+inf", b"BYSCORE"))
        except Exception:
            self.epoch_changed("", "")  # whatever changes now is not seen
            raise
        self.forget(name.decode() for name in found)

    def _list_changed(self, *user_ids: str) -> list[Call[Any]]:
        key, now_ms = self.scripts.keys.blocks_changed(), self.clock.now_ms()
        named = [part for user_id in user_ids for part in (now_ms, user_id)]
        return [
            plain(key, b"ZADD", key, *named),
            plain(key, b"ZREMRANGEBYSCORE", key, b"-inf", self._since_ms()),
            plain(key, b"EXPIRE", key, int(4 * BLOCKS_CHANGED_S)),
        ]

    def _since_ms(self) -> int:
        return self.clock.now_ms() - int(2 * BLOCKS_CHANGED_S * 1000)
