"""What a node had under way when it died is finished by another; what a node could not finish itself, it tries again.

The number script writes `open:<node>` into the conversation in the very moment the numbers exist, and the node adds the
conversation to its own open set in the same round trip; both are cleared a little after the batch was routed. A dead
node's set therefore names every conversation in which something may be stored but not indexed. Indexing it again is
idempotent, so a node that was only slow does no harm and takes none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tidings.bounds import CLEAR_OPEN_S, NODE_LEASE_S, NODE_RENEW_S, PAGE_MAX
from tidings.clock import Clock
from tidings.errors import Problem, StoreError
from tidings.messaging.access import Access
from tidings.messaging.deliver import Deliver
from tidings.messaging.drafts import BatchGroup
from tidings.messaging.indexing import Indexing
from tidings.messaging.slots import Slots
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.keys import Keys

log = logging.getLogger("tidings.repair")


class Repair:
    def __init__(
        self,
        *,
        keyspace: Keyspace,
        keys: Keys,
        access: Access,
        slots: Slots,
        indexing: Indexing,
        deliver: Deliver,
        clock: Clock,
        node_id: str,
        epoch_changes: Callable[[], int],
        count_repair: Callable[[str, int], None],
    ) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._access = access
        self._slots = slots
        self._indexing = indexing
        self._deliver = deliver
        self._clock = clock
        self._node_id = node_id
        self.epoch_changes = epoch_changes
        self._count_repair = count_repair
        self._announced: set[str] = set()  # conversations in our open set
        self._idle: dict[str, float] = {}  # of these, finished, and when
        self._unfinished: dict[str, int] = {}  # conversation -> lowest number nobody knows the fate of
        self._task: asyncio.Task[None] | None = None

    # --- of our own batches -----------------------------------------------------------------------

    def open_from(self, conversation_id: str) -> int:
        return self._unfinished.get(conversation_id, 0)

    async def announce(self, groups: Sequence[BatchGroup]) -> None:
        """Put the conversations of a batch on our open set, if they are not there yet."""
        fresh = [group.conversation_id for group in groups if group.conversation_id not in self._announced]
        for group in groups:
            self._idle.pop(group.conversation_id, None)
        if fresh:
            key = self._keys.open(self._node_id)
            await self._keyspace.one(plain(key, b"SADD", key, *fresh))
            self._announced.update(fresh)

    def finished(self, groups: Sequence[BatchGroup]) -> None:
        """Routed, or given up: taken off the open set a little later, many at a time."""
        now_s = self._clock.monotonic_s()
        for group in groups:
            if group.is_unfinished:
                numbers = [d.seq_no for d in (*group.refused, *group.done) if d.seq_no]
                lowest = min(numbers, default=1)
                known = self._unfinished.get(group.conversation_id, lowest)
                self._unfinished[group.conversation_id] = min(known, lowest)
            elif group.conversation_id not in self._unfinished:
                self._idle[group.conversation_id] = now_s

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

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._tend(), name="repair")

    async def stop(self) -> None:
        """Leave the list of nodes in order."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self._keyspace.one(plain(self._keys.nodes, b"ZREM", self._keys.nodes, self._node_id))
        except StoreError:
            pass  # the lease runs out by itself

    async def renew(self) -> None:
        """Say that we live."""
        key, until_ms = self._keys.nodes, self._clock.now_ms() + int(NODE_LEASE_S * 1000)
        await self._keyspace.one(plain(key, b"ZADD", key, until_ms, self._node_id))

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
        for conversation_id, lowest in list(self._unfinished.items()):
            await self._index_from(conversation_id, lowest)
            if self._unfinished.get(conversation_id) == lowest:
                del self._unfinished[conversation_id]
                self._idle[conversation_id] = self._clock.monotonic_s()

    async def _finish(self, conversation_id: str, node_id: str) -> None:
        key, field = self._keys.conv(conversation_id), f"open:{node_id}"
        numbers = await self._keyspace.one(plain(key, b"HGET", key, field))
        if numbers is not None:
            await self._index_from(conversation_id, int(numbers.split(b"-")[0]))
            await self._keyspace.one(plain(key, b"HDEL", key, field))
        self._count_repair("open", 1)
        log.info("finished work of a dead node in one conversation")

    async def _index_from(self, conversation_id: str, seq_no: int) -> None:
        roster = await self._access.load(conversation_id)
        after = seq_no - 1
        while roster is not None and (entries := await self._slots.after(conversation_id, after, PAGE_MAX)):
            (counts,) = await self._indexing.index([(roster, entries)], since=self.epoch_changes())
            await self._deliver.route(roster, entries, counts, {})
            after = entries[-1].seq_no
            if len(entries) < PAGE_MAX:
                return

    async def _tend(self) -> None:
        while True:
            try:
                await self.renew()
                await self.finish_dead()
                await self.finish_own()
                for _ in range(int(NODE_RENEW_S / CLEAR_OPEN_S)):
                    await asyncio.sleep(CLEAR_OPEN_S)
                    await self.clear_finished(CLEAR_OPEN_S)
            except (StoreError, Problem) as error:
                log.info("repair waits for the stores: %s", error)
                await asyncio.sleep(NODE_RENEW_S)
