"""The way of a message: a pipeline of batches.

    frame -> decode -> member? -> [admit -> number -> store -> index -> acknowledge -> route]  lane = hash(conversation)

While one batch of a lane is under way the next one gathers, and each stage handles the whole batch with one keyspace
round trip or one durable commit: alone, a message waits for nobody; under load, costs are shared. All entries of a
conversation pass through one lane of a node, one batch at a time, so a device's messages keep their order.

What is acknowledged is durable, numbered and counted. Ordering: the number (numbering.py). Idempotency and durability:
the commit (storing.py). Everything after it is idempotent and is done again by a resend, by repair.py for a node that
died, or by a rebuild.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Sequence
from itertools import count
from typing import Any

from tidings.bounds import LANE_QUEUE_MAX, LANES, SEAM_S, STREAM_IDLE_S
from tidings.clock import Clock
from tidings.errors import Internal, Problem, StoreError, StoreUnavailable
from tidings.messaging.access import Access, Roster, check
from tidings.messaging.admitting import Admitting, Asking
from tidings.messaging.answering import Answering
from tidings.messaging.commits import check_change
from tidings.messaging.deliver import Deliver
from tidings.messaging.drafts import BatchGroup, Draft, grouped
from tidings.messaging.holds import Holds
from tidings.messaging.indexing import Indexing
from tidings.messaging.lanes import Lane, gather
from tidings.messaging.numbering import Numbering
from tidings.messaging.repair import Repair
from tidings.messaging.rows import Rows
from tidings.messaging.stopwatch import Measures, Stopwatch
from tidings.messaging.storing import Storing
from tidings.model import Entry, MemberChange, Sent, digest_of
from tidings.stores.ports import Conversations, preview_of
from tidings.stores.scripts import Indexed

log = logging.getLogger("tidings.send")


class Sends:
    """Everything that gets a number goes through here: sends, edits, deletes and member changes."""

    def __init__(
        self,
        *,
        access: Access,
        holds: Holds,
        answering: Answering,
        admitting: Admitting,
        numbering: Numbering,
        storing: Storing,
        indexing: Indexing,
        deliver: Deliver,
        rows: Rows,
        repair: Repair,
        conversations: Conversations,
        clock: Clock,
        measures: Measures,
    ) -> None:
        self._access = access
        self._holds = holds
        self._answering = answering
        self._admitting = admitting
        self._numbering = numbering
        self._storing = storing
        self._indexing = indexing
        self._deliver = deliver
        self._rows = rows
        self._repair = repair
        self._conversations = conversations
        self._clock = clock
        self._measures = measures
        self._lanes = [Lane() for _ in range(LANES)]
        self._places = count(1)
        self._gone: set[str] = set()  # connections that went in this turn of the loop
        self._is_draining = False

    # --- what callers see -------------------------------------------------------------------------

    def submit(self, draft: Draft) -> None:
        """Queue a draft in its lane. Never blocks; the draft's reply is called once."""
        draft.place = draft.place or next(self._places)
        lane = self._lane_of(draft.conversation_id)
        if self._is_draining or len(lane.waiting) >= LANE_QUEUE_MAX:
            why = "the node is draining" if self._is_draining else "too much is waiting"
            self._answering.refuse([draft], StoreUnavailable(why))
            return
        draft.arrived_s = self._clock.monotonic_s()
        if not draft.digest:
            draft.digest = digest_of(draft.text or "")
        lane.waiting.append(draft)
        if lane.task is None:
            lane.task = asyncio.get_running_loop().create_task(self._run(lane), name="lane")

    async def send(
        self, sender_id: str, conversation_id: str, message_id: str, text: str, timestamp: int | None = None
    ) -> Sent:
        """A send without a socket. Raises Problem."""
        ids = {"sender_id": sender_id, "conversation_id": conversation_id, "message_id": message_id}
        return await self.numbered(**ids, text=text, timestamp=timestamp)

    async def change_members(self, user_id: str, conversation_id: str, change: MemberChange) -> Sent:
        """The caller has authorized; what changed meanwhile is checked again in the lane."""
        return await self.numbered(
            sender_id=user_id,
            conversation_id=conversation_id,
            message_id=self._clock.random_id(),
            kind="member",
            change=change,
        )

    async def numbered(self, **fields: Any) -> Sent:
        """Anything that gets a number, without a socket: the fields of its draft. Raises Problem."""
        answer: asyncio.Future[Sent | Problem] = asyncio.get_running_loop().create_future()
        self.submit(Draft(reply=lambda result: None if answer.done() else answer.set_result(result), **fields))
        result = await answer
        if isinstance(result, Problem):
            raise result
        return result

    def abandon(self, origin: str, conversation_id: str, message_id: str) -> None:
        """Given up by its sender: what waits is refused in its turn, and nothing of it is put into a hold."""
        self._lane_of(conversation_id).abandon(origin, conversation_id, message_id)
        self._holds.abandon(origin, conversation_id, message_id)

    def is_overfull(self, origin: str) -> bool:
        """So much of this connection was refused that no more of it can be kept in order."""
        return self._holds.is_overfull(origin)

    def forget(self, origin: str) -> None:
        """The connection is gone. What it had queued is not sent: its client sends all of that again over the next one,
        in order, and an earlier message that was refused meanwhile must not be overtaken."""
        if not self._gone:  # where many go at once the lanes are looked through once for all of them
            asyncio.get_running_loop().call_soon(self._forget_gone)
        self._gone.add(origin)

    def _forget_gone(self) -> None:
        gone, self._gone = self._gone, set()
        for lane in self._lanes:
            self._answering.refuse(lane.forget(gone), StoreUnavailable("the connection is gone"))
        for origin in gone:
            self._holds.forget(origin)

    def drop_queued(self) -> int:
        """Refuse what waits: this node was stopped, and others may have gone on without it."""
        dropped = [draft for lane in self._lanes for draft in lane.waiting]
        for lane in self._lanes:
            lane.waiting.clear()
        self._answering.refuse(dropped, StoreUnavailable("the node was stopped"))
        return len(dropped)

    async def drain(self) -> None:
        """Finish what is queued, take nothing more."""
        self._is_draining = True
        tasks = [lane.task for lane in self._lanes if lane.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._rows.flush()
        await self._repair.clear_finished()

    def _lane_of(self, conversation_id: str) -> Lane:
        return self._lanes[zlib.crc32(conversation_id.encode()) % LANES]

    # --- the pipeline -----------------------------------------------------------------------------

    async def _run(self, lane: Lane) -> None:
        try:
            while lane.waiting:
                lane.under_way = gather(lane.waiting, self._access)
                await self._batch(lane.under_way)
        finally:
            lane.task, lane.under_way = None, []

    async def _batch(self, drafts: list[Draft]) -> None:
        """One batch, from admit to route. Whatever happens, each draft is answered once."""
        groups = grouped(drafts)
        ids = [draft.id_ for draft in drafts]
        self._deliver.expect(ids)
        self._measures.batch_size.observe(len(drafts))
        try:
            await self._stages(groups)
        except StoreError as error:
            log.warning("a batch was refused: %s", error)
            self._abandon(groups, StoreUnavailable())
        except Exception:
            log.exception("a batch failed")
            self._abandon(groups, Internal())
        finally:
            self._deliver.settled(ids)

    async def _stages(self, groups: list[BatchGroup]) -> None:
        epoch_changes = self._repair.epoch_changes()
        watch = Stopwatch(self._clock.monotonic_s, self._measures.stage_seconds)
        await self._rosters(groups)
        asking = self._admitting.ask(groups)
        if asking.is_tight:
            await self._admitting.admit(asking)
        watch.lap("admit")
        live = [group for group in groups if group.drafts]
        if live:
            await self._number(live, asking)
            watch.lap("number")
            await self._storing.store(live, self._repair.open_from)
            self._access.forget(group.conversation_id for group in live if group.is_gone)
            watch.lap("store")
        done = [group for group in live if group.done]
        works: list[tuple[Roster, list[Entry]]] = []
        indexed: list[dict[str, Indexed]] = []
        if done:
            await self._reload_changed(done)
            works = [(_roster_of(group), group.entries()) for group in done]
            indexed = await self._indexing.index(works, since=epoch_changes)
            await self._rows_of_rewritten(done)
            watch.lap("index")
        for group in groups:
            self._acknowledge(group)
        watch.lap("acknowledge")
        since_ms = self._clock.now_ms() - int((STREAM_IDLE_S + SEAM_S) * 1000)
        for (roster, entries), counts, group in zip(works, indexed, done, strict=True):
            if news := group.news(entries, since_ms):
                self._note_row(roster, news, counts)
                await self._deliver.route(roster, news, counts, group.origins())
        if done:
            watch.lap("route")
        self._repair.finished(live)
        await self._give_back(done)

    async def _number(self, live: Sequence[BatchGroup], asking: Asking) -> None:
        """With whom to admit asked in the same round trip, unless that is known already."""
        first = self._repair.announcement(live)
        if asking.is_tight:
            await self._numbering.number(live, self._repair.open_from, first=first)
        else:
            self._admitting.bet(asking, 1)
            try:
                first = [*asking.calls, *first]
                replies = await self._numbering.number(live, self._repair.open_from, first=first)
            finally:
                self._admitting.bet(asking, -1)
            await self._admitting.conclude(asking, replies[: len(asking.calls)])
        self._repair.announced(live)

    async def _give_back(self, groups: Sequence[BatchGroup]) -> None:
        try:
            await self._admitting.give_back(groups)
        except StoreError as error:
            log.info("slots of duplicates were not given back: %s", error)

    async def _rosters(self, groups: Sequence[BatchGroup]) -> None:
        """Member? A stranger is told what he would be told if the conversation did not exist."""
        for group in groups:
            group.roster = self._access.cached(group.conversation_id)
        unknown = [group for group in groups if group.roster is None]
        if unknown:
            loaded = await asyncio.gather(*(self._access.load(group.conversation_id) for group in unknown))
            for group, roster in zip(unknown, loaded, strict=True):
                group.roster = roster
        for group in groups:
            members = group.roster.members if group.roster is not None else {}
            if any(draft.sender_id not in members for draft in group.drafts):
                await self._look_again(group)
            if group.is_member_change:
                check_change(group)

    async def _look_again(self, group: BatchGroup) -> None:
        """A sender is not in the list we have: it may be older than the membership."""
        group.roster = await self._access.fresh(group.conversation_id)
        for draft in list(group.drafts):
            try:
                check(group.roster, draft.sender_id, "write")
            except Problem as problem:
                group.refuse(draft, problem)

    async def _reload_changed(self, groups: Sequence[BatchGroup]) -> None:
        """After a member change is stored, the members are those of the tables."""
        for group in groups:
            if any(draft.kind == "member" for draft in group.done):
                group.roster = await self._access.load(group.conversation_id) or group.roster

    async def _rows_of_rewritten(self, groups: Sequence[BatchGroup]) -> None:
        for group in groups:
            rewritten = {draft.entry.target_seq for draft in group.done if draft.entry and draft.entry.target_seq}
            if not rewritten or group.roster is None:
                continue
            heads = await self._conversations.heads([group.conversation_id])
            head = heads.get(group.conversation_id)
            if head is not None and head.last_seq in rewritten:
                await self._rows.write_now(group.roster, head)

    def _acknowledge(self, group: BatchGroup) -> None:
        for draft in self._answering.acknowledge(group):
            self.submit(draft)

    def _abandon(self, groups: Sequence[BatchGroup], problem: Problem) -> None:
        """The batch cannot go on: who was not answered is told to try again."""
        for group in groups:
            group.leave_undecided()
            if group.is_answered:
                continue
            group.refuse_all(problem)
            for draft in group.done:
                draft.problem = problem
            group.refused += group.done
            group.done = []
            self._acknowledge(group)
        self._repair.finished(groups)

    def _note_row(self, roster: Roster, entries: Sequence[Entry], counts: dict[str, Indexed]) -> None:
        last = next((entry for entry in reversed(entries) if entry.kind == "message"), None)
        if last is not None and not last.is_deleted:
            preview = preview_of(last.text)
            self._rows.note(roster, last_seq=last.seq_no, last_ms=last.sent_ms, preview=preview, indexed=counts)


def _roster_of(group: BatchGroup) -> Roster:
    assert group.roster is not None  # else all of it was refused
    return group.roster
