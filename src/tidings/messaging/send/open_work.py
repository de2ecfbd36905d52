"""Open work: the journal of a node's unfinished batches, so that another node can finish them.

The number script writes `open:<node>` into the conversation in the moment in which the numbers exist. In the same
round trip the node adds the conversation to its open set. Both are cleared a little after the batch was routed. So the
open set of a dead node names every conversation in which an entry may be stored and not indexed; takeover.py reads it.

The journal also remembers what this node indexed in the last minute. While two primaries exist, a node may index on the
one that is about to go, and the marks of the other stay warm without it. When the node meets another epoch, takeover.py
indexes and routes that minute again (docs/decisions/0012).

A batch of our own that failed half-way leaves undecided numbers: they may lack their row, or its index. They stay open
until takeover.py has decided them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidings.bounds import NODE_LEASE_S, REINDEX_MAX, REINDEX_S
from tidings.clock import Clock
from tidings.messaging.deliver.route import Deliver
from tidings.messaging.send.batch import Batch, BatchGroup
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.keys import Keys


class Undecided(msgspec.Struct, frozen=True):
    """Numbers of ours with an unknown outcome, and since when."""

    first: int
    last: int
    since_s: float


class OpenWork:
    def __init__(
        self,
        keyspace: Keyspace,
        keys: Keys,
        deliver: Deliver,
        lease_now_ms: Callable[[], int],
        clock: Clock,
        node_id: str,
    ) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._deliver = deliver
        self._lease_now_ms = lease_now_ms
        self._clock = clock
        self._node_id = node_id
        self._epoch_changes = 0
        self._opened_in = 0  # epoch changes when the set was written: it may be lost with the epoch
        self._opened: set[str] = set()  # conversations in our open set
        self._busy: set[str] = set()  # of these, with a batch under way
        self._closed: dict[str, float] = {}  # of these, finished, and when
        self.undecided: dict[str, Undecided] = {}
        self._indexed: dict[str, int] = {}  # conversation -> the first number that we indexed since `_indexed_s`
        self._indexed_before: dict[str, int] = {}  # the same for the time before
        self._indexed_s = clock.monotonic_s()
        self.suspect: dict[str, int] = {}  # conversation -> from here on the new primary may lack our index

    # --- epochs -----------------------------------------------------------------------------------

    def epoch_changed(self, old: str, new: str) -> None:
        """A primary of the keyspace has begun another epoch: it may have lost its latest writes."""
        self._epoch_changes += 1
        for indexed in (self._indexed_before, self._indexed):
            for id_, first in indexed.items():
                self.suspect[id_] = min(first, self.suspect.get(id_, first))

    def epoch_changes(self) -> int:
        """The number of epoch changes. A step that sees another number at its end must be done again."""
        return self._epoch_changes

    # --- what is open -----------------------------------------------------------------------------

    def begin(self, batch: Batch) -> None:
        batch.epoch_changes = self.epoch_changes()

    def open_from(self, conversation_id: str) -> int:
        """The lowest undecided number of ours in the conversation, 0 if there is none."""
        undecided = self.undecided.get(conversation_id)
        return undecided.first if undecided else 0

    def opening(self, groups: Sequence[BatchGroup]) -> list[Call[Any]]:
        """The call that adds the conversations of a batch to our open set. It goes with the numbers."""
        if self._opened_in != self.epoch_changes():
            self._opened_in = self.epoch_changes()
            self._opened.clear()
        ids = [group.conversation_id for group in groups]
        self._busy.update(ids)
        for id_ in ids:
            self._closed.pop(id_, None)
        fresh = [id_ for id_ in ids if id_ not in self._opened]
        return [self._add(fresh)] if fresh else []

    def reopening(self, groups: Sequence[BatchGroup]) -> list[Call[Any]]:
        """The same for groups whose counters were missing: the keyspace may have lost everything.

        No node reads the open set of a node that is not on the list of nodes, and this one may die before it renews
        its lease. So the calls put it on the list too.
        """
        nodes, until_ms = self._keys.nodes, self._lease_now_ms() + int(NODE_LEASE_S * 1000)
        listed = plain(nodes, b"ZADD", nodes, b"NX", until_ms, self._node_id)
        return [listed, self._add([group.conversation_id for group in groups])]

    def opened(self, groups: Sequence[BatchGroup]) -> None:
        """The keyspace has the groups in our open set."""
        self._opened.update(group.conversation_id for group in groups)

    def close(self, batch: Batch) -> None:
        """The batch is routed or given up. `clear_closed` takes it off the open set later, many at a time."""
        now_s = self._clock.monotonic_s()
        if now_s - self._indexed_s > REINDEX_S or len(self._indexed) > REINDEX_MAX:
            self._indexed, self._indexed_before, self._indexed_s = {}, self._indexed, now_s
        for group in batch.live:
            id_ = group.conversation_id
            self._busy.discard(id_)
            if group.undecided is not None:
                first, last = group.undecided
                before = self.undecided.get(id_, Undecided(first, last, now_s))
                self.recheck_from(id_, first)
                self.undecided[id_] = Undecided(min(first, before.first), max(last, before.last), before.since_s)
            if id_ not in self.undecided:
                self._closed[id_] = now_s
            if id_ not in self._indexed and (fresh := [draft.seq_no for draft in group.done if not draft.is_duplicate]):
                self._indexed[id_] = min(fresh)

    def recheck_from(self, conversation_id: str, seq_no: int) -> None:
        """From this number on the log may have entries that no lane has routed: delivery reads them there."""
        self._deliver.recheck_from(conversation_id, seq_no)

    async def clear_closed(self, older_than_s: float = 0.0) -> None:
        """Take work that was closed long enough ago off the open set. Raises Unavailable."""
        before_s = self._clock.monotonic_s() - older_than_s
        ids = [id_ for id_, at_s in self._closed.items() if at_s <= before_s]
        if not ids:
            return
        for id_ in ids:
            del self._closed[id_]
        self._opened.difference_update(ids)
        field, key = f"open:{self._node_id}", self._keys.open(self._node_id)
        conv = self._keys.conv
        calls: list[Call[object]] = [plain(conv(id_), b"HDEL", conv(id_), field) for id_ in ids]
        await self._keyspace.run([*calls, plain(key, b"SREM", key, *ids)])

    # --- for the takeover of our own work -----------------------------------------------------------

    def decided(self, conversation_id: str, undecided: Undecided) -> None:
        """These numbers have their rows or voids, and are indexed."""
        if self.undecided.get(conversation_id) == undecided:
            del self.undecided[conversation_id]
            if conversation_id not in self._busy:
                self._closed[conversation_id] = self._clock.monotonic_s()

    def is_busy(self, conversation_id: str) -> bool:
        return conversation_id in self._busy

    async def left_over(self) -> list[str]:
        """Compare our open set with the conversations that we think are in it. Returns those we know nothing of.

        Another node that took us for dead has finished our work and deleted the set. Or an earlier life of this node,
        under the same name, left something in it.
        """
        key, before = self._keys.open(self._node_id), set(self._opened)
        there = {name.decode() for name in await self._keyspace.one(plain(key, b"SMEMBERS", key))}
        self._opened -= before - there
        return list(there - self._opened - self._busy)

    def _add(self, conversation_ids: Sequence[str]) -> Call[Any]:
        key = self._keys.open(self._node_id)
        return plain(key, b"SADD", key, *conversation_ids)
