"""Stage: members. A sender who is not a member is refused, with the answer for a conversation that does not exist.

The stage begins with the list that this node has in memory. The number comes with members_seq, the version of the list
at that moment, so a group whose list is older follows it before anything is stored. Somebody who was removed at number
n can neither send nor receive above n, no matter which node handles the message.

Strangers: all conversations of a batch whose lists lack a sender are read together, one read for the heads. The answer
takes the same reads whether a conversation exists or not. A user who is refused twice is remembered for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidings.bounds import GAP_CLOSE_S, MEMBERS_WAIT_S, STRANGERS_KNOWN_MAX, STRANGERS_KNOWN_S
from tidings.clock import Clock
from tidings.errors import Forbidden, LastOwner, NotFound, Problem, RateLimited, StoreUnavailable, TooLarge
from tidings.messaging.access import Access, Action, MemberList, check, is_leader, loses_last_owner
from tidings.messaging.log import Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.send.batch import Batch, BatchGroup, read_companions
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.open_work import OpenWork
from tidings.model import KINDS, NO_RULES, MemberAction, MemberChange
from tidings.stores.keyspace.scripts.answers import Numbered
from tidings.tasks import Recent

_POLL_S = 0.05  # between two reads for a member change that is under way on another node
_REFUSALS_MIN = 2  # refusals until a stranger is refused from memory: an invitation may follow the first one

# The right that a user needs for each member change.
_NEEDS: dict[MemberAction, Action] = {
    "accepted": "read",
    "added": "add",
    "removed": "remove",
    "left": "read",
    "role": "role",
}


class Members:
    def __init__(
        self, access: Access, blocks: Blocks, log: Log, open_work: OpenWork, clock: Clock, members_max: int
    ) -> None:
        self._access = access
        self._blocks = blocks
        self._log = log
        self._open_work = open_work
        self._clock = clock
        self._members_max = members_max
        # (user, conversation) -> how often the user was refused there, and until when that is remembered
        self._strangers = Recent[tuple[str, str], tuple[int, float]](STRANGERS_KNOWN_MAX)

    async def load(self, batch: Batch) -> None:
        unsure: list[BatchGroup] = []  # the list in memory may be older than the membership of a sender
        for group in batch.groups:
            group.member_list = self._access.cached(group.conversation_id)
            members = group.member_list.members if group.member_list is not None else {}
            if not group.senders <= members.keys():
                unsure.append(group)
        if unsure:
            await self._look_up(unsure)
        unread: list[BatchGroup] = []
        for group in batch.groups:
            if group.is_member_change:
                check_change(group, self._members_max)
                continue
            if group.member_list is not None and group.member_list.rules != NO_RULES:
                # The rules in memory may be old, and must not refuse what the new ones allow.
                group.member_list = await self._access.fresh(group.conversation_id)
                await self._keep_rules(group)
            if group.member_list is not None and group.member_list.head.kind == "direct":
                await self._check_direct(group, group.member_list)
                batch.again += self._accept_first(group, group.member_list)
            if not group.is_plain and any(draft.is_unread for draft in group.drafts):
                unread.append(group)
        if unread:
            await read_companions(*unread)
        batch.live = [group for group in batch.groups if group.drafts]

    async def _check_direct(self, group: BatchGroup, member_list: MemberList) -> None:
        """Refuse what a blocked person writes to the blocker. Deleting is allowed: it takes something away."""
        senders = group.senders
        if not self._blocks.is_known(senders):
            await self._blocks.load(senders)
        if not self._blocks.has_blocker(senders):
            return
        for draft in [draft for draft in group.drafts if not KINDS[draft.kind].uncounts]:
            try:
                self._blocks.check_direct(member_list, draft.sender_id)
            except Problem as problem:
                group.refuse(draft, problem)

    async def _keep_rules(self, group: BatchGroup) -> None:
        """Refuse what the rules of the conversation forbid. Slow mode lets a resend of the last message pass."""
        _check_senders(group)
        member_list = group.member_list
        slow_s = member_list.rules.slow_s if member_list is not None else None
        if member_list is None or slow_s is None:
            return
        for draft in [one for one in group.drafts if KINDS[one.kind].counts and not one.is_of_server]:
            member = member_list.members.get(draft.sender_id)
            if member is None or is_leader(member):
                continue
            wait_ms = await self._access.slow.wait_ms(group.conversation_id, draft.sender_id, draft.message_id, slow_s)
            if wait_ms:
                group.refuse(draft, RateLimited(retry_after_ms=wait_ms, limit=1, class_name="slow mode"))

    def _accept_first(self, group: BatchGroup, member_list: MemberList) -> list[Draft]:
        """Take out the drafts of a member who answers a request. Returns them behind a change that accepts it."""
        members = member_list.members
        if not any(member.is_requested for member in members.values()):
            return []
        answers = [one for one in group.drafts if one.sender_id in members and members[one.sender_id].is_requested]
        for draft in answers:
            if draft.has_accepted:
                group.refuse(draft, StoreUnavailable("the request could not be accepted"))
            else:
                group.drafts.remove(draft)
                draft.has_accepted = True
        waiting = [draft for draft in answers if draft.problem is None]
        if not waiting:
            return []
        sender_id = waiting[0].sender_id
        accept = Draft(
            sender_id=sender_id,
            conversation_id=group.conversation_id,
            message_id=self._clock.random_id(),
            kind="member",
            change=MemberChange("accepted", (sender_id,)),
        )
        return [accept, *waiting]

    async def reload(self, batch: Batch) -> None:
        """Apply stored member changes after the commit. A deleted conversation is forgotten."""
        for group in batch.live:
            if group.is_gone:
                self._access.forget([group.conversation_id])
            elif not group.is_plain and any(draft.change is not None for draft in group.done):
                group.member_list = await self._access.load(group.conversation_id) or group.member_list

    def is_older(self, group: BatchGroup, members_seq: int) -> bool:
        """Say whether the group's list lacks the change at members_seq."""
        return group.member_list is not None and self._access.is_older(group.member_list, members_seq)

    async def follow(self, group: BatchGroup, numbered: Numbered) -> None:
        """Read a list that is older than the group's numbers again, and check the senders against it.

        A change that is under way elsewhere cannot be read yet: then the group must wait for it.
        """
        is_decided, member_list = await self._access.as_of(group.conversation_id, numbered.members_seq)
        if is_decided:
            await self._take_list(group, member_list, numbered.members_seq)
        else:
            group.awaited = numbered

    async def wait(self, batch: Batch) -> None:
        """Wait until the change above which a group has its numbers is decided."""
        for group in batch.live:
            if group.awaited is not None:
                await self._wait_for(group, group.awaited)
                group.awaited = None

    async def _wait_for(self, group: BatchGroup, numbered: Numbered) -> None:
        began_s = self._clock.monotonic_s()
        while (waited_s := self._clock.monotonic_s() - began_s) < MEMBERS_WAIT_S:
            is_decided, member_list = await self._access.as_of(group.conversation_id, numbered.members_seq)
            if is_decided:
                await self._take_list(group, member_list, numbered.members_seq)
                return
            if waited_s > GAP_CLOSE_S:
                # The node that was to change the members is gone. No reader closes a gap without an entry above it.
                # It may have waited for another change: that one is closed too.
                above = member_list.members_seq if member_list is not None else 0
                await self._log.close_down(group.conversation_id, numbered.members_seq, above)
            else:
                await asyncio.sleep(_POLL_S)
        group.leave_undecided()
        group.refuse_all(StoreUnavailable("a member change is under way"))

    async def _take_list(self, group: BatchGroup, member_list: MemberList | None, members_seq: int) -> None:
        if member_list is None:
            group.refuse_all(NotFound("no such conversation"))
            group.voids.clear()  # there is no log to close them in
            return
        if member_list.members_seq < members_seq:
            self._open_work.recheck_from(group.conversation_id, members_seq)  # a void is there: no lane routes it
        group.member_list = member_list
        _check_senders(group)
        if group.is_member_change:
            check_change(group, self._members_max)
        elif member_list.rules != NO_RULES:
            await self._keep_rules(group)

    # --- strangers --------------------------------------------------------------------------------

    async def _look_up(self, groups: Sequence[BatchGroup]) -> None:
        """Read the member lists that lack a sender, all of them together, and refuse the senders who are strangers."""
        for group in groups:
            for draft in [draft for draft in group.drafts if self._is_known_stranger(draft)]:
                group.refuse(draft, NotFound("no such conversation"))
        unsure = [group for group in groups if group.drafts]
        found = await self._access.read([group.conversation_id for group in unsure]) if unsure else {}
        for group in unsure:
            group.member_list = found.get(group.conversation_id)
            for draft in _check_senders(group):
                self._remember_stranger(draft)

    def _is_known_stranger(self, draft: Draft) -> bool:
        if draft.is_of_server:
            return False
        refusals, until_s = self._strangers.get((draft.sender_id, draft.conversation_id), (0, 0.0))
        return refusals >= _REFUSALS_MIN and until_s > self._clock.monotonic_s()

    def _remember_stranger(self, draft: Draft) -> None:
        key, now_s = (draft.sender_id, draft.conversation_id), self._clock.monotonic_s()
        refusals, until_s = self._strangers.get(key, (0, 0.0))
        self._strangers.put(key, (refusals + 1 if until_s > now_s else 1, now_s + STRANGERS_KNOWN_S))


