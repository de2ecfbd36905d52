"""Takeover: a node finishes the work that a dead node left open, and its own once the stores answer again.

Entries that were stored are indexed and routed again, which is idempotent. Numbers without an entry are closed by
voids, so a node that was only slow loses its number and takes another one. open_work.py records this work.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from tidings.bounds import GAP_CLOSE_S, NODE_LEASE_S, PAGE_MAX, REINDEX_S, RESUME_ENTRIES_MAX
from tidings.clock import Clock
from tidings.messaging.access import Access
from tidings.messaging.deliver.route import Deliver
from tidings.messaging.log import NEWEST, Log
from tidings.messaging.send.index import Index
from tidings.messaging.send.open_work import OpenWork
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.ports import Messages

logger = logging.getLogger("tidings.takeover")
_LEASE_MS = int(NODE_LEASE_S * 1000)
_TOGETHER = 8  # conversations that are indexed again at the same time


@dataclass(eq=False, repr=False, kw_only=True)
class Takeover:
    keyspace: Keyspace
    keys: Keys
    access: Access
    log: Log
    messages: Messages
    index: Index
    deliver: Deliver
    open_work: OpenWork
    lease_now_ms: Callable[[], int]
    clock: Clock
    node_id: str
    count_repair: Callable[[str, int], None]
    left_behind: Callable[[str], Awaitable[None]]

    async def finish_dead(self) -> int:
        """Finish the work of every node whose lease ran out. Returns how many conversations there were."""
        key, now_ms = self.keys.nodes, self.lease_now_ms()
        calls = [
            plain(key, b"ZRANGEBYSCORE", key, b"-inf", now_ms),
            plain(key, b"ZRANGEBYSCORE", key, now_ms + 2 * _LEASE_MS, b"+inf"),
        ]
        dead, too_long = await self.keyspace.run(calls)
        await self._shorten(too_long, now_ms + _LEASE_MS)
        done = 0
        for node_id in (name.decode() for name in dead):
            if node_id == self.node_id:
                continue
            opened = self.keys.open(node_id)
            ids = [name.decode() for name in await self.keyspace.one(plain(opened, b"SMEMBERS", opened))]
            ids.sort(key=self._place)
            for start in range(0, len(ids), _TOGETHER):
                await asyncio.gather(*(self._finish(id_, node_id) for id_ in ids[start : start + _TOGETHER]))
            done += len(ids)
            await self.keyspace.run([plain(opened, b"DEL", opened), plain(key, b"ZREM", key, node_id)])
        return done

    async def _shorten(self, nodes: Sequence[bytes], until_ms: int) -> None:
        """Shorten leases that end later than any lease can: the keyspace's clock was ahead when they were written.

        A node that lives renews its lease in time. The work of one that died would wait as long as the clock was ahead.
        """
        if nodes:
            ends = [part for name in nodes for part in (until_ms, name)]
            await self.keyspace.one(plain(self.keys.nodes, b"ZADD", self.keys.nodes, b"XX", *ends))

    def _place(self, conversation_id: str) -> int:
        """An order of our own: each of the nodes that are left begins with other conversations."""
        return zlib.crc32(f"{self.node_id} {conversation_id}".encode())

    async def finish_own(self) -> None:
        """Finish our own batches that failed half-way, and the work of an earlier life under the same name."""
        await self._finish_left_over()
        now_s = self.clock.monotonic_s()
        for conversation_id, undecided in list(self.open_work.undecided.items()):
            if now_s - undecided.since_s > GAP_CLOSE_S:
                await self.log.close(conversation_id, undecided.first, undecided.last)
            reached = await self._index_from(conversation_id, undecided.first)
            if reached >= undecided.last or await self.access.load(conversation_id) is None:
                self.open_work.decided(conversation_id, undecided)

    async def index_again(self) -> None:
        """Index and route again what another primary may lack, after the keyspace began another epoch."""
        suspect = self.open_work.suspect
        while together := list(islice(suspect.items(), _TOGETHER)):
            await asyncio.gather(*(self._index_from(id_, first) for id_, first in together))
            for id_, first in together:
                if suspect.get(id_) == first:
                    del suspect[id_]
            logger.info("indexed again", extra={"conversations": len(together), "cause": "another epoch"})

    async def _finish_left_over(self) -> None:
        key = self.keys.open(self.node_id)
        for conversation_id in await self.open_work.left_over():
            await self._finish(conversation_id, self.node_id)
            if not self.open_work.is_busy(conversation_id):
                await self.keyspace.one(plain(key, b"SREM", key, conversation_id))

    async def _finish(self, conversation_id: str, node_id: str) -> None:
        """Finish what a node left open in a conversation. Where the keyspace lost the numbers, all entries of the last
        minute are indexed. A conversation that another node has finished is not in the open set any more."""
        key, field, opened = self.keys.conv(conversation_id), f"open:{node_id}", self.keys.open(node_id)
        numbers = await self.keyspace.one(plain(key, b"HGET", key, field))
        if numbers is not None:
            first, last = map(int, numbers.split(b"-"))
            await self.log.close(conversation_id, first, last)
            await self._index_from(conversation_id, first)
            if node_id != self.node_id:  # a batch of our own may have begun there, and needs its place in our set
                await self.keyspace.one(plain(opened, b"SREM", opened, conversation_id))
            await self.keyspace.one(plain(key, b"HDEL", key, field))
        elif await self.keyspace.one(plain(opened, b"SISMEMBER", opened, conversation_id)):
            await self._index_from(conversation_id, await self._first_young(conversation_id))
        await self.left_behind(conversation_id)
        self.count_repair("open", 1)
        logger.info("open work finished", extra={"of_node": node_id})

    async def _first_young(self, conversation_id: str) -> int:
        since_ms, most = self.lease_now_ms() - int(REINDEX_S * 1000), RESUME_ENTRIES_MAX
        newest = await self.messages.page(conversation_id, after=0, before=NEWEST, limit=most, newest_first=True)
        return min((entry.seq_no for entry in newest if entry.sent_ms >= since_ms), default=NEWEST)

    async def _index_from(self, conversation_id: str, seq_no: int) -> int:
        """Index and route again the entries from seq_no on. Returns the number up to which everything is decided."""
        after = seq_no - 1
        while entries := await self.log.after(conversation_id, after, PAGE_MAX):
            await self.messages.catch_up(conversation_id, entries)
            member_list = await self.access.load(conversation_id)
            if member_list is None:
                break
            (counts,) = await self.index.index([(member_list, entries)], since=self.open_work.epoch_changes())
            await self.deliver.route(member_list, entries, counts, {})
            after = entries[-1].seq_no
            if len(entries) < PAGE_MAX:
                break
        return after
