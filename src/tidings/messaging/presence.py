"""Who is online: whoever has a live lease anywhere. Told to the members who watch a shared conversation.

Whoever is back within AWAY_S was never gone. Coming and going is told in batches, paced, and dropped when too much
waits; what was lost that way, or with a dead node, is found by comparing what watchers here were told with the leases,
once per WATCH_RENEW_S. `last_seen` is when the last connection went, field `*` of session:{user}; where it went with
its node, when its lease was last renewed. signals.py calls it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
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
from tidings.clock import Clock
from tidings.errors import NotFound, TooLarge
from tidings.messaging.access import Access, Roster
from tidings.messaging.errands import Errands
from tidings.messaging.watching import Watching
from tidings.model import Presence
from tidings.routing.hub import Hub, Outbound
from tidings.routing.registry import Registry
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.keys import Keys

SEEN = b"*"  # no device has this name


class _Change(msgspec.Struct, frozen=True, gc=False):
    """A user who may have come online, or gone, at this time."""

    is_online: bool
    at_ms: int


class Presences:
    def __init__(
        self,
        *,
        access: Access,
        watching: Watching,
        hub: Hub,
        registry: Registry,
        keyspace: Keyspace,
        keys: Keys,
        errands: Errands,
        clock: Clock,
        away_s: float = AWAY_S,
    ) -> None:
        self._access = access
        self._watching = watching
        self._hub = hub
        self._registry = registry
        self._keyspace = keyspace
        self._keys = keys
        self._errands = errands
        self._clock = clock
        self._away_s = away_s
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._changes: dict[str, _Change] = {}
        self._is_telling = False
        self._seen: dict[str, int] = {}  # user -> when the last connection here went, ms; to be written
        self._is_writing = False
        self._told: dict[str, bool] = {}  # user -> what watchers here were last told

    # --- asking -----------------------------------------------------------------------------------

    async def of_members(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[Presence]:
        """In the order asked; nobody named: all the other members. NotFound where one is not a member."""
        roster = await self._access.authorize(user_id, conversation_id, "read")
        ids = list(dict.fromkeys(user_ids)) or sorted(roster.members.keys() - {user_id})
        if len(ids) > PRESENCE_BURST_MAX:
            raise TooLarge(f"at most {PRESENCE_BURST_MAX} people at a time")
        if any(id_ not in roster.members for id_ in ids):
            raise NotFound("no such member")
        return await self._now(ids, away_ms=0)

    async def show(self, outbound: Outbound, rosters: Iterable[Roster]) -> None:
        """To a connection that begins to watch: how the others stand. Big conversations are left out."""
        small = [roster for roster in rosters if _is_small(roster)]
        others = dict.fromkeys(id_ for roster in small for id_ in roster.members if id_ != outbound.user_id)
        shown = await self._now(list(others)[:PRESENCE_BURST_MAX], away_ms=self._away_ms)
        for presence in shown:
            if self._told.setdefault(presence.user_id, presence.online) == presence.online:
                outbound.push(presence)
            else:
                await self._correct(presence)  # the others here were told something else

    async def _now(self, user_ids: Sequence[str], *, away_ms: int) -> list[Presence]:
        """From leases. Within `away_ms` of the last connection's end a user still counts as online."""
        online = await self._registry.is_online(user_ids)
        seen = await self._seen_of([user_id for user_id in user_ids if not online[user_id]])
        return [
            Presence(id_, False, seen[id_])
            if id_ in seen and not self._is_recent(seen[id_], away_ms)
            else Presence(id_, True, None)
            for id_ in user_ids
        ]

    async def _seen_of(self, user_ids: Sequence[str]) -> dict[str, int | None]:
        """When people who are not online were last seen, ms. None: never, as far as we know."""
        words = [self._last_seen(id_) for id_ in user_ids] + [self._registry.last_renewed(id_) for id_ in user_ids]
        times = await self._keyspace.run(words)
        pairs = zip(times[: len(user_ids)], times[len(user_ids) :], strict=True)
        return {id_: max(pair, key=lambda at_ms: at_ms or 0) for id_, pair in zip(user_ids, pairs, strict=True)}

    def _is_recent(self, seen_ms: int | None, away_ms: int) -> bool:
        return away_ms > 0 and seen_ms is not None and self._clock.now_ms() - seen_ms < away_ms

    @property
    def _away_ms(self) -> int:
        return round(self._away_s * 1000)

    def _last_seen(self, user_id: str) -> Call[int | None]:
        key = self._keys.session(user_id)
        return plain(key, b"HGET", key, SEEN, parse=lambda reply: int(reply) if reply is not None else None)

    # --- coming and going -------------------------------------------------------------------------

    def came(self, outbound: Outbound) -> None:
        """Its lease is announced. Never blocks."""
        leaving = self._leaving.pop(outbound.user_id, None)
        if leaving is not None:
            leaving.cancel()  # back before anybody was told
        elif len(self._hub.of_user(outbound.user_id)) <= 1:
            self._note(outbound.user_id, is_online=True)

    def went(self, outbound: Outbound) -> None:
        """It is off the hub. Never blocks."""
        user_id = outbound.user_id
        self._keep_seen(user_id)
        if self._hub.of_user(user_id):
            return
        if (earlier := self._leaving.pop(user_id, None)) is not None:
            earlier.cancel()
        self._leaving[user_id] = asyncio.get_running_loop().call_later(self._away_s, self._stayed_away, user_id)

    async def close(self) -> None:
        """Nothing more is told, but when everybody was last seen is written. Raises StoreError."""
        for leaving in self._leaving.values():
            leaving.cancel()
        self._leaving.clear()
        self._changes.clear()
        await self._write_seen()

    def _keep_seen(self, user_id: str) -> None:
        if len(self._seen) < PRESENCE_WAITING_MAX:
            self._seen[user_id] = self._clock.now_ms()
        if not self._is_writing:
            self._is_writing = self._errands.run(self._write_seen(), "last_seen")

    async def _write_seen(self) -> None:
        """What could not be written waits for the next time."""
        try:
            while self._seen:
                seen = list(islice(self._seen.items(), PRESENCE_BURST_MAX))
                keys = [self._keys.session(user_id) for user_id, _ in seen]
                writes = [plain(key, b"HSET", key, SEEN, at_ms) for key, (_, at_ms) in zip(keys, seen, strict=True)]
                await self._keyspace.run([*writes, *(plain(key, b"EXPIRE", key, INDEX_TTL_S) for key in keys)])
                for user_id, at_ms in seen:
                    if self._seen.get(user_id) == at_ms:
                        del self._seen[user_id]
        finally:
            self._is_writing = False

    def _stayed_away(self, user_id: str) -> None:
        del self._leaving[user_id]
        self._note(user_id, is_online=False)

    def _note(self, user_id: str, *, is_online: bool) -> None:
        if not self._watching.is_anyone_there or len(self._changes) >= PRESENCE_WAITING_MAX:
            return
        self._changes[user_id] = _Change(is_online, self._clock.now_ms())
        if not self._is_telling:
            self._is_telling = self._errands.run(self._tell_changes(), "presence")

    # --- telling ----------------------------------------------------------------------------------

    async def tell(self, conversation_ids: Iterable[str], presence: Presence) -> None:
        """To the watchers here, unless they know it. Both sides must be members now, whatever an index says."""
        rosters = [one for one in await self._watching.rosters(conversation_ids) if presence.user_id in one.members]
        if rosters and self._told.get(presence.user_id) != presence.online:
            self._told[presence.user_id] = presence.online
            self._watching.tell(rosters, presence)

    async def compare(self) -> None:
        """What watchers here were told with what the leases say: a publish may be lost, a node may have died."""
        people: set[str] = set()
        for roster in [one for id_ in self._watching if (one := self._access.cached(id_))]:
            people |= self._told.keys() & roster.members.keys()
        self._told = {user_id: is_online for user_id, is_online in self._told.items() if user_id in people}
        oldest = list(islice(self._told, PRESENCE_COMPARED_MAX))
        for start in range(0, len(oldest), PRESENCE_BURST_MAX):
            for presence in await self._now(oldest[start : start + PRESENCE_BURST_MAX], away_ms=self._away_ms):
                told = self._told.pop(presence.user_id, presence.online)
                self._told[presence.user_id] = told  # to the end: the next comparison begins with others
                if told != presence.online:
                    await self._correct(presence)

    async def _correct(self, presence: Presence) -> None:
        """Everywhere here, for it is not known whom the lost word concerned."""
        shared = [
            id_ for id_ in self._watching if (one := self._access.cached(id_)) and presence.user_id in one.members
        ]
        await self.tell(shared, presence)

    async def _tell_changes(self) -> None:
        try:
            while self._changes:
                batch = {user_id: self._changes.pop(user_id) for user_id in list(islice(self._changes, PRESENCE_BATCH))}
                await self._tell_batch(await self._transitions(batch))
                if self._changes:
                    await asyncio.sleep(PRESENCE_PACE_S)
        finally:
            self._changes.clear()  # only left when a store does not answer: the next comparison finds them
            self._is_telling = False

    async def _tell_batch(self, transitions: list[tuple[Presence, list[str]]]) -> None:
        nodes = await self._watching.nodes_of(dict.fromkeys(id_ for _, ids in transitions for id_ in ids))
        for presence, ids in transitions:
            shared = {node_id: [id_ for id_ in ids if id_ in watched] for node_id, watched in nodes.items()}
            self._watching.post({node_id: watched for node_id, watched in shared.items() if watched}, presence)
            await self.tell(ids, presence)

    async def _transitions(self, batch: dict[str, _Change]) -> list[tuple[Presence, list[str]]]:
        """Who really came or went, with their latest conversations."""
        replies = await self._keyspace.run([call for user_id in batch for call in self._reads(user_id, batch[user_id])])
        found = []
        for number, (user_id, change) in enumerate(batch.items()):
            leases, seen_ms, names = replies[3 * number : 3 * number + 3]
            is_here = bool(self._hub.of_user(user_id))
            if leases or change.is_online != is_here:
                continue  # online elsewhere all the time, or the other way round by now
            if change.is_online and seen_ms is not None and change.at_ms - seen_ms < self._away_ms:
                continue  # back from another node before anybody was told
            presence = Presence(user_id, True, None) if is_here else Presence(user_id, False, seen_ms)
            found.append((presence, [name.decode() for name in names]))
        return found

    def _reads(self, user_id: str, change: _Change) -> list[Call[Any]]:
        """Leases that say it is no change: of who went any; of who came those older than their own, so that two
        devices that come at the same moment on two nodes do not each take the other for it."""
        ws, inbox = self._keys.ws(user_id), self._keys.inbox(user_id)
        until: bytes | int = b"+inf"
        if change.is_online:
            until = change.at_ms + round(LEASE_S * 1000) - self._away_ms
        return [
            plain(ws, b"ZCOUNT", ws, self._clock.now_ms(), until),
            self._last_seen(user_id),
            plain(inbox, b"ZREVRANGE", inbox, 0, PRESENCE_CONVERSATIONS_MAX - 1),
        ]


def _is_small(roster: Roster) -> bool:
    return len(roster.members) <= PRESENCE_MEMBERS_MAX
