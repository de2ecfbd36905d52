"""Summaries of threads: what a root shows of its thread to one member."""

from __future__ import annotations

from collections.abc import Mapping

from tidings.messaging.summaries import Place
from tidings.messaging.threads.records import thread_id, thread_of
from tidings.messaging.threads.unread import ThreadUnread
from tidings.model import ThreadBeside
from tidings.stores.tables.ports import Inboxes
from tidings.stores.tables.records import Record


class ThreadSummaries:
    def __init__(self, inboxes: Inboxes, unread: ThreadUnread) -> None:
        self._inboxes = inboxes
        self._unread = unread

    async def beside(self, user_id: str, records: Mapping[Place, Record]) -> dict[Place, ThreadBeside]:
        """The threads as the user sees them, of those of these records that have replies."""
        threads = {place: thread_of(record)[0] for place, record in records.items()}
        threads = {place: thread for place, thread in threads.items() if thread.last_seq}
        mine = {place: thread for place, thread in threads.items() if user_id in thread.followers}
        rows = await self._inboxes.rows(user_id, list({place[0] for place in mine})) if mine else {}
        followed = [place for place in mine if place[0] in rows and mine[place].is_followed_by(rows[place[0]])]
        ids = {thread_id(*place): place for place in followed}
        marks = await self._unread.marks(user_id, list(ids)) if ids else {}
        counts = {ids[id_]: mark.shown(self._unread.cap) for id_, mark in marks.items()}
        return {
            place: ThreadBeside(thread.replies, thread.last_seq, thread.last_ms, counts.get(place, 0), place in counts)
            for place, thread in threads.items()
        }
