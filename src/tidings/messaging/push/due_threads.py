"""Due threads: finds followers of a thread who did not acknowledge a reply within the grace time.

A reply that is in its thread alone is nobody's message in the conversation, so only those who follow are notified. The
thread is recorded as due under its own id (push/due.py). When the notice is made, the follow decides whether the reply
was read meanwhile (push/content.py).
"""

from __future__ import annotations

from tidings import bounds
from tidings.messaging.access import Access
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.push.worker import PushWorker
from tidings.messaging.threads.records import Reply, parts_of, read_replies, read_threads
from tidings.stores.tables.ports import Tables
from tidings.tasks import Recent


class DueThreads:
    def __init__(self, access: Access, blocks: Blocks, tables: Tables, worker: PushWorker, grace_ms: int) -> None:
        self._access = access
        self._blocks = blocks
        self._tables = tables
        self._worker = worker
        self._grace_ms = grace_ms
        self._examined = Recent[str, int](bounds.DUE_RECENT_MAX)  # thread -> checked up to this seq

    async def examine(self, id_: str, now_ms: int) -> int:
        """Queue jobs for followers. Returns the time of the next check; 0: every reply was checked."""
        if not self._worker.has_providers:
            return 0  # nobody can be notified, and a thread has no pending deliveries
        conversation_id, thread_seq = parts_of(id_)
        member_list = await self._access.fresh(conversation_id)
        thread = (await read_threads(self._tables.records, [id_])).get(id_)
        if member_list is None or thread is None:
            return 0
        old_seq = await self._tables.log.seq_at(conversation_id, now_ms - self._grace_ms)
        replies = await self._replies(id_, old_seq)
        newest: dict[str, int] = {}
        for user_id, follower in thread.followers.items():
            member = member_list.members.get(user_id)
            if member is None or member.joined_seq != follower.since_seq or member.is_requested:
                continue
            if seq_no := next((seq for seq, one in replies if self._is_for(one, user_id)), 0):
                newest[user_id] = seq_no
        await self._worker.queue(conversation_id, newest, thread_seq)
        self._examined.put(id_, old_seq)
        return 0 if thread.last_seq <= old_seq else thread.last_ms + self._grace_ms

    async def _replies(self, id_: str, old_seq: int) -> list[tuple[int, Reply]]:
        """The replies that were not checked yet and may be notified, newest first."""
        floor = max(self._examined.get(id_, old_seq - bounds.DUE_ENTRIES_MAX), 0)
        found = await read_replies(
            self._tables.records, id_, after=floor, before=old_seq + 1, newest_first=True, limit=bounds.PAGE_MAX
        )
        loud = [(seq_no, reply) for seq_no, reply in found if not (reply.is_silent or reply.is_deleted)]
        await self._blocks.load({reply.sender_id for _, reply in loud})
        return loud

    def _is_for(self, reply: Reply, user_id: str) -> bool:
        return reply.sender_id != user_id and user_id not in self._blocks.blockers(reply.sender_id)
