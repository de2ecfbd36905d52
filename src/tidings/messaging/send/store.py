"""Stage: store. All entries of a conversation in the batch commit together or not at all, and the log decides.

The tables answer for each entry, and there are four answers besides "stored":
- Its id was stored before: it is a duplicate, and its sender gets the first number.
- Its number belongs to another entry: the counter was wrong. It is seeded from the log, and the whole group is numbered
  again in its order. The old numbers are closed, unless the counter that gave them is lost.
- An edit with a higher number was stored first: the edit is numbered again, because the log is the order of rewrites.
- No answer: the same numbers are tried again. A row that is ours already is recognised, so nothing is stored twice.
  Each group has its own answer: a group that is throttled costs the others a moment, never their acknowledgement.
A draft is done only when its own row was written or read: a known id alone is no reason to acknowledge it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec

from tidings.bounds import GAP_CLOSE_S, MEMBERS_LARGE, RENUMBER_MAX, STORE_DEADLINE_S, STORE_SHARED_S
from tidings.clock import Clock
from tidings.errors import IdConflict, NotFound, StoreError, StoreUnavailable, Throttled, Unavailable
from tidings.messaging.access import MemberList
from tidings.messaging.integration.hooks import Hooks
from tidings.messaging.log import Log, entry_at
from tidings.messaging.people.mentions import mentioned
from tidings.messaging.send.batch import Batch, BatchGroup, read_companions
from tidings.messaging.send.counters import Counters
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.number import Number
from tidings.messaging.unread.line import crossed
from tidings.model import KINDS, Entry, Member, Row, void_at
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Put
from tidings.stores.tables.values import Group, Refused, Rewrite, Stored

_PAUSE_S = 0.05  # before the same numbers are tried again
_NO_REV = -1  # no row has it: the tables refuse a rewrite that expects it before they store anything
Positions = Sequence[Draft | None]  # the draft of each entry in a commit; None: the entry is a void


@dataclass(eq=False, repr=False)
class Store:
    messages: Messages
    log: Log
    counters: Counters
    number: Number
    hooks: Hooks
    clock: Clock
    members_large: int

    async def commit(self, batch: Batch) -> None:
        """Store the batch: every draft ends as done or refused. Raises Unavailable when nothing can be asked."""
        if not batch.live:
            return
        for group in batch.live:
            if group.has_known and any(draft.is_known for draft in group.drafts):
                await self._settle_known(group)
                await self._renumber_overtaken(group)
        began_s = self.clock.monotonic_s()
        waiting = _unfinished(batch.live)
        while waiting:
            undecided = await self._append(waiting)
            if undecided:
                is_shared = len(undecided) < len(batch.live)  # the others wait for their answers
                deadline_s = began_s + (STORE_SHARED_S if is_shared else STORE_DEADLINE_S)
                await self._retry_or_give_up(undecided, deadline_s)
            waiting = _unfinished(waiting)
        batch.lap("store")

    async def _append(self, groups: Sequence[BatchGroup]) -> list[tuple[BatchGroup, StoreError]]:
        """Try to store the groups, take the verdicts, and answer the groups that have none, each with its error."""
        news, large = self.hooks.news, self.members_large
        commits = [to_group(group, news(group.conversation_id), members_large=large) for group in groups]
        try:
            answers = await self.messages.append([sent for sent, _ in commits])
        except (Unavailable, Throttled) as error:
            return [(group, error) for group in groups]
        undecided: list[tuple[BatchGroup, StoreError]] = []
        for group, (sent, positions), answer in zip(groups, commits, answers, strict=True):
            if answer is None or isinstance(answer, Stored):
                take_stored(group, sent.entries, positions, answer)
                if sent.puts:
                    self.hooks.noted(group.conversation_id)
            elif isinstance(answer, Refused):
                await self._resolve(group, positions, answer)
            else:
                undecided.append((group, answer))
        return undecided

    async def _retry_or_give_up(self, undecided: Sequence[tuple[BatchGroup, StoreError]], deadline_s: float) -> None:
        """Refuse the groups that cannot be tried again; before the others are tried again, make a pause."""
        is_late = self.clock.monotonic_s() > deadline_s
        over = [group for group, error in undecided if is_late or not _may_pass(error)]
        _give_up(over)
        if len(over) < len(undecided):
            for group, _ in undecided:
                group.is_retried = True
            await asyncio.sleep(_PAUSE_S)

    async def _settle_known(self, group: BatchGroup) -> None:
        """Read the rows of ids that had a number before."""
        known = [draft for draft in group.drafts if draft.is_known]
        rows = await asyncio.gather(*(entry_at(self.messages, group.conversation_id, draft.seq_no) for draft in known))
        is_lost, taken = False, set[int]()
        top = await self.log.top(group.conversation_id) if None in rows else 0
        old_ms = self.clock.now_ms() - GAP_CLOSE_S * 1000
        for draft, row in zip(known, rows, strict=True):
            if row is not None and draft.is_in(row):
                group.found(draft, row)
            elif row is not None:
                is_lost = True  # the number was voided, or is another entry's
                taken.add(draft.seq_no)
            elif draft.sent_ms < old_ms or draft.seq_no < top:
                is_lost = True  # delivery may take so old a number for routed; or earlier messages stand above it
            # Without a row: the try that had the number did not store it. This one does, under that number.
        is_lost |= (seq_nos := [draft.seq_no for draft in group.drafts]) != sorted(seq_nos)  # of different tries
        if stored := [draft.entry for draft in group.done if draft.entry is not None]:
            await self.messages.catch_up(group.conversation_id, stored)
        if is_lost:
            await self._renumber(group, taken)

    async def _renumber_overtaken(self, group: BatchGroup) -> None:
        """Number rewrites again whose target has a rewrite with a higher number.

        A reader of the log in its order must end with the content of the row.
        """
        if any(draft.is_overtaken for draft in group.drafts):
            await self._renumber(group, ())

    async def _renumber(self, group: BatchGroup, taken: Collection[int]) -> None:
        """Give the whole group other numbers, in its order, so that all of them are of one counter.

        The next commit closes the old ones, where they are free and the counter still is the same.
        """
        await self.number.forget(group, group.drafts)
        for draft in group.drafts:
            if draft.seq_no not in taken:
                group.voids.append((draft.seq_no, draft.sent_ms))
            draft.seq_no, draft.is_known = 0, False
        await self.number.number([group])

    async def _resolve(self, group: BatchGroup, positions: Positions, refused: Refused) -> None:
        """Change a group that was not stored, so that the next try may store it."""
        group.renumbered += 1
        if refused.is_gone:
            group.is_gone = True
            group.refuse_all(NotFound("no such conversation"))
            group.voids.clear()
        elif group.renumbered > RENUMBER_MAX:
            group.refuse_all(StoreUnavailable("no free numbers were found"))
            group.voids.clear()
        elif refused.known:
            await self._take_known(group, positions, refused)
        elif refused.taken:
            await self.counters.seed(group.conversation_id)
            taken = {draft.seq_no for at, draft in enumerate(positions) if draft is not None and at in refused.taken}
            await self._renumber(group, taken)
        elif refused.is_stale:
            await self._read_targets(group)
            await read_companions(group)
            await self._renumber_overtaken(group)

    async def _take_known(self, group: BatchGroup, positions: Positions, refused: Refused) -> None:
        """Take the rows of ids that were stored before.

        A row at the very number of its draft is of an earlier try: ours, or that of the node that had the number first.
        """
        seq_nos = [known.seq_no for known in refused.known.values()]
        rows = await asyncio.gather(*(entry_at(self.messages, group.conversation_id, seq_no) for seq_no in seq_nos))
        elsewhere: list[tuple[Draft, Entry]] = []
        for (position, known), row in zip(refused.known.items(), rows, strict=True):
            draft = positions[position]
            assert draft is not None
            if row is None or not draft.is_in(row):
                continue  # the conversation is being deleted, or the row is being mended: the next try tells
            if row.seq_no != draft.seq_no:
                elsewhere.append((draft, row))
            elif draft.says(row):
                group.stored(draft, row)
                # Another node that knows the id has the same number, and may have stored it first.
                is_own_try = group.is_retried and not draft.is_known
                draft.is_duplicate = not (known.is_written or is_own_try)
            else:
                draft.is_known = True  # the number is not ours to close
                group.refuse(draft, IdConflict())
        is_noted = await self.number.correct(group, elsewhere)
        for draft, row in elsewhere:
            group.found(draft, row)
        if not is_noted:
            group.voids.clear()

    async def _read_targets(self, group: BatchGroup) -> None:
        """Read the targets of edits and deletes again: one of them changed meanwhile."""
        for draft in [draft for draft in group.drafts if draft.target is not None]:
            assert draft.target is not None
            target = await self.log.entry(group.conversation_id, draft.target.seq_no)
            if target is None or target.is_deleted:
                group.refuse(draft, NotFound("no such message"))
                continue
            draft.target = target
            if draft.patch is not None:
                draft.content = draft.patch.apply(target.content)


def _may_pass(error: StoreError) -> bool:
    """Whether the same numbers may be tried again: the store asks for less, or did not answer."""
    return isinstance(error, Throttled) or (isinstance(error, Unavailable) and error.is_ambiguous)


def take_stored(group: BatchGroup, entries: Sequence[Entry], positions: Positions, stored: Stored | None) -> None:
    """Each draft whose own entry was written is done; any other goes on."""
    left_out = stored.left_out if stored is not None else ()
    for at, (entry, draft) in enumerate(zip(entries, positions, strict=True)):
        if draft is not None and at not in left_out:
            draft.entry = entry
            group.done.append(draft)
    group.drafts = [draft for draft in group.drafts if draft.entry is None] if left_out else []
    group.voids = []


def _unfinished(groups: Sequence[BatchGroup]) -> list[BatchGroup]:
    return [group for group in groups if group.awaited is None and (group.drafts or group.voids)]


def _give_up(groups: Sequence[BatchGroup]) -> None:
    for group in groups:
        group.leave_undecided()
        group.refuse_all(StoreUnavailable())
        group.voids = []


# --- the commit of a group: entries, rewrites of older ones, members and their inbox rows ---


def to_group(
    group: BatchGroup, beside: tuple[Put, ...] = (), *, members_large: int = MEMBERS_LARGE
) -> tuple[Group, Positions]:
    """The commit of a group, with records beside its own, and the draft of each of its entries."""
    assert group.member_list is not None
    if group.is_plain and not group.voids and not group.has_known:
        entries = tuple([to_plain_entry(draft, group.member_list) for draft in group.drafts])
        return Group(conversation_id=group.conversation_id, entries=entries, puts=beside), list(group.drafts)
    pairs: list[tuple[Entry, Draft | None]] = [(to_entry(draft, group.member_list), draft) for draft in group.drafts]
    if group.voids:
        pairs += [(void_at(group.conversation_id, *void), None) for void in group.voids]
    if group.voids or any(draft.is_known for draft in group.drafts):
        pairs.sort(key=lambda pair: pair[0].seq_no)
    entries = tuple(entry for entry, _ in pairs)
    positions = [draft for _, draft in pairs]
    own = [draft.companion.puts(entry) for entry, draft in pairs if draft is not None and draft.companion is not None]
    puts = (*chain.from_iterable(own), *beside)
    if group.is_member_change:
        changed = msgspec.structs.replace(_member_group(group, entries), puts=puts)
        return _across(changed, group.member_list, members_large), positions
    rewrites = tuple(_rewrite(draft) for draft in group.drafts if draft.target is not None)
    return Group(conversation_id=group.conversation_id, entries=entries, rewrites=rewrites, puts=puts), positions


def to_plain_entry(draft: Draft, member_list: MemberList) -> Entry:
    """The entry of a text and nothing else."""
    return Entry(
        draft.conversation_id,
        draft.seq_no,
        draft.kind,
        draft.sent_ms,
        draft.message_id,
        draft.sender_id,
        _receiver_of(draft, member_list) if member_list.head.kind == "direct" else None,
        draft.content,
        draft.sent_ms if draft.timestamp is None else draft.timestamp,
        draft.digest,
    )


def _receiver_of(draft: Draft, member_list: MemberList) -> str | None:
    """The other member of a direct conversation."""
    for user_id in member_list.members:
        if user_id != draft.sender_id:
            return user_id
    return None


def to_entry(draft: Draft, member_list: MemberList) -> Entry:
    is_direct = member_list.head.kind == "direct" and KINDS[draft.kind].counts
    receiver_id = _receiver_of(draft, member_list) if is_direct else None
    timestamp = draft.timestamp
    return Entry(
        conversation_id=draft.conversation_id,
        seq_no=draft.seq_no,
        kind=draft.kind,
        sent_ms=draft.sent_ms,
        message_id=draft.message_id,
        sender_id=draft.sender_id,
        receiver_id=receiver_id,
        content=draft.content,
        timestamp=draft.sent_ms if timestamp is None else timestamp,
        digest=draft.digest,
        member=draft.change if KINDS[draft.kind].changes_members else None,
        target_seq=draft.target.seq_no if draft.target is not None else draft.target_seq,
        is_uncounted=draft.content is not None and draft.content.is_uncounted,
        thread_seq=_thread_of(draft),
        mentions=mentioned(draft.content, draft.here or ()) if KINDS[draft.kind].counts else (),
    )


def _thread_of(draft: Draft) -> int | None:
    """The root of the thread of a reply, or of the reply that the draft rewrites."""
    if draft.target is not None:
        return draft.target.thread_seq
    return draft.content.thread_seq if draft.content is not None and KINDS[draft.kind].counts else None


def _rewrite(draft: Draft) -> Rewrite:
    target = draft.target
    assert target is not None
    is_deleted = KINDS[draft.kind].uncounts
    is_end = target.content is not None and target.content.state == "streaming"  # no edit: it was never finished
    return Rewrite(
        target_seq=target.seq_no,
        # Deleted is for ever: only the dedupe verdict is wanted then, and it comes before the verdict on the rev.
        expected_rev=_NO_REV if target.is_deleted else target.rev,
        content=None if is_deleted else draft.content,
        is_deleted=is_deleted,
        edited_ms=target.edited_ms if is_deleted or is_end else draft.sent_ms,
        edit_seq=None if is_deleted else draft.seq_no,  # after a delete no entry holds the content
        wipe_seq=target.edit_seq,
        sender_id=target.sender_id,
    )


def _member_group(group: BatchGroup, entries: tuple[Entry, ...]) -> Group:
    (draft,) = group.drafts
    member_list, change = group.member_list, draft.change
    assert member_list is not None and change is not None
    if change.action == "added":
        joined = [_joined(draft, user_id) for user_id in change.user_ids]
        rows = tuple(_row(member_list, member) for member in joined)
        return Group(conversation_id=group.conversation_id, entries=entries, members=tuple(joined), rows_added=rows)
    present = [member_list.members[user_id] for user_id in change.user_ids]
    if change.action == "role":
        assert change.role is not None
        changed = tuple(msgspec.structs.replace(member, role=change.role) for member in present)
        return Group(conversation_id=group.conversation_id, entries=entries, members=changed)
    if change.action == "accepted":
        accepted = tuple(msgspec.structs.replace(member, is_requested=False) for member in present)
        return Group(
            conversation_id=group.conversation_id, entries=entries, members=accepted, rows_accepted=change.user_ids
        )
    gone = tuple(msgspec.structs.replace(member, left_seq=draft.seq_no) for member in present)
    return Group(conversation_id=group.conversation_id, entries=entries, members=gone, rows_removed=change.user_ids)


def _across(group: Group, member_list: MemberList, members_large: int) -> Group:
    """The commit of a member change, with the line where it crosses it."""
    present = {member.user_id for member in group.members if member.left_seq is None}
    gone = {member.user_id for member in group.members} - present
    count = len(member_list.members.keys() | present) - len(gone)
    large_ms = crossed(member_list.head, count, members_large, group.entries[-1].sent_ms)
    return group if large_ms is None else msgspec.structs.replace(group, large_ms=large_ms)


def _joined(draft: Draft, user_id: str) -> Member:
    role = draft.change.role if draft.change is not None and draft.change.role is not None else "member"
    return Member(
        conversation_id=draft.conversation_id,
        user_id=user_id,
        role=role,
        joined_seq=draft.seq_no,
        joined_ms=draft.sent_ms,
    )


def _row(member_list: MemberList, member: Member) -> Row:
    head = member_list.head
    is_visible = head.history == "all" and not head.large_ms  # the row of a large one has no message of its own
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
        last_message=head.last_message if is_visible else None,
        role=member.role,
    )
