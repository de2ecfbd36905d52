"""What a group of drafts becomes in the tables: entries, rewrites of older ones, members and their rows.

Everything of a `Group` is committed together or not at all. storing.py commits what is made here.
"""

from __future__ import annotations

import msgspec

from tidings.errors import NotFound, Problem
from tidings.messaging.access import Action, Roster, check
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.model import Entry, Member, MemberAction, MemberChange, Row
from tidings.stores.ports import Group, Rewrite

_NO_REV = -1  # no row has it: a rewrite that expects it is looked at again before anything is stored

# What somebody must be allowed to for each member change.
_NEEDS: dict[MemberAction, Action] = {"added": "add", "removed": "remove", "left": "read", "role": "role"}


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
