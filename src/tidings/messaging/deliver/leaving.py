"""Leaving: a member whose removal is stored gets the entries below it, also from a node that has the newer list.

A node may read the list without a member before the entries below the removal went out. From then on the sequencer
remembers this member. The member gets each entry that goes out, up to the entry of the removal, and then the news of
it. So who was a member at the number of an entry gets it, and nobody gets an entry above their removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from tidings.messaging.access import MemberList
from tidings.messaging.deliver.sequencer import Held, Leaver, Sequencer
from tidings.model import Entry
from tidings.routing.hub import Hub


class LastEntries(NamedTuple):
    """The part of entries on their way out that a leaving member gets. `is_told`: the news of the removal follows."""

    user_id: str
    member_list: MemberList
    entries: Sequence[Held]
    is_told: bool


def record(sequencer: Sequencer, hub: Hub, old: MemberList, new: MemberList) -> None:
    """Remember the members connected here whom a newer list lacks, or has with a later membership.

    Every change that went out is in the old list, so the removals of these members have not gone out. A stream that
    has not begun, or knows of more changes than the old list, remembers nobody: they get no entry any more."""
    if sequencer.last is None or old.members_seq < sequencer.members_seq or old.head.created_ms != new.head.created_ms:
        return
    for user_id in hub.present(old.members):
        member, now = old.members[user_id], new.members.get(user_id)
        if now is None or now.joined_seq > member.joined_seq:
            sequencer.leaving.setdefault(user_id, Leaver(member))


def last_entries(
    sequencer: Sequencer, member_list: MemberList, ready: Sequence[Held], is_pushing: bool
) -> Iterator[LastEntries]:
    """Return what the leaving members get of these entries. Those whose removal is among them are forgotten.

    `is_pushing`: entries that were pushed before are still on their way to the members of then."""
    for user_id, leaver in list(sequencer.leaving.items()):
        now = member_list.members.get(user_id)
        if now is not None and now.joined_seq == leaver.member.joined_seq:
            continue  # this list was read before the removal, and has the member
        below = _below_removal(user_id, ready)
        is_out = len(below) < len(ready)
        if is_out and any(held.entry.seq_no == leaver.member.joined_seq for held in below):
            below = []  # a membership that comes and goes at once: nobody was told that it began
        leaver.is_served = leaver.is_served or bool(below) or is_pushing
        if is_out:
            del sequencer.leaving[user_id]
        alone = msgspec.structs.replace(member_list, members={user_id: leaver.member})
        yield LastEntries(user_id, alone, below, is_out and leaver.is_served and now is None)


def _below_removal(user_id: str, ready: Sequence[Held]) -> list[Held]:
    """The entries before the one that removes the user, without counts: nothing counts any more for that user."""
    below = takewhile(lambda held: not _removes(held.entry, user_id), ready)
    return [held._replace(counts=None) for held in below]


def _removes(entry: Entry, user_id: str) -> bool:
    change = entry.member
    return change is not None and change.action in ("removed", "left") and user_id in change.user_ids
