"""Presence: a user with a live lease anywhere is online. Members who watch a shared conversation get the changes.

A user who returns within AWAY_S counts as online all the time. Changes are pushed in batches, paced, and dropped when
too many wait. A change that was lost that way, or with a dead node, is found once per WATCH_RENEW_S: the presence that
watchers here know is compared with the leases. `last_seen` is when the last connection ended, field `*` of
session:{user}. Where the connection ended with its node, it is when the lease was last renewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from tidings.bounds import (
    AWAY_S,
    INDEX_TTL_S,
    LEASE_S,
    PRESENCE_BATCH,
    PRESENCE_BURST_MAX,
    PRESENCE_COMPARED_MAX,
    PRESENCE_CONVERSATIONS_MAX,
    PRESENCE_MEMBERS_MAX,
    PRESENCE_PACE_S,
    PRESENCE_WAITING_MAX,
)
from tidings.errors import NotFound, TooLarge
from tidings.messaging.access import Access, MemberList
from tidings.messaging.people.sight import Sight
from tidings.messaging.presence.watchers import Watchers
from tidings.pushes import Presence
from tidings.routing.hub import Connection, Hub
from tidings.routing.registry import Registry
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.tasks import TaskSet

SEEN = b"*"  # no device has this name


class _Change(msgspec.Struct, frozen=True, gc=False):
    """A user who may have come online, or gone, at this time."""

    is_online: bool
    at_ms: int


@dataclass(eq=False, repr=False, kw_only=True)
class Presences:
    access: Access
    sight: Sight
    watchers: Watchers
    hub: Hub
    registry: Registry
    keyspace: Keyspace
    keys: Keys
    tasks: TaskSet
    away_s: float = AWAY_S

    def __post_init__(self) -> None:
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._changes: dict[str, _Change] = {}
        self._is_pushing = False
        self._seen: dict[str, int] = {}  # user -> when the last connection here went, ms; to be written
        self._is_writing = False
        self._pushed: dict[str, bool] = {}  # user -> the presence that was last pushed to watchers here

    # --- asking -----------------------------------------------------------------------------------

    async def of_members(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[Presence]:
        """Return the presence of members in the order asked; of all the others if none is named. Raises NotFound."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        ids = list(dict.fromkeys(user_ids)) or sorted(member_list.members.keys() - {user_id})
        if len(ids) > PRESENCE_BURST_MAX:
            raise TooLarge(f"at most {PRESENCE_BURST_MAX} people at a time")
        if any(id_ not in member_list.members for id_ in ids):
            raise NotFound("no such member")
        hidden = await self.sight.hidden_from(user_id, member_list)
        shown = {one.user_id: one for one in await self._now([id_ for id_ in ids if id_ not in hidden], away_ms=0)}
        return [shown.get(id_, Presence(id_, False, None)) for id_ in ids]

    async def show(self, connection: Connection, member_lists: Iterable[MemberList]) -> None:
        """Push the presence of the others to a connection that begins to watch. Big conversations are left out."""
        small = [member_list for member_list in member_lists if _is_small(member_list)]
        others: dict[str, None] = {}
        for member_list in small:
            hidden = await self.sight.hidden_from(connection.user_id, member_list)
            apart = hidden | {connection.user_id}
            others |= dict.fromkeys(id_ for id_ in member_list.members if id_ not in apart)
        shown = await self._now(list(others)[:PRESENCE_BURST_MAX], away_ms=self._away_ms)
        for presence in shown:
            if self._pushed.setdefault(presence.user_id, presence.online) == presence.online:
                connection.push(presence)
            else:
                await self._correct(presence)  # the other watchers here know something else

    async def _now(self, user_ids: Sequence[str], *, away_ms: int) -> list[Presence]:
        """Read presence from the leases. A user counts as online until `away_ms` after the last connection ended."""
        online = await self.registry.is_online(user_ids)
        seen = await self._seen_of([user_id for user_id in user_ids if not online[user_id]])
        return [
            Presence(id_, False, seen[id_])
            if id_ in seen and not self._is_recent(seen[id_], away_ms)
            else Presence(id_, True, None)
            for id_ in user_ids
        ]

    async def _seen_of(self, user_ids: Sequence[str]) -> dict[str, int | None]:
        """Return when users who are not online were last seen, ms. None: never, as far as we know."""
        words = [self._last_seen(id_) for id_ in user_ids] + [self.registry.last_renewed(id_) for id_ in user_ids]
        times = await self.keyspace.run(words)
        pairs = zip(times[: len(user_ids)], times[len(user_ids) :], strict=True)
        return {id_: max(pair, key=lambda at_ms: at_ms or 0) for id_, pair in zip(user_ids, pairs, strict=True)}

    def _is_recent(self, seen_ms: int | None, away_ms: int) -> bool:
        return away_ms > 0 and seen_ms is not None and self.registry.now_ms() - seen_ms < away_ms

    @property
    def _away_ms(self) -> int:
        return round(self.away_s * 1000)

    def _last_seen(self, user_id: str) -> Call[int | None]:
        key = self.keys.session(user_id)
        return plain(key, b"HGET", key, SEEN, parse=lambda reply: int(reply) if reply is not None else None)

    # --- coming and going -------------------------------------------------------------------------

    def came(self, connection: Connection) -> None:
        """Record a connection whose lease is announced. Never blocks."""
        leaving = self._leaving.pop(connection.user_id, None)
        if leaving is not None:
            leaving.cancel()  # back before the change was pushed
        elif len(self.hub.of_user(connection.user_id)) <= 1:
            self._note(connection.user_id, is_online=True)

    def went(self, connection: Connection) -> None:
        """Record a connection that is off the hub. Never blocks."""
        user_id = connection.user_id
        self._keep_seen(user_id)
        if self.hub.of_user(user_id):
            return
        if (earlier := self._leaving.pop(user_id, None)) is not None:
            earlier.cancel()
        self._leaving[user_id] = asyncio.get_running_loop().call_later(self.away_s, self._stayed_away, user_id)

    async def close(self) -> None:
        """Stop pushing, and write when each user was last seen. Raises StoreError."""
        for leaving in self._leaving.values():
            leaving.cancel()
        self._leaving.clear()
        self._changes.clear()
        await self._write_seen()

    def _keep_seen(self, user_id: str) -> None:
        if len(self._seen) < PRESENCE_WAITING_MAX:
            self._seen[user_id] = self.registry.now_ms()
        if not self._is_writing:
            self._is_writing = self.tasks.run(self._write_seen(), "last_seen")

    async def _write_seen(self) -> None:
        """Write when users were last seen. On a StoreError the rest waits for the next time."""
        try:
            while self._seen:
                seen = list(islice(self._seen.items(), PRESENCE_BURST_MAX))
                keys = [self.keys.session(user_id) for user_id, _ in seen]
                writes = [plain(key, b"HSET", key, SEEN, at_ms) for key, (_, at_ms) in zip(keys, seen, strict=True)]
                await self.keyspace.run([*writes, *(plain(key, b"EXPIRE", key, INDEX_TTL_S) for key in keys)])
                for user_id, at_ms in seen:
                    if self._seen.get(user_id) == at_ms:
                        del self._seen[user_id]
        finally:
            self._is_writing = False

    def _stayed_away(self, user_id: str) -> None:
        del self._leaving[user_id]
        self._note(user_id, is_online=False)

    def _note(self, user_id: str, *, is_online: bool) -> None:
        if not self.watchers.is_anyone_there or len(self._changes) >= PRESENCE_WAITING_MAX:
            return
        self._changes[user_id] = _Change(is_online, self.registry.now_ms())
        if not self._is_pushing:
            self._is_pushing = self.tasks.run(self._push_changes(), "presence")

    # --- pushing ----------------------------------------------------------------------------------

    async def push(self, conversation_ids: Iterable[str], presence: Presence) -> None:
        """Push to the watchers here, unless they know it. Both sides must be members now, whatever an index says."""
        member_lists = [
            one for one in await self.watchers.member_lists(conversation_ids) if presence.user_id in one.members
        ]
        if member_lists and self._pushed.get(presence.user_id) != presence.online:
            self._pushed[presence.user_id] = presence.online
            await self.watchers.push(member_lists, presence)

    async def compare(self) -> None:
        """Compare the presence that watchers here know with the leases: a publish may be lost, a node may have died."""
        people: set[str] = set()
        for member_list in [one for id_ in self.watchers if (one := self.access.cached(id_))]:
            people |= self._pushed.keys() & member_list.members.keys()
        self._pushed = {user_id: is_online for user_id, is_online in self._pushed.items() if user_id in people}
        oldest = list(islice(self._pushed, PRESENCE_COMPARED_MAX))
        for start in range(0, len(oldest), PRESENCE_BURST_MAX):
            for presence in await self._now(oldest[start : start + PRESENCE_BURST_MAX], away_ms=self._away_ms):
                told = self._pushed.pop(presence.user_id, presence.online)
                self._pushed[presence.user_id] = told  # moved to the end, so the next comparison begins with others
                if told != presence.online:
                    await self._correct(presence)

    async def _correct(self, presence: Presence) -> None:
        """Push to all watchers here, because the lost change is not known to concern only some."""
        shared = [id_ for id_ in self.watchers if (one := self.access.cached(id_)) and presence.user_id in one.members]
        await self.push(shared, presence)

    async def _push_changes(self) -> None:
        try:
            while self._changes:
                batch = {user_id: self._changes.pop(user_id) for user_id in list(islice(self._changes, PRESENCE_BATCH))}
                await self._push_batch(await self._transitions(batch))
                if self._changes:
                    await asyncio.sleep(PRESENCE_PACE_S)
        finally:
            self._changes.clear()  # some are left only when a store does not answer; the next comparison finds them
            self._is_pushing = False

    async def _push_batch(self, transitions: list[tuple[Presence, list[str]]]) -> None:
        nodes = await self.watchers.nodes_of(dict.fromkeys(id_ for _, ids in transitions for id_ in ids))
        for presence, ids in transitions:
            shared = {node_id: [id_ for id_ in ids if id_ in watched] for node_id, watched in nodes.items()}
            self.watchers.publish({node_id: watched for node_id, watched in shared.items() if watched}, presence)
            await self.push(ids, presence)

    async def _transitions(self, batch: dict[str, _Change]) -> list[tuple[Presence, list[str]]]:
        """Return the users who really came or went, with their latest conversations."""
        replies = await self.keyspace.run([call for user_id in batch for call in self._reads(user_id, batch[user_id])])
        found = []
        for number, (user_id, change) in enumerate(batch.items()):
            is_elsewhere, seen_ms, names = replies[3 * number : 3 * number + 3]
            is_here = bool(self.hub.of_user(user_id))
            if is_elsewhere or change.is_online != is_here:
                continue  # online elsewhere all the time, or the other way round by now
            if change.is_online and seen_ms is not None and change.at_ms - seen_ms < self._away_ms:
                continue  # back from another node before the change was pushed
            presence = Presence(user_id, True, None) if is_here else Presence(user_id, False, seen_ms)
            found.append((presence, [name.decode() for name in names]))
        return found

    def _reads(self, user_id: str, change: _Change) -> list[Call[Any]]:
        """Return the reads that decide whether there is a change. For a user who went, a lease on any other node says
        no. For one who came, only an older lease does: two devices may come at the same moment on two nodes."""
        inbox = self.keys.inbox(user_id)
        until_ms = change.at_ms + round(LEASE_S * 1000) - self._away_ms if change.is_online else None
        return [
            self.registry.elsewhere(user_id, until_ms),
            self._last_seen(user_id),
            plain(inbox, b"ZREVRANGE", inbox, 0, PRESENCE_CONVERSATIONS_MAX - 1),
        ]


def _is_small(member_list: MemberList) -> bool:
    return len(member_list.members) <= PRESENCE_MEMBERS_MAX
