"""What is on its way through a batch: a `Draft` is one thing to be numbered, a `BatchGroup` those of one conversation.

A draft leaves its group in one of three ways: stored (it has an entry), duplicate (its entry was stored before),
refused (it has a problem). A number given to a draft that is not stored under it is given up, and closed by a void in
the same commit as the rest of the group. lanes.py gathers drafts into batches; the stages of send.py move them on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidings.errors import IdConflict, Problem
from tidings.messaging.access import Roster
from tidings.model import Entry, EntryKind, MemberChange, Sent


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
    is_abandoned: bool = False  # its connection is gone, or gave it up: nothing is held behind it any more
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
