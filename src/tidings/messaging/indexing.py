"""Stage: index. Every member's inbox and unread show a batch before anybody hears that it was sent.

One call per member, conversation and batch. It is idempotent: a duplicate, a repeated batch or the work of a dead node
is simply indexed again. A call that meets something COLD counts nothing and raises `:gen`, so whoever looks next
rebuilds from tables that already hold the entries (rebuild.py). Somebody who left while a batch was on its way is made
COLD, so that it shows nothing to them; a message that was deleted meanwhile is taken out again. Used by send.py and
repair.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from tidings.errors import Unavailable
from tidings.messaging.access import Roster
from tidings.model import Entry, MemberChange
from tidings.stores.calls import Arg, Call, Keyspace, plain
from tidings.stores.ports import Conversations, Messages, Statuses
from tidings.stores.scripts import Indexed, Scripts

_TRIES_MAX = 3  # a keyspace that changes its epoch more often than this during one batch is not up


class Tables(Messages, Statuses, Conversations, Protocol):
    """What an index reads."""


class Indexing:
    def __init__(
        self,
        keyspace: Keyspace,
        scripts: Scripts,
        tables: Tables,
        epoch_changes: Callable[[], int],
        lease_time_ms: Callable[[], int],
        due_calls: Callable[[Iterable[tuple[str, int]]], list[Call[object]]] = lambda sent: [],
        *,
        is_ordered: bool = True,
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._tables = tables
        self._epoch_changes = epoch_changes
        self._lease_time_ms = lease_time_ms  # 0: leases are not wanted
        self._is_ordered = is_ordered  # False: the keyspace is several servers
        self._due_calls = due_calls  # what records that somebody looks who has not acknowledged (pending.py)

    async def index(self, works: Sequence[tuple[Roster, Sequence[Entry]]], *, since: int) -> list[dict[str, Indexed]]:
        """What each member sees now. `since`: epoch_changes() when the batch began.

        A failover meanwhile may have lost what was counted before it, so the batch is indexed again.
        """
        for _ in range(_TRIES_MAX):
            answers = await self._index_once(works)
            if self._epoch_changes() == since:
                return answers
            since = self._epoch_changes()
        raise Unavailable("the keyspace begins one life after another")

    async def _index_once(self, works: Sequence[tuple[Roster, Sequence[Entry]]]) -> list[dict[str, Indexed]]:
        calls: list[Call[Any]] = []
        users: list[list[str]] = []
        for roster, entries in works:
            for entry in entries:
                if entry.member is not None:
                    await self._apply_members(roster, entry.member, entry)
            mine = self._calls(roster, entries)
            users.append([user_id for user_id, _ in mine])
            calls += [call for _, call in mine]
        # Asked after the index calls: who leaves later than this is taken out of the inbox by the change itself, and
        # what is deleted later than this is taken out of the counts by the delete itself. In a direct conversation
        # nobody leaves, and while this node is alone its deletes come through the same lane.
        changing = [work for work in works if work[0].head.kind != "direct" or self._lease_time_ms()]
        keys = [self._scripts.keys.conv(roster.head.conversation_id) for roster, _ in changing]
        asked = [plain(key, b"HMGET", key, b"members_seq", b"deleted_seq") for key in keys]
        noted = self._due_calls(_last_messages(works))
        replies = await self._run_in_order([*noted, *calls], asked)
        indexed = iter(replies[len(noted) :])
        answers = [{user_id: next(indexed) for user_id in group} for group in users]
        for (roster, entries), (members_seq, deleted_seq) in zip(changing, indexed, strict=True):
            if int(members_seq or 0) > roster.members_seq:
                await self._hide_from_left(roster)
            if entries and int(deleted_seq or 0) > entries[0].seq_no:
                await self._take_out_deleted(roster, entries)
        return answers

    async def _run_in_order(self, first: Sequence[Call[Any]], then: Sequence[Call[Any]]) -> list[Any]:
        """One server takes calls in their order; the shards of a cluster do not wait for each other."""
        if self._is_ordered or not then:
            return await self._keyspace.run([*first, *then])
        return [*await self._keyspace.run(first), *await self._keyspace.run(then)]

    async def _hide_from_left(self, roster: Roster) -> None:
        """The member list changed while the batch was on its way: to those who left, it may now show again."""
        present = {member.user_id for member in await self._tables.members(roster.head.conversation_id)}
        calls: list[Call[Any]] = []
        for user_id in roster.members.keys() - present:
            mark = self._scripts.keys.mark(user_id)
            calls += [
                plain(mark, b"HDEL", mark, b"*"),
                plain(mark, b"HINCRBY", mark, b":gen", 1),
                plain(mark, b"EXPIRE", mark, self._scripts.ttl_s),
            ]
        if calls:
            await self._keyspace.run(calls)

    async def _take_out_deleted(self, roster: Roster, entries: Sequence[Entry]) -> None:
        """Another node deleted something while the batch was on its way: its own index may have come before ours."""
        rows: list[Entry] = []
        for first, last in _runs([entry.seq_no for entry in entries]):  # a resend may stand far below the others
            rows += await self._tables.page(
                roster.head.conversation_id,
                after=first - 1,
                before=last + 1,
                limit=last - first + 1,
                newest_first=False,
            )
        indexed = {entry.seq_no for entry in entries if not entry.is_deleted}
        gone = [row.seq_no for row in rows if row.is_deleted and row.seq_no in indexed]
        if gone:
            shared = self._scripts.inbox_index_args(
                roster.head.conversation_id, score_ms=0, added=(), removed=gone, now_ms=0
            )
            index = self._scripts.inbox_index_with
            await self._keyspace.run([index(id_, roster.head.conversation_id, shared) for id_ in roster.members])

    def _calls(self, roster: Roster, entries: Sequence[Entry]) -> list[tuple[str, Call[Indexed]]]:
        conversation_id = roster.head.conversation_id
        counted = [entry for entry in entries if entry.kind == "message" and not entry.is_deleted]
        messages = [entry.sent_ms for entry in entries if entry.kind == "message"]
        score_ms = max(messages, default=0)
        removed = [entry.target_seq or 0 for entry in entries if entry.kind == "delete"]
        # Whoever counted it before it was deleted may have died before it took that back.
        removed += [entry.seq_no for entry in entries if entry.kind == "message" and entry.is_deleted]
        senders = {entry.sender_id for entry in counted}
        now_ms = self._lease_time_ms()

        def args(but: str | None) -> tuple[Arg, ...]:
            return self._scripts.inbox_index_args(
                conversation_id, score_ms=score_ms, added=_flat(counted, but), removed=removed, now_ms=now_ms
            )

        shared, index = args(but=None), self._scripts.inbox_index_with
        return [
            (user_id, index(user_id, conversation_id, shared if user_id not in senders else args(but=user_id)))
            for user_id in roster.members
        ]

    async def _apply_members(self, roster: Roster, change: MemberChange, entry: Entry) -> None:
        """A conversation enters or leaves inboxes, as the member list now says."""
        conversation_id, members = roster.head.conversation_id, roster.members
        left = [user_id for user_id in change.user_ids if user_id not in members]
        calls = [self._scripts.inbox_leave(user_id, conversation_id) for user_id in left]
        if change.action == "added":
            present = [user_id for user_id in change.user_ids if user_id in members]
            joined = [user_id for user_id in present if members[user_id].joined_seq == entry.seq_no]
            calls += await asyncio.gather(*(self._join(conversation_id, user_id, entry) for user_id in joined))
        if calls:
            await self._keyspace.run(calls)

    async def _join(self, conversation_id: str, user_id: str, entry: Entry) -> Call[bool]:
        status = (await self._tables.get(user_id, [conversation_id])).get(conversation_id)
        return self._scripts.inbox_join(
            user_id,
            conversation_id,
            score_ms=entry.sent_ms,
            version=status.version if status else 0,
            cursor=entry.seq_no,
        )


def _last_messages(works: Sequence[tuple[Roster, Sequence[Entry]]]) -> Iterator[tuple[str, int]]:
    """(conversation_id, sent_ms) of the last message of each group that has one."""
    for roster, entries in works:
        last_ms = max((entry.sent_ms for entry in entries if entry.kind == "message"), default=0)
        if last_ms:
            yield roster.head.conversation_id, last_ms


def _runs(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as stretches without a gap."""
    runs: list[tuple[int, int]] = []
    for seq_no in seqs:
        if runs and seq_no <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], seq_no)
        else:
            runs.append((seq_no, seq_no))
    return runs


def _flat(entries: Sequence[Entry], but: str | None) -> tuple[Arg, ...]:
    """A member's own messages do not count for them."""
    return tuple(part for entry in entries if entry.sender_id != but for part in (entry.seq_no, entry.sent_ms))
