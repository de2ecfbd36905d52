"""Where drafts wait for their turn: a `Lane` has those that wait and the batch that is under way, one batch at a time.

A conversation belongs to one lane of a node, and `gather` takes from its front, so what a device sends keeps its order.
send.py runs the lanes; bounds.py says how much may wait in one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Set

from tidings.bounds import BATCH_ENTRIES_MAX, BATCH_FANOUT_MAX, GROUP_ENTRIES_MAX
from tidings.messaging.access import Access
from tidings.messaging.drafts import Draft

_LATER_MAX = 2 * BATCH_ENTRIES_MAX  # drafts passed over while a batch is gathered: a flood must not be walked each time


class Lane:
    """Drafts that wait, and the batch that is under way."""

    __slots__ = ("task", "under_way", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Draft] = deque()
        self.under_way: list[Draft] = []
        self.task: asyncio.Task[None] | None = None

    def abandon(self, origin: str, conversation_id: str, message_id: str) -> None:
        """Given up by its sender: if it is refused, nothing waits behind it."""
        for drafts in (self.waiting, self._all_under_way()):
            for draft in drafts:
                if draft.message_id == message_id and draft.origin == origin:
                    draft.is_abandoned |= draft.conversation_id == conversation_id

    def forget(self, origins: Set[str]) -> list[Draft]:
        """These connections are gone, and their holds with them: what they had queued is taken out."""
        queued = [draft for draft in self.waiting if draft.origin in origins]
        if queued:
            self.waiting = deque(draft for draft in self.waiting if draft.origin not in origins)
        for draft in self._all_under_way():
            draft.is_abandoned |= draft.origin in origins
        return queued

    def _all_under_way(self) -> list[Draft]:
        return [one for first in self.under_way for one in (first, *(first.followers or ()))]


def gather(waiting: deque[Draft], access: Access) -> list[Draft]:
    """The next batch: in order, bounded in entries, in entries of one conversation, and in fan-out."""
    if len(waiting) == 1:
        return [waiting.popleft()]
    batch: list[Draft] = []
    later: list[Draft] = []
    counts: dict[str, int] = {}
    closed: set[str] = set()
    rewritten: set[tuple[str, int]] = set()
    fan_out = 0
    while waiting and len(batch) < BATCH_ENTRIES_MAX and fan_out < BATCH_FANOUT_MAX and len(later) < _LATER_MAX:
        draft = waiting.popleft()
        id_ = draft.conversation_id
        if id_ in closed or (draft.kind != "message" and id_ in counts and not _may_join(draft, rewritten)):
            closed.add(id_)
            later.append(draft)
            continue
        if id_ not in counts:
            roster = access.cached(id_)
            fan_out += len(roster.members) if roster is not None else 1
        counts[id_] = count = counts.get(id_, 0) + 1
        batch.append(draft)
        if draft.target is not None:
            rewritten.add((id_, draft.target.seq_no))
        if count >= GROUP_ENTRIES_MAX or draft.kind == "member":
            closed.add(id_)  # a member change is alone in its commit
    waiting.extendleft(reversed(later))
    return batch


def _may_join(draft: Draft, rewritten: set[tuple[str, int]]) -> bool:
    """A member change begins a group of its own; a message is rewritten once in a commit, so the next one sees it."""
    if draft.target is not None:
        return (draft.conversation_id, draft.target.seq_no) not in rewritten
    return draft.kind != "member"
