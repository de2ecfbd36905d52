"""The pipeline: the stages of a batch, in their order.

    frame -> lane -> [admit -> members -> (review) -> number -> store -> index -> acknowledge -> route] -> devices

Each stage is a module of its name. It handles the whole batch with one keyspace round trip or one durable commit: a
message alone waits for no other, and under load the batch shares the costs. An acknowledged message is durable,
numbered and counted. Only a deployment with a before-send hook has the stage review.

The number decides the order: all entries of a conversation pass one lane of a node, one batch at a time (lanes.py).
The commit makes a message durable and unique. Every stage after it may run again: for a resend, on another node that
takes over the open work (takeover.py), or in a rebuild of the counts.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tidings.bounds import SEAM_S, STREAM_IDLE_S
from tidings.clock import Clock
from tidings.errors import Internal, Problem, StoreError, StoreUnavailable, cause_of
from tidings.messaging.deliver.route import Deliver
from tidings.messaging.people.mentions import Online, who_is_here
from tidings.messaging.reading.inbox_rows import InboxRows
from tidings.messaging.send.acknowledge import Acknowledge
from tidings.messaging.send.admit import Admit
from tidings.messaging.send.batch import Batch, BatchGroup
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.index import Index
from tidings.messaging.send.members import Members
from tidings.messaging.send.number import Number
from tidings.messaging.send.open_work import OpenWork
from tidings.messaging.send.review import Review
from tidings.messaging.send.store import Store
from tidings.model import KINDS, Entry
from tidings.tasks import Listeners

log = logging.getLogger("tidings.send")


@dataclass(eq=False, repr=False, kw_only=True)
class Pipeline:
    members: Members
    admit: Admit
    number: Number
    store: Store
    index: Index
    acknowledge: Acknowledge
    deliver: Deliver
    rows: InboxRows
    open_work: OpenWork
    clock: Clock
    online: Online
    entries_stored: Listeners[[str, Sequence[Entry]]]
    review: Review | None = None

    async def run(self, batch: Batch) -> None:
        """Take a batch through the stages. Whatever happens, each draft is answered once."""
        self.deliver.expect(batch.ids)
        await self._guarded(batch, self._stages)

    async def finish(self, batch: Batch) -> None:
        """Take a group that was put aside through the rest of the stages."""
        await self._guarded(batch, self._wait_and_finish)

    async def _guarded(self, batch: Batch, stages: Callable[[Batch], Awaitable[None]]) -> None:
        try:
            await stages(batch)
        except StoreError as error:
            log.warning("batch refused", extra=cause_of(error, drafts=len(batch.ids)))
            await self._give_up(batch, StoreUnavailable())
        except Exception:
            log.exception("batch failed", extra={"drafts": len(batch.ids)})
            await self._give_up(batch, Internal())
        finally:
            self.deliver.settled(batch.ids)

    async def _stages(self, batch: Batch) -> None:
        self.open_work.begin(batch)  # a failover from here on is noticed
        await self.admit.check(batch)  # only senders near their limit cost a round trip of their own
        await self.members.load(batch)  # a sender who is not a member is refused here, and has paid for it
        if self.review is not None:
            batch.put_aside_unreviewed(self.review.concerns)  # a group that waits for a verdict holds up nobody else
        await self.number.assign(batch)  # one round trip: the budget of the others, the open work, the numbers
        batch.put_aside()  # a group above a member change that is under way holds up nobody else
        if asking := batch.asking_here:
            await self._find_here(asking)  # a mention of those who are here is stored with their names
        await self.store.commit(batch)  # one durable commit: the log decides, and duplicates are recognised
        batch.put_aside()  # the same for groups that were numbered again
        await self._finish(batch)

    async def _wait_and_finish(self, batch: Batch) -> None:
        if batch.is_unreviewed and self.review is not None:
            self.open_work.begin(batch)
            await self.review.judge(batch)  # what is refused here has no number
            await self.number.assign(batch)
            await self._find_here(batch.asking_here)
            await self.store.commit(batch)
        while any(group.awaited is not None for group in batch.live):
            await self.members.wait(batch)
            await self._find_here(batch.asking_here)
            await self.store.commit(batch)
        await self._finish(batch)

    async def _find_here(self, asking: Sequence[tuple[BatchGroup, Draft]]) -> None:
        for group, draft in asking:
            if group.member_list is not None:
                draft.here = await who_is_here(self.online, group.member_list.members)

    async def _finish(self, batch: Batch) -> None:
        await self.members.reload(batch)  # a stored member change takes effect here
        await self.index.update(batch)  # one round trip: inboxes, unread counts, leases, notifications that are due
        self.acknowledge.reply(batch)  # from here on the batch is durable, numbered and counted
        await self._route(batch)  # to the devices of the members, on every node
        self.open_work.close(batch)  # nothing is left for another node to finish
        await self.admit.give_back(batch)  # a resend is free, and so is a send that failed for now

    async def _route(self, batch: Batch) -> None:
        since_ms = self.clock.now_ms() - int((STREAM_IDLE_S + SEAM_S) * 1000)
        done = batch.done
        for group in done:
            self.entries_stored(group.conversation_id, group.entries())
            news = group.news(since_ms)
            if not news or group.member_list is None:
                continue
            is_counted = any(entry.counts or KINDS[entry.kind].uncounts for entry in news)
            if is_counted and not group.member_list.head.large_ms:
                self.rows.record(group.member_list, news[-1].seq_no, group.counts)
            await self.deliver.route(group.member_list, news, group.counts, group.origins())
        if done:
            batch.lap("route")

    async def _give_up(self, batch: Batch, problem: Problem) -> None:
        """The batch cannot go on: a sender without an answer is told to try again, and its numbers stay open work."""
        for group in batch.groups:
            group.leave_undecided()
        self.acknowledge.refuse_rest(batch, problem)
        self.open_work.close(batch)
        await self.admit.give_back(batch)
