"""Stage: index. Every member's inbox and unread counts show a batch before its senders are answered.

One call serves some members of a conversation, for one batch. It is idempotent: a duplicate, a repeated batch or the
work of a dead node is simply indexed again. A call that meets a cold index counts nothing and raises `:gen`. The next
reader rebuilds the index from tables that already hold the entries (unread/rebuild.py). The index of a member who left
while the batch was on its way is made cold, so that it shows them nothing of it. A message that was deleted meanwhile
is taken out again. A large conversation has one index for all its members (unread/line.py), and costs one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from tidings.errors import Unavailable
from tidings.messaging.access import MemberList
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.reading.inbox_rows import InboxRows
from tidings.messaging.send.batch import Batch, numbers_of
from tidings.messaging.send.counters import Counters
from tidings.messaging.send.open_work import OpenWork
from tidings.messaging.unread.count import flags_of, taken_out
from tidings.messaging.unread.line import Line
from tidings.model import EVERYBODY, KINDS, Entry, Head, MemberChange
from tidings.stores.keyspace.call import SLICE_STEPS, Arg, Call, Keyspace, Slices, plain
from tidings.stores.keyspace.scripts.answers import Indexed
from tidings.stores.keyspace.scripts.marks import Flags
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.tally import Added
from tidings.stores.tables.ports import Tables

_CALL_STEPS = SLICE_STEPS // 2  # of one call, which is never cut: 35 members share one number, 4 share 45 of them
_TRIES_MAX = 3  # a keyspace that changes its epoch more often than this during one batch is not up
Digits = Mapping[str, str]  # member -> "1": the numbers of a call count for them, "0": none of them does
Work = tuple[MemberList, Sequence[Entry]]  # the members of a conversation, and entries of its log
LeftOut = Mapping[str | None, Collection[str | None]]  # member -> the senders that do not count for them


class ThreadCall(NamedTuple):
    """The call that shows replies to one follower of their thread."""

    user_id: str
    thread_seq: int
    call: Call[Indexed]
    due: tuple[str, int]  # the id of the thread, and sent_ms of its last reply that is in the thread alone; 0: none


ThreadCalls = Callable[[MemberList, Sequence[Entry], LeftOut], Awaitable[list[ThreadCall]]]


@dataclass(eq=False, repr=False, kw_only=True)
class Index:
    keyspace: Keyspace
    scripts: Scripts
    tables: Tables
    rows: InboxRows
    open_work: OpenWork
    counters: Counters
    blocks: Blocks
    line: Line
    lease_time_ms: Callable[[], int]  # 0: no leases are wanted
    due_calls: Callable[[Iterable[tuple[str, int]]], list[Call[object]]]  # they record what becomes due (push/due.py)
    count_mentions: Callable[[int], object]
    thread_calls: ThreadCalls
    present: Callable[[Mapping[str, object]], Iterable[str]]  # those of these users who are connected here

    def __post_init__(self) -> None:
        self._slices = Slices(self.keyspace)

    async def update(self, batch: Batch) -> None:
        """Index the stored entries of a batch. Raises Unavailable."""
        done = batch.done
        if not done:
            return
        works = [(group.member_list, group.entries()) for group in done if group.member_list is not None]
        counts = await self.index(works, since=batch.epoch_changes, in_lane=True)
        for group, of_members in zip(done, counts, strict=True):
            group.counts = of_members
        batch.lap("index")

    async def index(self, works: Sequence[Work], *, since: int, in_lane: bool = False) -> list[dict[str, Indexed]]:
        """Index entries, and answer the counts of each member. `since` is epoch_changes() when the work began.

        A failover meanwhile may have lost what was counted before it, so the work is indexed again. `in_lane`: this
        node does nothing else in these conversations meanwhile."""
        for _ in range(_TRIES_MAX):
            answers = await self._index_once(works, in_lane=in_lane)
            if self.open_work.epoch_changes() == since:
                await self._show_rewritten(works)
                return answers
            since = self.open_work.epoch_changes()
        raise Unavailable("the keyspace begins one epoch after another")

    async def _show_rewritten(self, works: Sequence[Work]) -> None:
        """Write the inbox rows whose last message was rewritten: they must not keep the old content."""
        for member_list, entries in works:
            rewritten = {entry.target_seq for entry in entries if entry.target_seq and KINDS[entry.kind].rewrites}
            if not rewritten:
                continue
            heads = await self.tables.conversations.heads([member_list.head.conversation_id])
            head = heads.get(member_list.head.conversation_id)
            if head is not None and head.last_seq in rewritten and not head.large_ms:
                await self.rows.write_now(member_list, head)

    async def _index_once(self, works: Sequence[Work], *, in_lane: bool = False) -> list[dict[str, Indexed]]:
        senders = {entry.sender_id for _, entries in works for entry in entries}
        if not self.blocks.is_known(senders):
            await self.blocks.load(senders)
        messages: list[tuple[str, int]] = []  # (conversation_id, sent_ms) of the last message of each work with one
        made: list[list[tuple[Digits, Call[list[Indexed]]]]] = []  # the calls of each work, each with its members
        in_threads: list[tuple[int, ThreadCall]] = []  # the position of the work, and one of its calls
        for member_list, entries in works:
            for entry in [entry for entry in entries if entry.member is not None]:
                assert entry.member is not None
                await self._apply_members(member_list, entry.member, entry)
            replies = [entry for entry in entries if entry.thread_seq is not None]
            concerned = await self._concerned(member_list, entries) if replies else None
            last_ms = max([entry.sent_ms for entry in entries if entry.bumps], default=0)
            if last_ms:
                messages.append((member_list.head.conversation_id, last_ms))
            made.append(self._calls(member_list, entries, last_ms, concerned))
            if replies:
                left_out = self._left_out(member_list, {entry.sender_id for entry in replies})
                followed = await self.thread_calls(member_list, replies, left_out)
                in_threads += [(len(made) - 1, call) for call in followed]
        # These are asked after the index calls. If a member leaves later, the index call of that change corrects the
        # inbox; if a message is deleted later, the index call of that delete corrects the counts. In a direct
        # conversation nobody leaves, and while this node is alone its deletes come through the same lane. Only the
        # takeover of its own work runs beside that lane.
        may_change = not in_lane or self.lease_time_ms() > 0
        changing = [work for work in works if may_change or work[0].head.kind != "direct"]
        keys = [self.scripts.keys.conv(member_list.head.conversation_id) for member_list, _ in changing]
        asked = [plain(key, b"HMGET", key, b"members_seq", b"deleted_seq", b"seq") for key in keys]
        due = self.due_calls(chain(messages, {one.due for _, one in in_threads if one.due[1]}))
        large = [work for work in works if work[0].head.large_ms]
        of_threads = [one.call for _, one in in_threads]
        calls = [call for mine in made for _, call in mine]
        answered = await self._run_in_order([*due, *calls, *of_threads, *map(self._tally, large)], asked)
        indexed = iter(answered[len(due) :])
        answers: list[dict[str, Indexed]] = [
            {user_id: one for members, _ in mine for user_id, one in zip(members, next(indexed), strict=True)}
            for mine in made
        ]
        for at, one in in_threads:
            _add_thread(answers[at], one, next(indexed), is_large=works[at][0].head.large_ms > 0)
        for (member_list, entries), added in zip(large, indexed, strict=False):
            await self.line.settle(member_list.head, entries, is_settled=added.is_settled)
        for (member_list, entries), facts in zip(changing, indexed, strict=True):
            await self._follow_changes(member_list, entries, *facts)
        return answers

    async def _follow_changes(
        self, member_list: MemberList, entries: Sequence[Entry], members_seq: Any, deleted_seq: Any, seq: Any
    ) -> None:
        """Correct the index where a member or a message went while the entries were on their way."""
        is_lost = members_seq is None or seq is None  # the counter, with all that it said of members and deletes
        if not is_lost and _is_behind(int(seq), int(members_seq), member_list, entries):
            await self.counters.seed(member_list.head.conversation_id)
        if is_lost or int(members_seq) > member_list.members_seq:
            await self._follow_members(member_list, entries)
        if entries and (is_lost or int(deleted_seq or 0) > entries[0].seq_no):
            await self._take_out_deleted(member_list, entries)

    async def _concerned(self, member_list: MemberList, entries: Sequence[Entry]) -> Iterable[str]:
        """The members whose counts are wanted. Where nothing counts in the conversation, they are those who are
        connected: a reply that stays in its thread costs nothing for all others."""
        if member_list.head.large_ms:
            return ()
        if any(entry.bumps or KINDS[entry.kind].uncounts or entry.is_deleted for entry in entries):
            return member_list.members
        connected = set(self.present(member_list.members))
        if now_ms := self.lease_time_ms():
            others = [user_id for user_id in member_list.members if user_id not in connected]
            keys = [self.scripts.keys.ws(user_id) for user_id in others]
            leases = await self.keyspace.run([plain(key, b"ZCOUNT", key, now_ms, b"+inf") for key in keys])
            connected.update(user_id for user_id, count in zip(others, leases, strict=True) if count)
        return connected

    async def _run_in_order(self, first: Sequence[Call[Any]], then: Sequence[Call[Any]]) -> list[Any]:
        """One server runs calls in their order; the shards of a cluster do not wait for each other."""
        if not self.keyspace.is_cluster or not then:
            return await self._slices.run([*first, *then])
        return [*await self._slices.run(first), *await self.keyspace.run(then)]

    async def _follow_members(self, member_list: MemberList, entries: Sequence[Entry]) -> None:
        """The member list changed while the batch was on its way. Where the conversation crossed the line, the entries
        are indexed in its other form too."""
        id_ = member_list.head.conversation_id
        head = (await self.tables.conversations.heads([id_])).get(id_)
        if head is None:
            return
        await self._chill_changed(member_list, entries)
        if head.large_ms != member_list.head.large_ms:
            members = [] if head.large_ms else await self.tables.conversations.members(id_)
            newer = MemberList(head, {member.user_id: member for member in members}, head.members_seq)
            await self._index_once([(newer, [entry for entry in entries if entry.member is None])])

    async def _chill_changed(self, member_list: MemberList, entries: Sequence[Entry]) -> None:
        """The inboxes of those who left may show the conversation again, and those of who came back may lack it."""
        id_, tables = member_list.head.conversation_id, self.tables.conversations
        asked = {user_id for entry in entries if entry.member is not None for user_id in entry.member.user_ids}
        if member_list.head.large_ms:  # nothing is written for the other members
            members = await tables.named(id_, asked) if asked else []
        else:
            asked, members = asked | member_list.members.keys(), await tables.members(id_)
        calls: list[Call[Any]] = []
        for user_id in asked & (member_list.members.keys() ^ {member.user_id for member in members}):
            mark = self.scripts.keys.mark(user_id)
            calls += [
                plain(mark, b"HDEL", mark, b"*"),
                plain(mark, b"HINCRBY", mark, b":gen", 1),
                plain(mark, b"EXPIRE", mark, self.scripts.ttl_s),
                self._chill_threads(user_id),
            ]
        if calls:
            await self.keyspace.run(calls)

    async def _take_out_deleted(self, member_list: MemberList, entries: Sequence[Entry]) -> None:
        """Another node deleted something while the batch was on its way: its own index may have come before ours."""
        rows: list[Entry] = []
        for first, last in _runs([entry.seq_no for entry in entries]):  # a resend may be far below the others
            rows += await self.tables.log.page(
                member_list.head.conversation_id,
                after=first - 1,
                before=last + 1,
                limit=last - first + 1,
                newest_first=False,
            )
        indexed = {entry.seq_no for entry in entries if not entry.is_deleted}
        gone = [row.seq_no for row in rows if row.is_deleted and row.seq_no in indexed]
        if gone:
            replies = [row for row in rows if row.seq_no in gone and row.thread_seq is not None]
            followed = await self.thread_calls(member_list, replies, {}) if replies else []
            calls = self._removals(member_list, gone)
            await self.keyspace.run([*calls, *(one.call for one in followed)])

    def _removals(self, member_list: MemberList, gone: Sequence[int]) -> list[Call[Any]]:
        if member_list.head.large_ms:
            return [self.line.tally(member_list.head, (), gone)]
        id_ = member_list.head.conversation_id
        shared = self.scripts.inbox_index_args(id_, score_ms=0, added=(), removed=gone, now_ms=0)
        return [call for _, call in self._together(id_, dict.fromkeys(member_list.members, "1"), shared)]

    def _chill_threads(self, user_id: str) -> Call[int]:
        """All threads of a user are counted anew: the user follows none of a conversation any more."""
        return self.scripts.threads.unread_put(user_id, "left", hold_ms=-1)

    def _tally(self, work: Work) -> Call[Added]:
        member_list, entries = work
        if any(entry.mentions for entry in entries):
            self.count_mentions(sum(_reach(entry, member_list) for entry in entries if entry.counts))
        return self.line.tally(member_list.head, entries)

    def _calls(
        self, member_list: MemberList, entries: Sequence[Entry], score_ms: int, concerned: Iterable[str] | None
    ) -> list[tuple[Digits, Call[list[Indexed]]]]:
        """The calls for all members, or for those who are concerned. A large conversation has none."""
        if member_list.head.large_ms:
            return []
        conversation_id = member_list.head.conversation_id
        counted = [entry for entry in entries if entry.counts]
        removed = taken_out(entries) if len(counted) < len(entries) else ()
        apart = self._left_out(member_list, {entry.sender_id for entry in counted})
        now_ms = self.lease_time_ms()

        def args(numbers: tuple[Arg, ...]) -> tuple[Arg, ...]:
            return self.scripts.inbox_index_args(
                conversation_id, score_ms=score_ms, added=numbers, removed=removed, now_ms=now_ms
            )

        if any(entry.mentions for entry in counted):
            for user_id in self._mentioned(member_list, counted):
                apart.setdefault(user_id, ())
        shared = numbers_of(counted, "", ())
        members = dict.fromkeys(member_list.members if concerned is None else concerned, "1")
        groups: dict[tuple[Arg, ...], dict[str, str]] = {shared: members}  # by the numbers that count for them
        for user_id in [user_id for user_id in apart if user_id in members]:
            if (numbers := numbers_of(counted, user_id, apart[user_id])) and numbers != shared:
                groups.setdefault(numbers, {})[user_id] = members.pop(user_id)
            elif not numbers:
                members[user_id] = "0"
        return [one for numbers, mine in groups.items() for one in self._together(conversation_id, mine, args(numbers))]

    def _together(
        self, conversation_id: str, members: Digits, shared: tuple[Arg, ...]
    ) -> list[tuple[Digits, Call[list[Indexed]]]]:
        """The calls for members who share their arguments. The servers of a cluster need one for each member."""
        size = 1 if self.keyspace.is_cluster else max(1, _CALL_STEPS // len(shared))
        slices = sliced(members, size)
        return [(some, self.scripts.inbox_index_all(some, conversation_id, shared)) for some in slices]

    def _mentioned(self, member_list: MemberList, counted: Sequence[Entry]) -> set[str]:
        """The members whom some entry mentions by name."""
        named = {user_id for entry in counted if entry.mentions for user_id in entry.mentions}
        if named:
            self.count_mentions(sum(_reach(entry, member_list) for entry in counted if entry.mentions))
        return named & member_list.members.keys()

    def _left_out(self, member_list: MemberList, senders: Set[str | None]) -> dict[str | None, Collection[str | None]]:
        """Member -> the senders that do not count: the member, the people whom they blocked, in a request everybody."""
        apart: dict[str | None, Collection[str | None]] = {sender_id: {sender_id} for sender_id in senders}
        for sender_id in senders if self.blocks.has_blocker(senders) else ():
            for user_id in self.blocks.blockers(sender_id) & member_list.members.keys():
                apart[user_id] = {*apart.get(user_id, ()), sender_id}
        if member_list.head.kind == "direct":
            apart |= {user_id: senders for user_id, member in member_list.members.items() if member.is_requested}
        return apart

    async def _apply_members(self, member_list: MemberList, change: MemberChange, entry: Entry) -> None:
        """A conversation enters or leaves inboxes, as the member list says now."""
        conversation_id, members = member_list.head.conversation_id, member_list.members
        left = [user_id for user_id in change.user_ids if user_id not in members]
        calls: list[Call[Any]] = [self.scripts.inbox_leave(user_id, conversation_id) for user_id in left]
        calls += [self._chill_threads(user_id) for user_id in left]
        if change.action == "added":
            present = [user_id for user_id in change.user_ids if user_id in members]
            joined = [user_id for user_id in present if members[user_id].joined_seq == entry.seq_no]
            calls += await asyncio.gather(*(self._join(member_list.head, user_id, entry) for user_id in joined))
        if change.action == "accepted":  # what was written before counts from now on
            put, token = self.scripts.unread_put, f"accepted-{entry.seq_no}"
            cold = [put(id_, token, hold_ms=-1, conversation_id=conversation_id) for id_ in change.user_ids]
            await self.keyspace.run(cold)
        if calls:
            await self.keyspace.run(calls)

    async def _join(self, head: Head, user_id: str, entry: Entry) -> Call[bool]:
        conversation_id, line_ms = head.conversation_id, head.large_ms
        status = (await self.tables.statuses.get(user_id, [conversation_id])).get(conversation_id)
        row = (await self.tables.inboxes.rows(user_id, [conversation_id])).get(conversation_id)
        return self.scripts.inbox_join(
            user_id,
            conversation_id,
            score_ms=entry.sent_ms,
            version=status.version if status else 0,
            cursor=entry.seq_no,
            flags=flags_of(row, entry.sent_ms, line_ms=line_ms) if row is not None else Flags(line_ms=line_ms),
        )


def _is_behind(seq: int, members_seq: int, member_list: MemberList, entries: Sequence[Entry]) -> bool:
    """Say whether the counter was lost while these entries, or a change of their members, were on their way.

    A message that is sent after these are acknowledged must stand above them, on any node, and a node with an older
    member list must hear of the change.
    """
    return members_seq < member_list.members_seq or (bool(entries) and seq < entries[-1].seq_no)


def _runs(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as stretches without a gap."""
    runs: list[tuple[int, int]] = []
    for seq_no in seqs:
        if runs and seq_no <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], seq_no)
        else:
            runs.append((seq_no, seq_no))
    return runs


