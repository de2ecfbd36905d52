"""Summaries of threads: what a root shows of its thread to one member."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.bounds import PAGE_MAX
from tidings.messaging.access import Access
from tidings.messaging.threads.records import THREADS, thread_id, thread_of
from tidings.messaging.threads.unread import ThreadUnread
from tidings.model import ThreadBeside
from tidings.stores.tables.records import Records, of_conversation, seq_name


class ThreadSummaries:
    def __init__(self, access: Access, records: Records, unread: ThreadUnread) -> None:
        self._access = access
        self._records = records
        self._unread = unread

    async def beside(self, user_id: str, conversation_id: str, seqs: Sequence[int]) -> dict[int, ThreadBeside]:
        """seq_no -> the thread as the user sees it, of those of these messages that have replies."""
        found = await self._records.page(
            of_conversation(conversation_id),
            THREADS,
            after=seq_name(min(seqs) - 1),
            before=seq_name(max(seqs) + 1),
            limit=PAGE_MAX,
        )
        threads = {int(record.name): thread_of(record)[0] for record in found}
        threads = {seq: thread for seq, thread in threads.items() if thread.last_seq and seq in seqs}
        if not threads:
            return {}
        member_list = self._access.cached(conversation_id)
        member = member_list.members.get(user_id) if member_list is not None else None
        followed = {
            thread_id(conversation_id, seq): seq
            for seq, thread in threads.items()
            if member is not None and user_id in thread.followers
            if thread.followers[user_id].since_seq == member.joined_seq
        }
        marks = await self._unread.marks(user_id, list(followed)) if followed else {}
        counts = {followed[id_]: mark.shown(self._unread.cap) for id_, mark in marks.items()}
        return {
            seq: ThreadBeside(thread.replies, thread.last_seq, thread.last_ms, counts.get(seq, 0), seq in counts)
            for seq, thread in threads.items()
        }
