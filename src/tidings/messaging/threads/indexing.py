"""Indexing: the followers' indexes of threads show a batch of replies. A reply costs one call for each follower.

Like the calls of the index stage, these are idempotent, and a cold index only records the change. The followers are
read from the tables, because a reply that was just stored may have brought new ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from tidings.messaging.access import MemberList
from tidings.messaging.send.batch import numbers_of
from tidings.messaging.send.index import LeftOut, ThreadCall
from tidings.messaging.threads.records import Thread, follow_key, follow_of, parts_of, read_one, read_threads, thread_id
from tidings.messaging.unread.count import taken_out
from tidings.model import Entry
from tidings.stores.keyspace.call import Call, Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.records import Records


class ThreadIndex:
    def __init__(
        self, keyspace: Keyspace, scripts: Scripts, records: Records, lease_time_ms: Callable[[], int]
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts.threads
        self._records = records
        self._lease_time_ms = lease_time_ms  # 0: no leases are wanted

    async def calls(self, member_list: MemberList, entries: Sequence[Entry], left_out: LeftOut) -> list[ThreadCall]:
        """The calls that show these entries to the followers of their threads. New followers join first."""
        conversation_id = member_list.head.conversation_id
        by_thread: dict[int, list[Entry]] = {}
        for entry in entries:
            if entry.thread_seq is not None:
                by_thread.setdefault(entry.thread_seq, []).append(entry)
        threads = await read_threads(self._records, [thread_id(conversation_id, seq) for seq in by_thread])
        joins: list[Call[bool]] = []
        calls: list[ThreadCall] = []
        for thread_seq, replies in by_thread.items():
            thread = threads.get(thread_id(conversation_id, thread_seq), Thread())
            followers = _followers(thread, member_list)
            joins += await self._joins(conversation_id, thread_seq, thread, followers, replies)
            # In a large conversation nobody else finds out where the followers are connected.
            now_ms = self._lease_time_ms() if member_list.head.large_ms else 0
            id_ = thread_id(conversation_id, thread_seq)
            calls += self._indexed(id_, thread, followers, replies, left_out, now_ms)
        if joins:
            await self._keyspace.run(joins)
        return calls

    def _indexed(
        self,
        id_: str,
        thread: Thread,
        followers: Mapping[str, int],
        replies: Sequence[Entry],
        left_out: LeftOut,
        now_ms: int,
    ) -> list[ThreadCall]:
        counted = [entry for entry in replies if entry.counts_in_thread]
        # A first reply that is silent counts for nobody, and all the same the thread is in the lists from now on.
        moving = [entry for entry in replies if entry.counts_in_thread or entry.seq_no == thread.last_seq]
        score_ms = max((entry.sent_ms for entry in moving), default=0)
        due_ms = max((entry.sent_ms for entry in counted if not entry.counts), default=0)
        return [
            ThreadCall(
                user_id,
                parts_of(id_)[1],
                self._scripts.inbox_index(
                    user_id,
                    id_,
                    score_ms=score_ms,
                    added=numbers_of(counted, user_id, left_out.get(user_id, ())),
                    removed=taken_out(replies),
                    now_ms=now_ms,
                ),
                (id_, due_ms),
            )
            for user_id in followers
        ]

    async def _joins(
        self,
        conversation_id: str,
        thread_seq: int,
        thread: Thread,
        followers: Mapping[str, int],
        replies: Sequence[Entry],
    ) -> list[Call[bool]]:
        """The calls that bring a thread into the index of those whom one of these replies made follow it."""
        seqs = {entry.seq_no for entry in replies}
        new = [user_id for user_id, reply_seq in followers.items() if reply_seq in seqs]
        keys = [follow_key(user_id, conversation_id, thread_seq) for user_id in new]
        found = await asyncio.gather(*(read_one(self._records, key) for key in keys))
        joins: list[Call[bool]] = []
        for user_id, record in zip(new, found, strict=True):
            follow, version = follow_of(record)
            joins.append(
                self._scripts.inbox_join(
                    user_id,
                    thread_id(conversation_id, thread_seq),
                    score_ms=thread.last_ms,
                    version=version,
                    cursor=follow.cursor_seq,
                )
            )
        return joins


def _followers(thread: Thread, member_list: MemberList) -> dict[str, int]:
    """The followers who are members now, each with the reply that made them follow."""
    members = member_list.members
    return {
        user_id: one.reply_seq
        for user_id, one in thread.followers.items()
        if user_id in members and members[user_id].joined_seq == one.since_seq
    }
