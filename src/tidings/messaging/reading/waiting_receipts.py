"""Waiting receipts: the queue between a client's word and the tables, bounded for each user and for all together.

The last value per member and conversation counts. Receipts of conversations whose member list this node has come first.
Others may name conversations that do not exist, so they come last and a user has few of them: one user who makes
receipts up never pushes out those of others. Receipts of a large conversation wait longer, so that many fold into one.
A client that wants an answer gets it when the tables have its receipts, so answers wait here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from tidings.bounds import (
    RECEIPT_LARGE_PASSES,
    RECEIPTS_PER_USER_MAX,
    RECEIPTS_UNKNOWN_PER_USER_MAX,
    RECEIPTS_WAITING_MAX,
)

Key = tuple[str, str]  # conversation_id, user_id
Waiting = dict[Key, tuple[int, int]]  # delivered, read


class Answer:
    """The answer to some receipts of one client: given once, when the last is written or when the first is refused."""

    __slots__ = ("_left", "_tell")

    def __init__(self, count: int, tell: Callable[[bool], None]) -> None:
        self._left = count
        self._tell = tell

    def settle(self, is_written: bool) -> None:
        """Take the outcome of one receipt."""
        if self._left > 0:
            self._left = self._left - 1 if is_written else 0
            if not self._left:
                self._tell(is_written)


class Taken(NamedTuple):
    """Receipts to be written now, and the answers that wait for them."""

    marks: Waiting
    answers: dict[Key, list[Answer]]

    def settle(self, is_written: bool) -> None:
        """Give all of them the outcome."""
        for answers in self.answers.values():
            for answer in answers:
                answer.settle(is_written)

    def apart(self) -> list[Taken]:
        """Return the receipts of each conversation by themselves."""
        parts: dict[str, Taken] = {}
        for key, marks in self.marks.items():
            part = parts.setdefault(key[0], Taken({}, {}))
            part.marks[key] = marks
            if key in self.answers:
                part.answers[key] = self.answers[key]
        return list(parts.values())


class _Queue:
    """Receipts of one class, and how many of them each user has."""

    def __init__(self, per_user_max: int) -> None:
        self._per_user_max = per_user_max
        self._per_user: dict[str, int] = {}
        self._answers: dict[Key, list[Answer]] = {}
        self.marks: Waiting = {}

    def put(self, key: Key, delivered: int, read: int, answer: Answer | None) -> None:
        """Add a receipt. Where too many wait it is lost: the client hears of it, or sends it again with the next."""
        if key not in self.marks:
            count = self._per_user.get(key[1], 0)
            if count >= self._per_user_max or len(self.marks) >= RECEIPTS_WAITING_MAX:
                if answer is not None:
                    answer.settle(False)
                return
            self._per_user[key[1]] = count + 1
        earlier = self.marks.get(key, (0, 0))
        self.marks[key] = (max(delivered, earlier[0]), max(read, earlier[1]))
        if answer is not None:
            self._answers.setdefault(key, []).append(answer)

    def take(self, keys: Iterable[Key]) -> Taken:
        taken = {key: self.marks.pop(key) for key in list(keys)}
        for _, user_id in taken:
            self._per_user[user_id] -= 1
            if not self._per_user[user_id]:
                del self._per_user[user_id]
        waiting = self._answers
        return Taken(taken, {key: waiting.pop(key) for key in taken if key in waiting} if waiting else {})


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

    def put(self, key: Key, delivered: int, read: int, answer: Answer | None = None) -> None:
        """Add a receipt of a conversation that this node knows."""
        self._small.put(key, delivered, read, answer)

    def put_unknown(self, key: Key, delivered: int, read: int, answer: Answer | None = None) -> None:
        """Add a receipt of a conversation that this node does not know, or of somebody whom it does not know there."""
        self._unknown.put(key, delivered, read, answer)

    def put_large(self, key: Key, delivered: int, read: int, answer: Answer | None = None) -> None:
        """Add a receipt of a conversation with many members."""
        self._large.put(key, delivered, read, answer)
        self._passes.setdefault(key[0], 0)

    def begin_pass(self) -> None:
        for conversation_id in self._passes:
            self._passes[conversation_id] += 1

    def take(self, most: int, *, is_all: bool) -> Taken:
        """Take the receipts that are written next. `is_all`: those of large conversations too, whether due or not."""
        for queue in (self._small, self._unknown):
            if queue.marks:
                return queue.take(islice(queue.marks, most))
        due = {id_ for id_, passes in self._passes.items() if is_all or passes >= RECEIPT_LARGE_PASSES}
        taken = self._large.take([key for key in self._large.marks if key[0] in due] if due else ())
        for conversation_id in due:
            del self._passes[conversation_id]
        return taken
