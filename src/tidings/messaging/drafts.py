"""What is on its way through a batch: a `Draft` is one thing to be numbered, a `BatchGroup` those of one conversation.

A draft leaves its group in one of three ways: stored (it has an entry), duplicate (its entry was stored before),
refused (it has a problem). A number given to a draft that is not stored under it is given up, and closed by a void in
the same commit as the rest of the group. send.py gathers drafts into batches here; the stages move them on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from tidings.bounds import BATCH_ENTRIES_MAX, BATCH_FANOUT_MAX, GROUP_ENTRIES_MAX
from tidings.errors import IdConflict, NotFound, Problem
from tidings.messaging.access import Access, Action, Roster, check
from tidings.model import Entry, EntryKind, Member, MemberAction, MemberChange, Row, Sent
from tidings.stores.ports import Group, Rewrite

_LATER_MAX = 2 * BATCH_ENTRIES_MAX  # drafts passed over while a batch is gathered: a flood must not be walked each time
_NO_REV = -1  # no row has it: a rewrite that expects it is looked at again before anything is stored

# What somebody must be allowed to for each member change.
_NEEDS: dict[MemberAction, Action] = {"added": "add", "removed": "remove", "left": "read", "role": "role"}


class Draft(msgspec.Struct, kw_only=True, eq=False):
    """One send, edit, delete or member change. `reply` is called exactly once, on the event loop."""

    sender_id: str
    conversation_id: str
    message_id: str
    reply: Callable[[Sent | Problem], None]
    text: str | None = None
    timestamp: int | None = None
    origin: str | None = None  # the connection it came from; None: REST
    kind: EntryKind = "message"
    target: Entry | None = None  # of an edit or delete, as last seen
    change: MemberChange | None = None
    digest: bytes = b""
    # filled in on the way
    arrived_s: float = 0.0
    is_orphan: bool = False  # its connection is gone, or gave it up: nothing is held behind it any more
    place: int = 0  # among all drafts of the node, in the order they came
    seq_no: int = 0
    sent_ms: int = 0
    is_known: bool = False  # the keyspace has noted a number for its id before
    entry: Entry | None = None
    is_duplicate: bool = False
    problem: Problem | None = None
    slot: tuple[str, int] | None = None  # the limiter's slot it used: token, position
    followers: list[Draft] | None = None  # the same id again in the same batch: answered alike

    @property
    def is_overtaken(self) -> bool:
        """It rewrites a message that an entry with a higher number has rewritten already."""
        return self.target is not None and (self.target.edit_seq or 0) > self.seq_no

    @property
    def id_(self) -> tuple[str, str, str]:
        return self.conversation_id, self.sender_id, self.message_id

    @property
    def note(self) -> str:
        """How the id is noted in the keyspace."""
        return f"{self.sender_id}:{self.message_id}"

    def answer(self) -> Sent | Problem:
        if self.problem is not None:
            return self.problem
        assert self.entry is not None
        return Sent(self.entry, self.is_duplicate)

    def answer_follower(self, follower: Draft) -> Sent | Problem:
        if self.problem is None and follower.digest != self.digest:
            return IdConflict()
        answer = self.answer()
        return Sent(answer.entry, True) if isinstance(answer, Sent) else answer


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
                    draft.is_orphan |= draft.conversation_id == conversation_id

    def forget(self, origin: str) -> list[Draft]:
        """The connection is gone, and its holds with it: what it had queued is taken out."""
        queued = [draft for draft in self.waiting if draft.origin == origin]
        for draft in queued:
            self.waiting.remove(draft)
        for draft in self._all_under_way():
            draft.is_orphan |= draft.origin == origin
        return queued

    def _all_under_way(self) -> list[Draft]:
        return [one for first in self.under_way for one in (first, *(first.followers or ()))]


class BatchGroup:
    """The drafts of one conversation in one batch."""

    __slots__ = (
        "conversation_id",
        "done",
        "drafts",
        "is_answered",
        "is_gone",
        "is_retried",
        "refused",
        "renumbered",
        "roster",
        "undecided",
        "voids",
    )

    def __init__(self, conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self.roster: Roster | None = None
        self.drafts: list[Draft] = []  # still on their way, in the order they arrived
        self.done: list[Draft] = []  # stored or duplicate
        self.refused: list[Draft] = []
        self.voids: list[tuple[int, int]] = []  # (seq_no, sent_ms) given up
        self.renumbered = 0
        self.is_answered = False
        self.is_retried = False  # an earlier try to store it may have succeeded
        self.is_gone = False  # the conversation does not exist any more
        self.undecided: tuple[int, int] | None = None  # lowest and highest number that may lack its row, or its index

    @property
    def is_member_change(self) -> bool:
        return bool(self.drafts) and self.drafts[0].kind == "member"

    def refuse(self, draft: Draft, problem: Problem) -> None:
        self._leave(draft)
        draft.problem = problem
        self.refused.append(draft)

    def refuse_all(self, problem: Problem) -> None:
        """No number is voided: the same id gets it again if it comes back soon."""
        self.refused += self.drafts
        for draft in self.drafts:
            draft.problem = problem
        self.drafts = []

    def found(self, draft: Draft, entry: Entry) -> None:
        """Its id was stored before."""
        if entry.digest is not None and entry.digest != draft.digest:
            self.refuse(draft, IdConflict())
            return
        self._leave(draft)
        draft.entry, draft.is_duplicate = entry, True
        self.done.append(draft)

    def stored(self, draft: Draft, entry: Entry) -> None:
        self.drafts.remove(draft)
        draft.entry = entry
        self.done.append(draft)

    def give_up(self, draft: Draft) -> None:
        """Its number will not be used."""
        if draft.seq_no and not draft.is_known:
            self.voids.append((draft.seq_no, draft.sent_ms))
        draft.seq_no, draft.is_known = 0, False

    def leave_undecided(self) -> None:
        """The batch ends here, and nobody knows what became of its numbers: repair.py finds out."""
        numbers = [draft.seq_no for draft in (*self.drafts, *self.done) if draft.seq_no]
        numbers += [seq_no for seq_no, _ in self.voids]
        if numbers:
            low, high = self.undecided or (numbers[0], numbers[0])
            self.undecided = (min(low, *numbers), max(high, *numbers))

    def entries(self) -> list[Entry]:
        """What this batch put into the log, or found there, in order."""
        entries = [draft.entry for draft in self.done if draft.entry is not None]
        return sorted(entries, key=lambda entry: entry.seq_no)

    def origins(self) -> dict[int, str | None]:
        """seq_no -> the connection that sent it, and needs no event."""
        return {draft.entry.seq_no: draft.origin for draft in self.done if draft.entry is not None}

    def news(self, entries: list[Entry], since_ms: int) -> list[Entry]:
        """Without what was stored before, long ago: it was routed then. Whoever lacks it reads it from the log; a
        stream that began there would tell everybody everything since."""
        again = [draft.entry for draft in self.done if draft.is_duplicate and draft.entry is not None]
        old = {entry.seq_no for entry in again if entry.sent_ms < since_ms or entry.s3_ref is not None}
        return [entry for entry in entries if entry.seq_no not in old] if old else entries

    def _leave(self, draft: Draft) -> None:
        self.give_up(draft)
        self.drafts.remove(draft)


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


def grouped(drafts: Sequence[Draft]) -> list[BatchGroup]:
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


def check_change(group: BatchGroup) -> None:
    """May it still be done, and is there something to do? Members may have come and gone since the caller looked."""
    draft = group.drafts[0]
    assert draft.change is not None
    action, user_ids = draft.change.action, draft.change.user_ids
    try:
        check(group.roster, draft.sender_id, _NEEDS[action])
    except Problem as problem:
        group.refuse(draft, problem)
        return
    assert group.roster is not None
    left = tuple(user_id for user_id in user_ids if (user_id in group.roster.members) != (action == "added"))
    if left:
        draft.change = MemberChange(action, left, draft.change.role)
    else:
        group.refuse(draft, NotFound("no such member"))


def to_group(group: BatchGroup) -> tuple[Group, list[Draft | None]]:
    """What to store, and which draft stands at which position (None: a void)."""
    assert group.roster is not None
    slots: list[tuple[Entry, Draft | None]] = [(to_entry(draft, group.roster), draft) for draft in group.drafts]
    if group.voids:
        slots += [(_void(group.conversation_id, *void), None) for void in group.voids]
        slots.sort(key=lambda slot: slot[0].seq_no)
    elif any(draft.is_known for draft in group.drafts):
        slots.sort(key=lambda slot: slot[0].seq_no)
    entries = tuple(slot[0] for slot in slots)
    positions = [slot[1] for slot in slots]
    if group.is_member_change:
        return _member_group(group, entries), positions
    rewrites = tuple(_rewrite(draft) for draft in group.drafts if draft.target is not None)
    return Group(conversation_id=group.conversation_id, entries=entries, rewrites=rewrites), positions


def to_entry(draft: Draft, roster: Roster) -> Entry:
    receiver_id = None
    if roster.head.kind == "direct" and draft.kind == "message":
        receiver_id = next((user_id for user_id in roster.members if user_id != draft.sender_id), None)
    timestamp = draft.timestamp
    return Entry(
        conversation_id=draft.conversation_id,
        seq_no=draft.seq_no,
        kind=draft.kind,
        sent_ms=draft.sent_ms,
        message_id=draft.message_id,
        sender_id=draft.sender_id,
        receiver_id=receiver_id,
        text=draft.text,
        timestamp=draft.sent_ms if timestamp is None else timestamp,
        digest=draft.digest,
        member=draft.change,
        target_seq=draft.target.seq_no if draft.target is not None else None,
    )


def _void(conversation_id: str, seq_no: int, sent_ms: int) -> Entry:
    return Entry(conversation_id=conversation_id, seq_no=seq_no, kind="void", sent_ms=sent_ms)


def _rewrite(draft: Draft) -> Rewrite:
    target = draft.target
    assert target is not None
    is_deleted = draft.kind == "delete"
    return Rewrite(
        target_seq=target.seq_no,
        # Deleted is for ever: only the dedupe verdict is wanted then, and it comes before the rev's.
        expected_rev=_NO_REV if target.is_deleted else target.rev,
        text=None if is_deleted else draft.text,
        is_deleted=is_deleted,
        edited_ms=target.edited_ms if is_deleted else draft.sent_ms,
        edit_seq=None if is_deleted else draft.seq_no,  # after a delete no entry holds the text
        wipe_seq=target.edit_seq,
    )


def _member_group(group: BatchGroup, entries: tuple[Entry, ...]) -> Group:
    (draft,) = group.drafts
    roster, change = group.roster, draft.change
    assert roster is not None and change is not None
    if change.action == "added":
        fresh = [_joined(draft, user_id) for user_id in change.user_ids]
        rows = tuple(_row(roster, member) for member in fresh)
        return Group(conversation_id=group.conversation_id, entries=entries, members=tuple(fresh), rows_added=rows)
    present = [roster.members[user_id] for user_id in change.user_ids]
    if change.action == "role":
        assert change.role is not None
        changed = tuple(msgspec.structs.replace(member, role=change.role) for member in present)
        return Group(conversation_id=group.conversation_id, entries=entries, members=changed)
    gone = tuple(msgspec.structs.replace(member, left_seq=draft.seq_no) for member in present)
    return Group(conversation_id=group.conversation_id, entries=entries, members=gone, rows_removed=change.user_ids)


def _joined(draft: Draft, user_id: str) -> Member:
    return Member(
        conversation_id=draft.conversation_id, user_id=user_id, joined_seq=draft.seq_no, joined_ms=draft.sent_ms
    )


def _row(roster: Roster, member: Member) -> Row:
    head = roster.head
    is_visible = head.history == "all"
    return Row(
        user_id=member.user_id,
        conversation_id=member.conversation_id,
        kind=head.kind,
        name=head.name,
        avatar_url=head.avatar_url,
        last_message_preview=head.preview if is_visible else None,
        last_message_ts=head.last_ms if is_visible else 0,
        last_seq=head.last_seq if is_visible else 0,
        joined_seq=member.joined_seq,
        joined_ms=member.joined_ms,
    )
