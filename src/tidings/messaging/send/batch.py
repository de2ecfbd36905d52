"""A batch: the drafts that pass the stages together. A `BatchGroup` holds those of one conversation.

A number that a draft got and does not use is given up. The commit that stores the rest of the group closes it with a
void. A void belongs to the counter that gave the group its numbers. A counter that was lost may give its numbers again,
to another node or to a draft of this very group. So the group forgets the voids of a lost counter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from tidings.errors import IdConflict, Problem
from tidings.messaging.access import MemberList
from tidings.messaging.limits.limiter import LimitCheck
from tidings.messaging.send.draft import Draft
from tidings.model import Entry
from tidings.stores.keyspace.call import Arg
from tidings.stores.keyspace.scripts.answers import Indexed, Numbered

_SEQ_NO = attrgetter("seq_no")


class Observed(Protocol):
    def observe(self, value: float) -> None: ...


class Counted(Protocol):
    def inc(self, amount: float = 1) -> None: ...


class Measures(Protocol):
    """The metrics of the pipeline. Tracing puts its own in their place."""

    @property
    def messages(self) -> Counted: ...
    @property
    def batch_size(self) -> Observed: ...
    @property
    def send_seconds(self) -> Observed: ...
    @property
    def stage_seconds(self) -> Mapping[str, Observed]: ...


class BatchGroup:
    """The drafts of one conversation in one batch."""

    __slots__ = (
        "_entries",
        "awaited",
        "conversation_id",
        "counter_id",
        "counts",
        "done",
        "drafts",
        "has_known",
        "is_answered",
        "is_gone",
        "is_plain",
        "is_retried",
        "member_list",
        "refused",
        "renumbered",
        "undecided",
        "voids",
    )

    def __init__(self, conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self.member_list: MemberList | None = None
        self.drafts: list[Draft] = []  # still on their way, in the order of arrival
        self.done: list[Draft] = []  # stored or duplicate
        self.refused: list[Draft] = []
        self.is_plain = False  # every draft is a text and nothing else: stages leave out what concerns other drafts
        self.has_known = False  # an id in it had a number before
        self.counts: Mapping[str, Indexed] = {}  # of each member, once the entries are indexed
        self.counter_id = b""  # of the counter that gave the numbers
        self.voids: list[tuple[int, int]] = []  # (seq_no, sent_ms) given up: that counter gave them to nobody else
        self.renumbered = 0
        self.is_answered = False
        self.is_retried = False  # an earlier try to store it may have succeeded
        self.is_gone = False  # the conversation does not exist any more
        self.awaited: Numbered | None = None  # it got these numbers above a member change that is not decided yet
        self.undecided: tuple[int, int] | None = None  # lowest and highest number that may lack its row, or its index
        self._entries: list[Entry] | None = None

    @property
    def is_member_change(self) -> bool:
        return bool(self.drafts) and self.drafts[0].change is not None

    @property
    def senders(self) -> set[str]:
        return {draft.sender_id for draft in self.drafts}

    def refuse(self, draft: Draft, problem: Problem) -> None:
        self._leave(draft)
        problem.__traceback__ = None  # it holds frames that hold the draft: a cycle
        draft.problem = problem
        self.refused.append(draft)

    def refuse_all(self, problem: Problem) -> None:
        """Refuse every draft that is on its way. No number is voided: an id that comes back soon gets its number."""
        self.refused += self.drafts
        for draft in self.drafts:
            draft.problem = problem
        self.drafts = []

    def refuse_unanswered(self, problem: Problem) -> None:
        """Refuse the stored drafts too: the batch ends before it could acknowledge them."""
        self.refuse_all(problem)
        for draft in self.done:
            draft.problem = problem
        self.refused += self.done
        self.done = []

    def found(self, draft: Draft, entry: Entry) -> None:
        """The id of the draft was stored before, as this entry."""
        if not draft.says(entry):
            self.refuse(draft, IdConflict())
            return
        self._leave(draft)
        draft.entry, draft.is_duplicate = entry, True
        self.done.append(draft)

    def stored(self, draft: Draft, entry: Entry) -> None:
        self.drafts.remove(draft)
        draft.entry = entry
        self.done.append(draft)

    def take_counter(self, counter_id: bytes) -> None:
        """The drafts have numbers of this counter. A number that a draft holds, or may hold elsewhere, is no void."""
        if counter_id != self.counter_id:
            self.counter_id = counter_id
            self.voids.clear()
        if self.voids:
            held = {draft.seq_no for draft in self.drafts}
            self.voids = [void for void in self.voids if void[0] not in held]

    def give_up(self, draft: Draft) -> None:
        """The draft will not use its number."""
        if draft.seq_no and not draft.is_known:
            self.voids.append((draft.seq_no, draft.sent_ms))
        draft.seq_no, draft.is_known = 0, False

    def leave_undecided(self) -> None:
        """The batch ends here, and the outcome of its numbers is unknown. They stay open work (open_work.py)."""
        numbers = [draft.seq_no for draft in (*self.drafts, *self.done) if draft.seq_no]
        numbers += [seq_no for seq_no, _ in self.voids]
        if numbers:
            low, high = self.undecided or (numbers[0], numbers[0])
            self.undecided = (min(low, *numbers), max(high, *numbers))

    def entries(self) -> list[Entry]:
        """The entries that this batch put into the log, or found there, in order. Asked for after the commit."""
        if self._entries is None:
            entries = [draft.entry for draft in self.done if draft.entry is not None]
            self._entries = sorted(entries, key=_SEQ_NO) if len(entries) > 1 else entries
        return self._entries

    def origins(self) -> dict[int, str | None]:
        """seq_no -> the connection that sent it, and needs no event."""
        return {draft.entry.seq_no: draft.origin for draft in self.done if draft.entry is not None}

    def news(self, since_ms: int) -> list[Entry]:
        """The entries to route: all but duplicates that were stored long ago, and were routed then.

        A device that lacks such an old entry reads it from the log. A stream that began there would push everything
        since then to everybody.
        """
        entries = self.entries()
        again = [draft.entry for draft in self.done if draft.is_duplicate and draft.entry is not None]
        if not again:
            return entries
        old = {entry.seq_no for entry in again if entry.sent_ms < since_ms or entry.s3_ref is not None}
        return [entry for entry in entries if entry.seq_no not in old] if old else entries

    def _leave(self, draft: Draft) -> None:
        self.give_up(draft)
        self.drafts.remove(draft)


class Batch:
    """The drafts of one lane that pass the stages together, and what the stages find out about them."""

    __slots__ = (
        "_lap_s",
        "_measures",
        "_now_s",
        "again",
        "aside",
        "by_sender",
        "epoch_changes",
        "groups",
        "ids",
        "is_unreviewed",
        "limit_check",
        "live",
    )

    def __init__(self, groups: list[BatchGroup], measures: Measures, now_s: Callable[[], float]) -> None:
        self.ids = [draft.id_ for group in groups for draft in group.drafts]
        self.groups = groups
        self.live: list[BatchGroup] = []  # groups with something to number, once the senders are checked
        self.again: list[Draft] = []  # to queue again: another content has their id, or a request is accepted first
        self.aside: list[Batch] = []  # groups that wait for their members, each as a batch of its own
        self.epoch_changes = 0  # when the batch began
        self.is_unreviewed = False  # its drafts are to be reviewed before they get numbers
        self.by_sender: dict[str, list[tuple[BatchGroup, Draft]]] = {}  # drafts that use up a budget, in their order
        self.limit_check: LimitCheck | None = None  # None: the limiter has decided
        self._measures = measures
        self._now_s = now_s
        self._lap_s = now_s()

    def put_aside(self) -> None:
        """Take out the groups that must wait for a change of their members. Each goes on as a batch of its own."""
        self._split([group for group in self.live if group.awaited is not None])

    def put_aside_unreviewed(self, concerns: Callable[[BatchGroup], bool]) -> None:
        """Take out the groups that a review concerns. Each goes on as a batch of its own, without numbers so far."""
        for part in self._split([group for group in self.live if concerns(group)]):
            part.is_unreviewed = True

    def _split(self, waiting: Sequence[BatchGroup]) -> Sequence[Batch]:
        parts: list[Batch] = []
        if not waiting:
            return parts
        for group in waiting:
            part = Batch([group], self._measures, self._now_s)
            part.ids = [id_ for id_ in self.ids if id_[0] == group.conversation_id]
            part.live, part.epoch_changes = [group], self.epoch_changes
            parts.append(part)
            self.groups.remove(group)
            self.live.remove(group)
        ids = {group.conversation_id for group in waiting}
        self.ids = [id_ for id_ in self.ids if id_[0] not in ids]
        self.aside += parts
        return parts

    @property
    def asking_here(self) -> list[tuple[BatchGroup, Draft]]:
        """The drafts with `mention: here` for which nobody has asked yet who is online."""
        return [
            (group, draft)
            for group in self.live
            for draft in group.drafts
            if not draft.is_plain
            and draft.here is None
            and draft.content is not None
            and draft.content.mention == "here"
        ]

    @property
    def done(self) -> list[BatchGroup]:
        """The groups that have something stored."""
        return [group for group in self.live if group.done]

    def lap(self, stage: str) -> None:
        """End a stage: its time is the time since the stage before it ended."""
        now_s = self._now_s()
        self._measures.stage_seconds[stage].observe(now_s - self._lap_s)
        self._lap_s = now_s


async def read_companions(*groups: BatchGroup) -> None:
    """Read the records anew that are committed with the entries, all at once. Refuses what may not be stored."""
    read = [(group, draft, draft.companion) for group in groups for draft in group.drafts if draft.companion]
    answers = await asyncio.gather(*(companion.read() for _, _, companion in read), return_exceptions=True)
    for (group, draft, _), answer in zip(read, answers, strict=True):
        if isinstance(answer, Problem):
            group.refuse(draft, answer)
        elif answer is not None:
            raise answer


def grouped(drafts: Sequence[Draft]) -> list[BatchGroup]:
    """The drafts by conversation; an id that comes twice in one batch follows its first draft."""
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
            group.is_plain = True
        group.drafts.append(draft)
        group.is_plain = group.is_plain and draft.is_plain
    return list(groups.values())


def numbers_of(entries: Sequence[Entry], user_id: str, but: Collection[str | None]) -> tuple[Arg, ...]:
    """Return the numbers that count for a member: those of the senders named do not. A mention has an @ behind it."""
    return tuple(
        [
            f"{entry.seq_no}@" if entry.mentions and entry.mentions_user(user_id) else entry.seq_no
            for entry in entries
            if entry.sender_id not in but
        ]
    )
