"""Waiting receipts: the queue between a client's word and the tables, bounded for each user and for all together.

The last value per member and conversation counts. Receipts of conversations whose member list this node has come first.
Others may name conversations that do not exist, so they come last and a user has few of them: one user who makes
receipts up never pushes out those of others. Receipts of a large conversation wait longer, so that many fold into one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from tidings.bounds import (
    RECEIPT_LARGE_PASSES,
    RECEIPTS_PER_USER_MAX,
    RECEIPTS_UNKNOWN_PER_USER_MAX,
    RECEIPTS_WAITING_MAX,
)

Key = tuple[str, str]  # conversation_id, user_id
Waiting = dict[Key, tuple[int, int]]  # delivered, read


class _Queue:
    """Receipts of one class, and how many of them each user has."""

    def __init__(self, per_user_max: int) -> None:
        self._per_user_max = per_user_max
        self._per_user: dict[str, int] = {}
        self.marks: Waiting = {}

    def put(self, key: Key, delivered: int, read: int) -> None:
        if key not in self.marks:
            count = self._per_user.get(key[1], 0)
            if count >= self._per_user_max or len(self.marks) >= RECEIPTS_WAITING_MAX:
                return  # a lost receipt is sent again with the next
            self._per_user[key[1]] = count + 1
        earlier = self.marks.get(key, (0, 0))
        self.marks[key] = (max(delivered, earlier[0]), max(read, earlier[1]))

    def take(self, keys: Iterable[Key]) -> Waiting:
        taken = {key: self.marks.pop(key) for key in list(keys)}
        for _, user_id in taken:
            self._per_user[user_id] -= 1
            if not self._per_user[user_id]:
                del self._per_user[user_id]
        return taken


class WaitingReceipts:
    def __init__(self) -> None:
        self._small = _Queue(RECEIPTS_PER_USER_MAX)
        self._unknown = _Queue(RECEIPTS_UNKNOWN_PER_USER_MAX)
        self._large = _Queue(RECEIPTS_PER_USER_MAX)
        self._passes: dict[str, int] = {}  # large conversation -> passes since its first receipt that waits

    def __len__(self) -> int:
        return len(self._small.marks) + len(self._unknown.marks) + len(self._large.marks)

    def __contains__(self, key: Key) -> bool:
        return any(key in queue.marks for queue in (self._small, self._unknown, self._large))

    def put(self, key: Key, delivered: int, read: int) -> None:
        """Add a receipt of a conversation that this node knows."""
        self._small.put(key, delivered, read)

    def put_unknown(self, key: Key, delivered: int, read: int) -> None:
        """Add a receipt of a conversation that this node does not know."""
        self._unknown.put(key, delivered, read)

    def put_large(self, key: Key, delivered: int, read: int) -> None:
        """Add a receipt of a conversation with many members."""
        self._large.put(key, delivered, read)
        self._passes.setdefault(key[0], 0)

    def begin_pass(self) -> None:
        for conversation_id in self._passes:
            self._passes[conversation_id] += 1

    def take(self, most: int, *, is_all: bool) -> Waiting:
        """Take the receipts that are written next. `is_all`: those of large conversations too, whether due or not."""
        for queue in (self._small, self._unknown):
            if queue.marks:
                return queue.take(islice(queue.marks, most))
        due = {id_ for id_, passes in self._passes.items() if is_all or passes >= RECEIPT_LARGE_PASSES}
        taken = self._large.take([key for key in self._large.marks if key[0] in due]) if due else {}
        for conversation_id in due:
            del self._passes[conversation_id]
        return taken
