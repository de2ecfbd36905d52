"""The way of a message: a pipeline of batches.

    frame -> decode -> member? -> [admit -> number -> store -> index -> acknowledge -> route]      one lane = hash(conversation)

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
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from tidings.bounds import BATCH_ENTRIES_MAX, BATCH_FANOUT_MAX, GROUP_ENTRIES_MAX, LANE_QUEUE_MAX, LANES
from tidings.clock import Clock
from tidings.errors import Forbidden, Internal, NotFound, Problem, StoreError, StoreUnavailable
from tidings.messaging.access import Access, check
from tidings.messaging.admitting import Admitting
from tidings.messaging.deliver import Deliver
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.messaging.holds import Holds
from tidings.messaging.indexing import Indexing
from tidings.messaging.numbering import Numbering
from tidings.messaging.repair import Repair
from tidings.messaging.rows import Rows
from tidings.messaging.storing import Storing
from tidings.model import Entry, MemberChange, Sent, digest_of
from tidings.stores.ports import Conversations, Messages
from tidings.stores.scripts import Indexed

log = logging.getLogger("tidings.send")


class Observed(Protocol):
    def observe(self, value: float) -> None: ...


class Counted(Protocol):
    def inc(self, amount: float = 1) -> None: ...


class Measures(Protocol):
    """What the pipeline tells of itself."""

    @property
    def messages(self) -> Counted: ...
    @property
    def batch_size(self) -> Observed: ...
    @property
    def send_seconds(self) -> Observed: ...
    @property
    def stage_seconds(self) -> Mapping[str, Observed]: ...


class Lane:
    """Drafts that wait, and the batch that is under way."""

    __slots__ = ("task", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Draft] = deque()
        self.task: asyncio.Task[None] | None = None


class Sends:
    """Everything that gets a number goes through here: sends, edits, deletes and member changes."""

    def __init__(
        self,
        *,
        access: Access,
        holds: Holds,
        admitting: Admitting,
        numbering: Numbering,
        storing: Storing,
        indexing: Indexing,
        deliver: Deliver,
        rows: Rows,
        repair: Repair,
        messages: Messages,
        conversations: Conversations,
        clock: Clock,
        measures: Measures,
    ) -> None:
        self._access = access
        self._holds = holds
        self._admitting = admitting
        self._numbering = numbering
        self._storing = storing
        self._indexing = indexing
        self._deliver = deliver
        self._rows = rows
        self._repair = repair
        self._messages = messages
        self._conversations = conversations
        self._clock = clock
        self._measures = measures
        self._lanes = [Lane() for _ in range(LANES)]
        self._is_draining = False

    # --- what callers see -------------------------------------------------------------------------

    def submit(self, draft: Draft) -> None:
        """Queue a draft in its lane. Never blocks; the draft's reply is called once."""
        lane = self._lanes[zlib.crc32(draft.conversation_id.encode()) % LANES]
        if self._is_draining or len(lane.waiting) >= LANE_QUEUE_MAX:
            draft.reply(StoreUnavailable("the node is draining" if self._is_draining else "too much is waiting"))
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
        return await self._numbered(
            sender_id=sender_id,
            conversation_id=conversation_id,
            message_id=message_id,
            text=text,
            timestamp=timestamp,
        )

    async def edit(
        self, user_id: str, conversation_id: str, seq_no: int, text: str, message_id: str | None = None
    ) -> Sent:
        """The sender gives a message another text; the old one is gone everywhere."""
        target = await self._target(user_id, conversation_id, seq_no)
        if target.sender_id != user_id:
            raise Forbidden("only its sender may edit a message")
        return await self._rewrite("edit", user_id, target, text, message_id)

    async def delete(
        self, user_id: str, conversation_id: str, seq_no: int, message_id: str | None = None
    ) -> Sent:
        """The sender, or a leader of the conversation, takes a message away."""
        target = await self._target(user_id, conversation_id, seq_no)
        if target.sender_id != user_id:
            await self._access.authorize(user_id, conversation_id, "moderate")
        return await self._rewrite("delete", user_id, target, None, message_id)

    async def change_members(self, user_id: str, conversation_id: str, change: MemberChange) -> Sent:
        """The caller has authorized; what changed meanwhile is checked again in the lane."""
        return await self._numbered(
            sender_id=user_id,
            conversation_id=conversation_id,
            message_id=self._clock.random_id(),
            kind="member",
            change=change,
        )

    def abandon(self, origin: str, conversation_id: str, message_id: str) -> None:
        self._holds.abandon(origin, conversation_id, message_id)

    def forget(self, origin: str) -> None:
        self._holds.forget(origin)

    async def drain(self) -> None:
        """Finish what is queued, take nothing more."""
        self._is_draining = True
        tasks = [lane.task for lane in self._lanes if lane.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._repair.clear_finished()
        await self._rows.flush()

    # --- the pipeline -----------------------------------------------------------------------------

    async def _run(self, lane: Lane) -> None:
        try:
            while lane.waiting:
                await self._batch(_gather(lane.waiting, self._access))
        finally:
            lane.task = None

    async def _batch(self, drafts: list[Draft]) -> None:
        """One batch, from admit to route. Whatever happens, each draft is answered once."""
        groups = _grouped(drafts)
        self._measures.batch_size.observe(len(drafts))
        try:
            await self._stages(groups)
        except StoreError as error:
            log.warning("a batch was refused: %s", error)
            self._abandon(groups, StoreUnavailable())
        except Exception:
            log.exception("a batch failed")
            self._abandon(groups, Internal())

    async def _stages(self, groups: list[BatchGroup]) -> None:
        epoch_changes = self._repair.epoch_changes()
        open_from = self._repair.open_from
        stage = self._stage
        with stage("admit"):
            await self._rosters(groups)
            await self._admitting.admit(groups)
        live = [group for group in groups if group.drafts]
        with stage("number"):
            await self._repair.announce(live)
            await self._numbering.number(live, open_from)
        with stage("store"):
            await self._storing.store(live, open_from)
        done = [group for group in live if group.done]
        with stage("index"):
            await self._reload_changed(done)
            works = [(group.roster, group.entries()) for group in done if group.roster is not None]
            indexed = await self._indexing.index(works, since=epoch_changes)
            await self._rows_of_rewritten(done)
        for group in groups:
            self._acknowledge(group)
        with stage("route"):
            for (roster, entries), counts, group in zip(works, indexed, done, strict=True):
                self._note_row(group, entries, counts)
                await self._deliver.route(roster, entries, counts, _origins(group))
        self._repair.finished(live)
        await self._admitting.give_back(done)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._measures.stage_seconds[name].observe(self._clock.monotonic_s() - began_s)

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
            for draft in list(group.drafts):
                if group.roster is None or draft.sender_id not in group.roster.members:
                    await self._look_again(group, draft)
        for group in groups:
            if group.is_member_change:
                _check_change(group)

    async def _look_again(self, group: BatchGroup, draft: Draft) -> None:
        """Not in the list we have: it may be older than the membership."""
        group.roster = await self._access.fresh(group.conversation_id)
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
        now_s = self._clock.monotonic_s()
        self._hold_refused(group)
        for draft in group.done:
            self._reply(draft)
            if not draft.is_duplicate:
                self._measures.send_seconds.observe(now_s - draft.arrived_s)
        self._measures.messages.inc(sum(not draft.is_duplicate for draft in group.done))
        for draft in group.refused:
            self._reply(draft)
        group.refused = []

    def _reply(self, draft: Draft) -> None:
        draft.reply(draft.answer())
        for follower in draft.followers or ():
            follower.reply(draft.answer_follower(follower))

    def _hold_refused(self, group: BatchGroup) -> None:
        by_origin: dict[str, list[str]] = {}
        for draft in group.refused:
            problem = draft.problem
            is_first_refusal = problem is not None and problem.is_temporary and problem.code != "held"
            if is_first_refusal and draft.kind == "message" and draft.origin is not None:
                by_origin.setdefault(draft.origin, []).append(draft.message_id)
        for origin, message_ids in by_origin.items():
            self._holds.refuse(origin, group.conversation_id, message_ids)

    def _abandon(self, groups: Sequence[BatchGroup], problem: Problem) -> None:
        """The batch cannot go on: who was not answered is told to try again."""
        for group in groups:
            group.is_unfinished = group.is_unfinished or any(draft.seq_no for draft in [*group.drafts, *group.done])
            group.refuse_all(problem)
            for draft in group.done:
                draft.problem = problem
            group.refused += group.done
            group.refused.sort(key=lambda draft: draft.arrived_s)
            group.done = []
            self._acknowledge(group)
        self._repair.finished(groups)

    def _note_row(self, group: BatchGroup, entries: Sequence[Entry], counts: dict[str, Indexed]) -> None:
        last = next((entry for entry in reversed(entries) if entry.kind == "message"), None)
        if last is not None and group.roster is not None and not last.is_deleted:
            self._rows.note(
                group.roster,
                last_seq=last.seq_no,
                last_ms=last.sent_ms,
                preview=preview_of(last.text),
                indexed=counts,
            )

    # --- edits, deletes, member changes -----------------------------------------------------------

    async def _target(self, user_id: str, conversation_id: str, seq_no: int) -> Entry:
        roster = await self._access.authorize(user_id, conversation_id, "write")
        found = await self._messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        is_visible = seq_no > roster.visible_after(user_id)
        if not found or not is_visible or found[0].kind != "message":
            raise NotFound("no such message")
        return found[0]

    async def _rewrite(
        self, kind: str, user_id: str, target: Entry, text: str | None, message_id: str | None
    ) -> Sent:
        if target.is_deleted and message_id is None:
            raise NotFound("no such message")
        return await self._numbered(
            sender_id=user_id,
            conversation_id=target.conversation_id,
            message_id=message_id or self._clock.random_id(),
            kind="edit" if kind == "edit" else "delete",
            text=text,
            target=target,
        )

    async def _numbered(self, **fields: object) -> Sent:
        answer: asyncio.Future[Sent | Problem] = asyncio.get_running_loop().create_future()
        draft = Draft(reply=lambda result: None if answer.done() else answer.set_result(result), **fields)  # type: ignore[arg-type]
        self.submit(draft)
        result = await answer
        if isinstance(result, Problem):
            raise result
        return result


def _gather(waiting: deque[Draft], access: Access) -> list[Draft]:
    """The next batch: in order, bounded in entries, in entries of one conversation, and in fan-out."""
    if len(waiting) == 1:
        return [waiting.popleft()]
    batch: list[Draft] = []
    later: list[Draft] = []
    counts: dict[str, int] = {}
    closed: set[str] = set()
    fan_out = 0
    while waiting and len(batch) < BATCH_ENTRIES_MAX and fan_out < BATCH_FANOUT_MAX:
        draft = waiting.popleft()
        id_ = draft.conversation_id
        if id_ in closed or (draft.kind == "member" and id_ in counts):
            closed.add(id_)
            later.append(draft)
            continue
        if id_ not in counts:
            roster = access.cached(id_)
            fan_out += len(roster.members) if roster is not None else 1
        counts[id_] = counts.get(id_, 0) + 1
        batch.append(draft)
        if counts[id_] >= GROUP_ENTRIES_MAX or draft.kind == "member":
            closed.add(id_)  # a member change is alone in its commit
    waiting.extendleft(reversed(later))
    return batch


def _grouped(drafts: Sequence[Draft]) -> list[BatchGroup]:
    """By conversation; an id that comes twice in one batch follows its first draft."""
    groups: dict[str, BatchGroup] = {}
    first: dict[tuple[str, str, str], Draft] = {}
    for draft in drafts:
        key = (draft.conversation_id, draft.sender_id, draft.message_id)
        leader = first.setdefault(key, draft)
        if leader is not draft:
            leader.followers = [*(leader.followers or ()), draft]
            continue
        group = groups.get(draft.conversation_id)
        if group is None:
            group = groups[draft.conversation_id] = BatchGroup(draft.conversation_id)
        group.drafts.append(draft)
    return list(groups.values())


def _check_change(group: BatchGroup) -> None:
    """Is there still something to change? Members may have come and gone since the caller looked."""
    draft, roster = group.drafts[0], group.roster
    assert roster is not None and draft.change is not None
    is_adding = draft.change.action == "added"
    left = tuple(user_id for user_id in draft.change.user_ids if (user_id in roster.members) != is_adding)
    if not left:
        group.refuse(draft, NotFound("no such member"))
        return
    draft.change = MemberChange(draft.change.action, left, draft.change.role)


def _origins(group: BatchGroup) -> dict[int, str | None]:
    return {draft.entry.seq_no: draft.origin for draft in group.done if draft.entry is not None}


def preview_of(text: str | None) -> str | None:
    return None if text is None else text[:120].replace("\n", " ")