def _check_senders(group: BatchGroup) -> list[Draft]:
    """Refuse the drafts whose senders are not members, and return them."""
    refused: list[Draft] = []
    for draft in [draft for draft in group.drafts if not draft.is_invited]:
        if draft.is_of_server and group.member_list is not None:
            continue
        try:
            for user_id in (draft.sender_id, *draft.authors):
                check(group.member_list, user_id, "read" if _is_free(draft) else "write")
        except Problem as problem:
            group.refuse(draft, problem)
            refused.append(draft)
    return refused


def _is_free(draft: Draft) -> bool:
    """Whether rules about writing do not concern the draft: it takes something away, or changes the members."""
    return draft.change is not None or KINDS[draft.kind].uncounts


def check_change(group: BatchGroup, members_max: int) -> None:
    """Check a member change again: members may have come and gone since its caller authorized it."""
    draft = group.drafts[0]
    assert draft.change is not None
    try:
        if not draft.is_invited or group.member_list is None:
            check(group.member_list, draft.sender_id, _right_for(draft, group.member_list))
        assert group.member_list is not None
        if not KINDS[draft.kind].changes_members:  # a change of rules keeps the role that its author has now
            role = group.member_list.members[draft.sender_id].role
            draft.change = MemberChange("role", (draft.sender_id,), role)
            return
        draft.change = _possible(draft.change, group.member_list, members_max)
    except Problem as problem:
        group.refuse(draft, problem)


def _right_for(draft: Draft, member_list: MemberList | None) -> Action:
    assert draft.change is not None
    if KINDS[draft.kind].changes_members:
        return _NEEDS[draft.change.action]
    return "read" if member_list is not None and member_list.head.kind == "direct" else "rename"


def _possible(change: MemberChange, member_list: MemberList, members_max: int) -> MemberChange:
    """The part of a change that the member list allows. Raises NotFound, TooLarge, LastOwner, Forbidden."""
    members, action = member_list.members, change.action
    user_ids = tuple(user_id for user_id in change.user_ids if (user_id in members) != (action == "added"))
    if not user_ids:
        raise NotFound("no such member")
    if action == "added" and len(members) + len(user_ids) > members_max:
        raise TooLarge(f"a conversation has at most {members_max} members")
    if action == "removed" and any(members[user_id].role == "owner" for user_id in user_ids):
        raise Forbidden("the owner cannot be removed")
    if change.role != "owner" and loses_last_owner(member_list, user_ids, action):
        raise LastOwner("a conversation keeps an owner")
    return MemberChange(action, user_ids, change.role)
