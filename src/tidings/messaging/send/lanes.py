"""Lanes: the queues in front of the pipeline. `Sends` is the door to them for everything that gets a number.

While one batch of a lane is under way, the next one gathers. A conversation belongs to one lane of a node, and has a
queue of its own there, so the messages of a device keep their order. The conversations of a lane take turns: a busy one
delays another by one batch at most. bounds.py says how many bytes may wait, in a conversation and in a lane.

A group that must wait for a change of its members is put aside: the lane goes on, and that conversation alone waits.
A group with many members or entries is put aside too, because a whole batch waits for its slowest group.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Set
from itertools import count

from tidings.bounds import (
    BATCH_ENTRIES_MAX,
    BATCH_FANOUT_MAX,
    CONVERSATION_QUEUE_BYTES_MAX,
    GROUP_ENTRIES_MAX,
    GROUP_FANOUT_MAX,
    HOLD_MESSAGES_MAX,
    LANE_QUEUE_BYTES_MAX,
    LANES,
)
from tidings.clock import Clock
from tidings.errors import Problem, StoreUnavailable
from tidings.messaging.access import Access
from tidings.messaging.limits.held import Holds
from tidings.messaging.reading.inbox_rows import InboxRows
from tidings.messaging.send.acknowledge import Acknowledge
from tidings.messaging.send.batch import Batch, Measures, grouped
from tidings.messaging.send.draft import Answer, Companion, Draft, keyed_digest, size_of
from tidings.messaging.send.open_work import OpenWork
from tidings.messaging.send.pipeline import Pipeline
from tidings.model import Content, MemberChange, Sent
from tidings.tasks import Recent

_UNKNOWN_MEMBERS = 10  # of a conversation whose list is not in memory: a burst into it takes a batch of its own
_HEAVY_MAX = 8  # batches of one large group under way in a lane


class Queue(deque[Draft]):
    """The drafts of one conversation that wait, in the order of arrival."""

    __slots__ = ("abandoned", "size_bytes")

    def __init__(self) -> None:
        super().__init__()
        self.size_bytes = 0
        # (origin, message_id) -> the place up to which it was given up. A draft learns of it when it is taken.
        self.abandoned: Recent[tuple[str | None, str], int] | None = None

    def take(self) -> Draft:
        draft = self.popleft()
        if self.abandoned is not None:
            draft.is_abandoned |= self.abandoned.get((draft.origin, draft.message_id), 0) >= draft.place
        return draft

    def group(self, at_most: int) -> list[Draft]:
        """Take the next group. A member change has a commit of its own, and a commit changes no row beside twice."""
        taken = [self.take()]
        if taken[0].change is not None:
            return taken
        changed = _changed_by(taken[0])
        while self and len(taken) < at_most:
            draft = self[0]
            if draft.change is not None:
                break
            if draft.target is not None or draft.companion is not None:
                more = _changed_by(draft)
                if more & changed:
                    break
                changed |= more
            if len(taken) + len(changed) >= GROUP_ENTRIES_MAX:
                break
            taken.append(self.take())
        return taken


def _changed_by(draft: Draft) -> set[object]:
    """The rows beside its own that the commit of a draft changes: its target by number, its records by key."""
    changed: set[object] = set(draft.companion.keys) if draft.companion is not None else set()
    if draft.target is not None:
        changed.add(draft.target.seq_no)
    return changed


class Lane:
    """The drafts that wait, and those that are under way."""

    __slots__ = ("aside", "heavy", "queues", "size_bytes", "task", "under_way")

    def __init__(self) -> None:
        self.queues: OrderedDict[str, Queue] = OrderedDict()  # by conversation; the first has its turn
        self.size_bytes = 0
        self.under_way: list[Draft] = []
        self.aside: dict[str, list[Draft]] = {}  # conversations with a group that waits by itself, and its drafts
        self.heavy: set[str] = set()  # those of them whose group waits for nothing, and is aside because it is large
        self.task: asyncio.Task[None] | None = None

    def put(self, draft: Draft) -> bool:
        """Queue a draft. False: too much waits already, in its conversation or in the lane."""
        queue = self.queues.get(draft.conversation_id)
        if self.size_bytes >= LANE_QUEUE_BYTES_MAX:
            return False
        if queue is None:
            queue = self.queues[draft.conversation_id] = Queue()
        elif queue.size_bytes >= CONVERSATION_QUEUE_BYTES_MAX:
            return False
        size = draft.size_bytes = size_of(draft)
        queue.append(draft)
        queue.size_bytes += size
        self.size_bytes += size
        return True

    def gather(self, access: Access) -> tuple[list[Draft], list[list[Draft]]]:
        """Take the next batch, bounded in entries and in fan-out, and the large groups that take a batch each.

        A conversation with more to send comes after the others. One with a group aside keeps its drafts.
        """
        batch, heavy, fan_out = list[Draft](), list[list[Draft]](), 0
        for _ in range(len(self.queues)):
            if len(batch) >= BATCH_ENTRIES_MAX or fan_out >= BATCH_FANOUT_MAX:
                break
            id_, queue = self.queues.popitem(last=False)
            known = access.cached(id_)
            members = _UNKNOWN_MEMBERS if known is None else 1 if known.head.large_ms else len(known.members)
            is_heavy = members * min(len(queue), GROUP_ENTRIES_MAX) > GROUP_FANOUT_MAX
            if id_ not in self.aside and not (is_heavy and len(self.heavy) + len(heavy) >= _HEAVY_MAX):
                taken = queue.group(BATCH_ENTRIES_MAX - len(batch))
                self._took(queue, taken)
                if is_heavy:
                    heavy.append(taken)
                else:
                    fan_out += members
                    batch += taken
            if queue:
                self.queues[id_] = queue
        return batch, heavy

    def abandon(self, origin: str, conversation_id: str, message_id: str, place: int) -> None:
        """The sender gave the draft up: if it is refused, no later send waits behind it. The queue is not walked."""
        if (queue := self.queues.get(conversation_id)) is not None:
            if queue.abandoned is None:
                queue.abandoned = Recent(HOLD_MESSAGES_MAX)
            queue.abandoned.put((origin, message_id), place)
        for draft in self._all_under_way():
            if draft.message_id == message_id and draft.origin == origin:
                draft.is_abandoned |= draft.conversation_id == conversation_id

    def forget(self, origins: Set[str]) -> list[Draft]:
        """These connections are gone, and their holds with them. Takes out their queued drafts and returns them."""
        gone: list[Draft] = []
        for id_, queue in list(self.queues.items()):
            theirs = [draft for draft in queue if draft.origin in origins]
            if theirs:
                others = [draft for draft in queue if draft.origin not in origins]
                queue.clear()
                queue.extend(others)
                self._took(queue, theirs)
                gone += theirs
            if not queue:
                del self.queues[id_]
        for draft in self._all_under_way():
            draft.is_abandoned |= draft.origin in origins
        return gone

    def clear(self) -> list[Draft]:
        """Take out every draft that waits."""
        dropped = [draft for queue in self.queues.values() for draft in queue]
        self.queues.clear()
        self.size_bytes = 0
        return dropped

    def _took(self, queue: Queue, drafts: list[Draft]) -> None:
        size = sum([draft.size_bytes for draft in drafts])
        queue.size_bytes -= size
        self.size_bytes -= size

    def _all_under_way(self) -> Iterator[Draft]:
        for drafts in (self.under_way, *self.aside.values()):
            for first in drafts:
                yield first
                yield from first.followers or ()


class Sends:
    """The door to the pipeline: sends, edits, deletes and member changes."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        access: Access,
        holds: Holds,
        acknowledge: Acknowledge,
        rows: InboxRows,
        open_work: OpenWork,
        clock: Clock,
        measures: Measures,
        secret: str,
        accompany: Callable[[Draft], None],
        accompany_reply: Callable[[Draft], None],
    ) -> None:
        self._accompany = accompany  # gives a draft that concerns files the records of the files as its companion
        self._accompany_reply = accompany_reply  # the same for a quote, and for a reply in a thread
        self._secret = secret.encode()  # of the store, for the digests of contents
        self._pipeline = pipeline
        self._access = access
        self._holds = holds
        self._acknowledge = acknowledge
        self._rows = rows
        self._open_work = open_work
        self._clock = clock
        self._measures = measures
        self._lanes = [Lane() for _ in range(LANES)]
        self._places = count(1)
        self._finishing: set[asyncio.Task[None]] = set()  # groups that were put aside
        self._gone: set[str] = set()  # connections that closed in this turn of the event loop
        self._is_draining = False

    def submit(self, draft: Draft) -> None:
        """Queue a draft in its lane. Never blocks; the draft's reply is called once."""
        draft.place = draft.place or next(self._places)
        lane = self._lane_of(draft.conversation_id)
        if self._is_draining or not lane.put(draft):
            why = "the node is draining" if self._is_draining else "too much is waiting"
            self._acknowledge.refuse([draft], StoreUnavailable(why))
            return
        draft.arrived_s, draft.is_plain = self._clock.monotonic_s(), draft.says_a_text
        if not draft.is_plain and not draft.is_unread:
            self._find_companions(draft)
        if not draft.digest:
            draft.digest = keyed_digest(self._secret, draft.id_, draft.whole_digest())
        if lane.task is None:
            self._wake(lane)

    def _find_companions(self, draft: Draft) -> None:
        content = draft.content if draft.target is None else draft.target.content
        reply = draft.content if draft.target is None else draft.target
        if content is not None and content.files:
            self._accompany(draft)
        is_quote = draft.target is None and content is not None and content.reply_to is not None
        if is_quote or (reply is not None and reply.thread_seq is not None):
            self._accompany_reply(draft)

    def new_id(self) -> str:
        """A message_id for a sender who gave none."""
        return self._clock.random_id()

    async def send(
        self,
        sender_id: str,
        conversation_id: str,
        message_id: str | None,
        content: Content,
        timestamp: int | None = None,
        companion: Companion | None = None,
    ) -> Sent:
        """Send without a socket. Without a message_id one is made, and a retry is not safe. Raises Problem."""
        draft = Draft(
            sender_id=sender_id,
            conversation_id=conversation_id,
            message_id=message_id or self.new_id(),
            content=content,
            timestamp=timestamp,
            companion=companion,
        )
        return await self.complete(draft)

    async def change_members(
        self, user_id: str, conversation_id: str, change: MemberChange, *, is_invited: bool = False
    ) -> Sent:
        """The caller has authorized the change. Members may change meanwhile, so the lane checks it again."""
        draft = Draft(
            sender_id=user_id,
            conversation_id=conversation_id,
            message_id=self._clock.random_id(),
            kind="member",
            change=change,
            is_invited=is_invited,
        )
        return await (self.join(draft) if change.action == "added" else self.complete(draft))

    async def join(self, draft: Draft) -> Sent:
        """Complete a change that adds members. Raises Forbidden where one is banned, also while it is under way."""
        assert draft.change is not None
        id_ = draft.conversation_id

        def leave(user_id: str) -> Awaitable[object]:
            return self.change_members(user_id, id_, MemberChange("left", (user_id,)))

        return await self._access.banned.keep_out(id_, draft.change.user_ids, lambda: self.complete(draft), leave)

    async def complete(self, draft: Draft) -> Sent:
        """Queue a draft and wait for its answer. Raises Problem."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        draft.reply = lambda result: None if answer.done() else answer.set_result(result)
        self.submit(draft)
        result = await answer
        if isinstance(result, Problem):
            raise result
        return result

    def abandon(self, origin: str, conversation_id: str, message_id: str) -> None:
        """The sender gave a message up: it leaves its hold, and if it still waits it is refused in its turn."""
        self._lane_of(conversation_id).abandon(origin, conversation_id, message_id, next(self._places))
        self._holds.abandon(origin, conversation_id, message_id)

    def is_overfull(self, origin: str) -> bool:
        """Too many sends of this connection were refused to keep any more of them in order."""
        return bool(self._holds.held) and self._holds.is_overfull(origin)

    def forget(self, origin: str) -> None:
        """The connection is gone, and its queued drafts are not sent.

        Its client sends all of them again over the next connection, in order. Until then an earlier message that was
        refused must not be overtaken by a later one.
        """
        if not self._gone:  # where many connections close at once, the lanes are searched once for all of them
            asyncio.get_running_loop().call_soon(self._forget_gone)
        self._gone.add(origin)

    def _forget_gone(self) -> None:
        gone, self._gone = self._gone, set()
        for lane in self._lanes:
            self._acknowledge.refuse(lane.forget(gone), StoreUnavailable("the connection is gone"))
        for origin in gone:
            self._holds.forget(origin)

    def drop_queued(self) -> int:
        """Refuse every waiting draft: this node was stopped, and others may have gone on without it."""
        dropped = [draft for lane in self._lanes for draft in lane.clear()]
        self._acknowledge.refuse(dropped, StoreUnavailable("the node was stopped"))
        return len(dropped)

    async def drain(self) -> None:
        """Finish the queued drafts, and take no more."""
        self._is_draining = True
        while tasks := [lane.task for lane in self._lanes if lane.task is not None] + list(self._finishing):
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._rows.flush()
        await self._open_work.clear_closed()

    def _lane_of(self, conversation_id: str) -> Lane:
        return self._lanes[zlib.crc32(conversation_id.encode()) % len(self._lanes)]

    def _wake(self, lane: Lane) -> None:
        if lane.task is None and lane.queues:
            lane.task = asyncio.get_running_loop().create_task(self._run(lane), name="lane")

    async def _run(self, lane: Lane) -> None:
        try:
            while any(taken := lane.gather(self._access)):
                lane.under_way, heavy = taken
                for drafts in heavy:
                    lane.heavy.add(drafts[0].conversation_id)
                    self._put_aside(lane, drafts, self._pipeline.run, self._batch_of(drafts))
                if lane.under_way:
                    batch = self._batch_of(lane.under_way)
                    await self._pipeline.run(batch)
                    self._follow_up(lane, batch)
        finally:
            lane.task, lane.under_way = None, []

    def _batch_of(self, drafts: list[Draft]) -> Batch:
        self._measures.batch_size.observe(len(drafts))
        return Batch(grouped(drafts), self._measures, self._clock.monotonic_s)

    def _put_aside(self, lane: Lane, drafts: list[Draft], run: Callable[[Batch], Awaitable[None]], part: Batch) -> None:
        """Take one group through the pipeline by itself, beside the lane."""
        lane.aside[part.groups[0].conversation_id] = drafts  # empty where all were refused after they got numbers
        task = asyncio.get_running_loop().create_task(self._finish(lane, run, part), name="lane, aside")
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    def _follow_up(self, lane: Lane, batch: Batch) -> None:
        """Queue the drafts that must be tried again, and go on with the groups that were put aside."""
        for draft in batch.again:
            if not lane.put(draft):
                self._acknowledge.refuse([draft], StoreUnavailable("too much is waiting"))
        for part in batch.aside:
            (group,) = part.groups
            self._put_aside(lane, list(group.drafts), self._pipeline.finish, part)

    async def _finish(self, lane: Lane, run: Callable[[Batch], Awaitable[None]], part: Batch) -> None:
        (group,) = part.groups
        try:
            await run(part)
        finally:
            del lane.aside[group.conversation_id]
            lane.heavy.discard(group.conversation_id)
        self._follow_up(lane, part)
        self._wake(lane)