def _add_thread(answers: dict[str, Indexed], one: ThreadCall, found: Indexed, *, is_large: bool) -> None:
    """Put the counts of a thread beside those of the conversation, for a member who is connected.

    In a large conversation no counts go with an entry, so those of the thread are pushed a moment later."""
    mine = answers.get(one.user_id)
    if is_large:
        late = (mine.threads if mine is not None else None) or {}
        answers[one.user_id] = Indexed(
            False, False, 0, False, 0, found.leases, threads=late | {one.thread_seq: (None, None)}
        )
        return
    if mine is not None:
        is_known = found.total_unread is not None
        counts = found.unread_count, found.unread_conversations if is_known else None
        answers[one.user_id] = msgspec.structs.replace(mine, threads=(mine.threads or {}) | {one.thread_seq: counts})


def sliced(members: Digits, size: int) -> list[Digits]:
    """The members in parts of this size."""
    if len(members) <= size:
        return [members] if members else []
    rest = iter(members.items())
    return [dict(islice(rest, size)) for _ in range(0, len(members), size)]


def _reach(entry: Entry, member_list: MemberList) -> int:
    """How many members the entry mentions."""
    if entry.mentions == (EVERYBODY,):
        return len(member_list.members)
    return len(member_list.members.keys() & set(entry.mentions))
