"""What is on its way through a batch: a `Draft` is one thing to be numbered, a `Batch group` all drafts of one conversation.

A draft leaves its group in one of three ways: stored (it has an entry), duplicate (its entry was stored before), refused
(it has a problem). A number given to a draft that is not stored under it is given up, and closed by a void in the same
commit as the rest of the group.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidings.errors import IdConflict, Problem
from tidings.messaging.access import Roster
from tidings.model import Entry, EntryKind, Member, MemberChange, Row, Sent
from tidings.stores.ports import Group, Rewrite


class Draft(msgspec.Struct, kw_only=True):
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
    seq_no: int = 0
    sent_ms: int = 0
    is_known: bool = False  # the keyspace has noted a number for its id before
    entry: Entry | None = None
    is_duplicate: bool = False
    problem: Problem | None = None
    slot: tuple[str, int] | None = None  # the limiter's slot it used: token, position
    followers: list[Draft] | None = None  # the same id again in the same batch: answered alike

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

    __slots__ = ("conversation_id", "done", "drafts", "is_unfinished", "refused", "renumbered", "roster", "voids")

    def __init__(self, conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self.roster: Roster | None = None
        self.drafts: list[Draft] = []  # still on their way, in the order they arrived
        self.done: list[Draft] = []  # stored or duplicate
        self.refused: list[Draft] = []
        self.voids: list[tuple[int, int]] = []  # (seq_no, sent_ms) given up
        self.renumbered = 0
        self.is_unfinished = False  # numbers were handed out and nobody knows yet what became of them

    @property
    def is_member_change(self) -> bool:
        return bool(self.drafts) and self.drafts[0].kind == "member"

    def refuse(self, draft: Draft, problem: Problem) -> None:
        self._leave(draft)
        draft.problem = problem
        self.refused.append(draft)

    def refuse_all(self, problem: Problem) -> None:
        """The store does not answer: no number is voided, since nobody knows what became of it."""
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

    def entries(self) -> list[Entry]:
        """What this batch put into the log, or found there, in order."""
        entries = [draft.entry for draft in self.done if draft.entry is not None]
        return sorted(entries, key=lambda entry: entry.seq_no)

    def _leave(self, draft: Draft) -> None:
        self.give_up(draft)
        self.drafts.remove(draft)


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
        expected_rev=target.rev,
        text=None if is_deleted else draft.text,
        is_deleted=is_deleted,
        edited_ms=target.edited_ms if is_deleted else draft.sent_ms,
        edit_seq=target.edit_seq if is_deleted else draft.seq_no,
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
    return Group(
        conversation_id=group.conversation_id, entries=entries, members=gone, rows_removed=change.user_ids
    )


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
