"""What a node had under way when it died is finished by another; what a node could not finish itself, it tries again.

The number script writes `open:<node>` into the conversation in the very moment the numbers exist, and the node adds the
conversation to its own open set in the same round trip; both are cleared a little after the batch was routed. A dead
node's set therefore names every conversation in which something may be stored but not indexed. What it stored is
indexed again, which is idempotent; what it did not is closed by voids, so a node that was only slow loses the slot and
takes another. Told by send.py of each batch, and run by tending.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidings.bounds import NODE_LEASE_S, OPEN_SLOT_S, PAGE_MAX
from tidings.clock import Clock
from tidings.messaging.access import Access
from tidings.messaging.deliver import Deliver
from tidings.messaging.drafts import BatchGroup
from tidings.messaging.indexing import Indexing
from tidings.messaging.rows import Rows
from tidings.messaging.slots import Slots
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.keys import Keys
from tidings.stores.ports import Messages

log = logging.getLogger("tidings.repair")


class Undecided(msgspec.Struct, frozen=True):
    """Numbers of ours that nobody knows the fate of, and since when."""

    first: int
    last: int
    since_s: float


class Repair:
    def __init__(
        self,
        *,
        keyspace: Keyspace,
        keys: Keys,
        access: Access,
        slots: Slots,
        messages: Messages,
        indexing: Indexing,
        deliver: Deliver,
        rows: Rows,
        clock: Clock,
        node_id: str,
        epoch_changes: Callable[[], int],
        count_repair: Callable[[str, int], None],
    ) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._access = access
        self._slots = slots
        self._messages = messages
        self._indexing = indexing
        self._deliver = deliver
        self._rows = rows
        self._clock = clock
        self._node_id = node_id
        self.epoch_changes = epoch_changes
        self._count_repair = count_repair
        self._announced: set[str] = set()  # conversations in our open set
        self._announced_at = epoch_changes()  # the set may be lost with the keyspace's life it was written in
        self._busy: set[str] = set()  # of these, with a batch under way
        self._idle: dict[str, float] = {}  # of these, finished, and when
        self._undecided: dict[str, Undecided] = {}

    # --- of our own batches -----------------------------------------------------------------------

    def open_from(self, conversation_id: str) -> int:
        undecided = self._undecided.get(conversation_id)
        return undecided.first if undecided else 0

    def announcement(self, groups: Sequence[BatchGroup]) -> list[Call[Any]]:
        """Puts the conversations of a batch on our open set, where they are not on it yet; goes with the numbers."""
        if self._announced_at != self.epoch_changes():
            self._announced_at = self.epoch_changes()
            self._announced.clear()
        ids = [group.conversation_id for group in groups]
        self._busy.update(ids)
        for id_ in ids:
            self._idle.pop(id_, None)
        fresh = [id_ for id_ in ids if id_ not in self._announced]
        return [self._opening(fresh)] if fresh else []

    def announcement_again(self, groups: Sequence[BatchGroup]) -> list[Call[Any]]:
        """Their counters were gone, and perhaps everything: nobody looks at the open set of a node that is not on the
        list, and this one may die before its next renewal."""
        nodes, until_ms = self._keys.nodes, self._clock.now_ms() + int(NODE_LEASE_S * 1000)
        listed = plain(nodes, b"ZADD", nodes, b"NX", until_ms, self._node_id)
        return [listed, self._opening([group.conversation_id for group in groups])]

    def _opening(self, conversation_ids: Sequence[str]) -> Call[Any]:
        key = self._keys.open(self._node_id)
        return plain(key, b"SADD", key, *conversation_ids)

    def announced(self, groups: Sequence[BatchGroup]) -> None:
        """The keyspace has it."""
        self._announced.update(group.conversation_id for group in groups)

    def finished(self, groups: Sequence[BatchGroup]) -> None:
        """Routed, or given up: taken off the open set a little later, many at a time."""
        now_s = self._clock.monotonic_s()
        for group in groups:
            id_ = group.conversation_id
            self._busy.discard(id_)
            if group.undecided is not None:
                first, last = group.undecided
                before = self._undecided.get(id_, Undecided(first, last, now_s))
                self._deliver.doubt(id_, first)
                self._undecided[id_] = Undecided(min(first, before.first), max(last, before.last), before.since_s)
            if id_ not in self._undecided:
                self._idle[id_] = now_s

    async def clear_finished(self, older_than_s: float = 0.0) -> None:
        before_s = self._clock.monotonic_s() - older_than_s
        ids = [id_ for id_, at_s in self._idle.items() if at_s <= before_s]
        if not ids:
            return
        for id_ in ids:
            del self._idle[id_]
        self._announced.difference_update(ids)
        field, key = f"open:{self._node_id}", self._keys.open(self._node_id)
        conv = self._keys.conv
        calls: list[Call[object]] = [plain(conv(id_), b"HDEL", conv(id_), field) for id_ in ids]
        await self._keyspace.run([*calls, plain(key, b"SREM", key, *ids)])

    # --- of nodes that died -----------------------------------------------------------------------

    async def finish_dead(self) -> int:
        """Finish the work of every node whose lease ran out; how many conversations that were."""
        key = self._keys.nodes
        dead = await self._keyspace.one(plain(key, b"ZRANGEBYSCORE", key, b"-inf", self._clock.now_ms()))
        done = 0
        for node_id in (name.decode() for name in dead):
            if node_id == self._node_id:
                continue
            opened = self._keys.open(node_id)
            for conversation_id in await self._keyspace.one(plain(opened, b"SMEMBERS", opened)):
                await self._finish(conversation_id.decode(), node_id)
                done += 1
            await self._keyspace.run([plain(opened, b"DEL", opened), plain(key, b"ZREM", key, node_id)])
        return done

    async def finish_own(self) -> None:
        """Batches of ours that failed half-way, once the stores answer again."""
        await self._check_announced()
        now_s = self._clock.monotonic_s()
        for conversation_id, undecided in list(self._undecided.items()):
            if now_s - undecided.since_s > OPEN_SLOT_S:
                await self._slots.close(conversation_id, undecided.first, undecided.last)
            reached = await self._index_from(conversation_id, undecided.first)
            is_decided = reached >= undecided.last or await self._access.load(conversation_id) is None
            if is_decided and self._undecided.get(conversation_id) == undecided:
                del self._undecided[conversation_id]
                if conversation_id not in self._busy:
                    self._idle[conversation_id] = now_s

    async def _check_announced(self) -> None:
        """Our set and what we think of it may differ.

        Another node that took us for dead has finished our work and deleted the set; or an earlier life of this node,
        under the same name, left something in it.
        """
        key, before = self._keys.open(self._node_id), set(self._announced)
        there = {name.decode() for name in await self._keyspace.one(plain(key, b"SMEMBERS", key))}
        self._announced -= before - there
        for conversation_id in there - self._announced - self._busy:
            await self._finish(conversation_id, self._node_id)
            if conversation_id not in self._busy:
                await self._keyspace.one(plain(key, b"SREM", key, conversation_id))

    async def _finish(self, conversation_id: str, node_id: str) -> None:
        key, field = self._keys.conv(conversation_id), f"open:{node_id}"
        numbers = await self._keyspace.one(plain(key, b"HGET", key, field))
        if numbers is not None:
            first, last = map(int, numbers.split(b"-"))
            await self._slots.close(conversation_id, first, last)
            await self._index_from(conversation_id, first)
            await self._keyspace.one(plain(key, b"HDEL", key, field))
        self._count_repair("open", 1)
        log.info("finished the work that a node left in one conversation")

    async def _index_from(self, conversation_id: str, seq_no: int) -> int:
        """Index and route again what is stored from seq_no on; the number up to which everything is decided."""
        after = seq_no - 1
        while entries := await self._slots.after(conversation_id, after, PAGE_MAX):
            await self._messages.catch_up(conversation_id, entries)
            roster = await self._access.load(conversation_id)
            if roster is None:
                break
            (counts,) = await self._indexing.index([(roster, entries)], since=self.epoch_changes())
            if roster.head.last_seq in {entry.target_seq for entry in entries}:
                await self._rows.write_now(roster, roster.head)  # a rewritten text must not stay in the inbox
            await self._deliver.route(roster, entries, counts, {})
            after = entries[-1].seq_no
            if len(entries) < PAGE_MAX:
                break
        return after
