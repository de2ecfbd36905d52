"""Summaries of threads: what a root shows of its thread to one member."""

from __future__ import annotations

from collections.abc import Mapping

from tidings.messaging.access import Access
from tidings.messaging.summaries import Place
from tidings.messaging.threads.records import Thread, thread_id, thread_of
from tidings.messaging.threads.unread import ThreadUnread
from tidings.model import ThreadBeside
from tidings.stores.tables.records import Record


class ThreadSummaries:
    def __init__(self, access: Access, unread: ThreadUnread) -> None:
        self._access = access
        self._unread = unread

    async def beside(self, user_id: str, records: Mapping[Place, Record]) -> dict[Place, ThreadBeside]:
        """The threads as the user sees them, of those of these records that have replies."""
        threads = {place: thread_of(record)[0] for place, record in records.items()}
        threads = {place: thread for place, thread in threads.items() if thread.last_seq}
        ids = {
            thread_id(*place): place for place, thread in threads.items() if await self._follows(user_id, place, thread)
        }
        marks = await self._unread.marks(user_id, list(ids)) if ids else {}
        counts = {ids[id_]: mark.shown(self._unread.cap) for id_, mark in marks.items()}
        return {
            place: ThreadBeside(thread.replies, thread.last_seq, thread.last_ms, counts.get(place, 0), place in counts)
            for place, thread in threads.items()
        }

    async def _follows(self, user_id: str, place: Place, thread: Thread) -> bool:
        follower = thread.followers.get(user_id)
        if follower is None:
            return False
        member_list = self._access.cached(place[0]) or await self._access.load(place[0])
        member = member_list.members.get(user_id) if member_list is not None else None
        return member is not None and follower.since_seq == member.joined_seq
