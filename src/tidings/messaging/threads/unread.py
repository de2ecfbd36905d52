"""Unread of threads: a follower's cursor and read ranges in one thread, and the counts that follow from them.

A followed thread is one more "conversation" of an index of its own, so everything that keeps the counts of
conversations exact keeps these exact too. The ids are those of threads (records.py). The number of threads with
something unread is a total of that index, and the list of unread threads is read from its marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from tidings.clock import Clock
from tidings.errors import BadRequest, NotFound, Unavailable
from tidings.messaging.access import Access
from tidings.messaging.threads.count import ThreadCount
from tidings.messaging.threads.records import (
    Follow,
    NotFollowed,
    follow_key,
    load_followed,
    parts_of,
    put_follow,
    thread_id,
)
from tidings.messaging.unread.large_counts import LargeCounts
from tidings.messaging.unread.rebuild import Rebuilds
from tidings.messaging.unread.states import States
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.messaging.unread.unread import Pay, Unread
from tidings.model import Head, ReadState, Status
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.scripts.answers import ReadAnswer, UnreadState
from tidings.stores.keyspace.scripts.marks import Mark, unpack_mark
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables
from tidings.tasks import Listeners

_NOTHING = Mark(version=0, cursor=0, seen=0, count=0, first=0, floor=0)


class ThreadUnread(Unread):
    """Marks replies read and unread, and shows the counts of threads. An id is that of a thread."""

    def __init__(
        self,
        conversations: Unread,
        access: Access,
        tables: Tables,
        keyspace: Keyspace,
        scripts: Scripts,
        count: ThreadCount,
        rebuilds: Rebuilds,
        large: LargeCounts,
        router: Router,
        unknown_outcomes: UnknownOutcomes,
        clock: Clock,
    ) -> None:
        # A thread has no receipts, and its counts are not on the badge.
        silent = Listeners[[str, str, int]](), Listeners[[str]]()
        stores = access, tables, keyspace, scripts.threads
        super().__init__(*stores, count, rebuilds, rebuilds, large, router, unknown_outcomes, clock, *silent)
        self._conversations, self._thread_count = conversations, count

    async def read(
        self,
        user_id: str,
        conversation_id: str,
        thread_seq: int,
        *,
        up_to_seq: int | None = None,
        up_to_ts: int | None = None,
        seqs: Sequence[int] | None = None,
        origin: str | None = None,
    ) -> ReadState:
        """Mark replies as read. To a member who does not follow the thread nothing is unread, before and after."""
        id_ = thread_id(conversation_id, thread_seq)
        try:
            return await self.mark_read(user_id, id_, up_to_seq=up_to_seq, up_to_ts=up_to_ts, seqs=seqs, origin=origin)
        except NotFollowed:
            return await self.describe(user_id, id_, _NOTHING, None)

    async def unread(
        self,
        user_id: str,
        conversation_id: str,
        thread_seq: int,
        *,
        from_seq: int,
        origin: str | None = None,
        pay: Pay | None = None,
    ) -> ReadState:
        """Mark replies as unread again. Raises BadRequest where the user does not follow the thread."""
        id_ = thread_id(conversation_id, thread_seq)
        try:
            return await self.mark_unread(user_id, id_, from_seq=from_seq, origin=origin, pay=pay)
        except NotFollowed:
            raise BadRequest("follow the thread first: only a follower has unread replies") from None

    async def describe(
        self, user_id: str, conversation_id: str, mark: Mark, total_unread: int | None, total_mentions: int = 0
    ) -> ReadState:
        state = await super().describe(user_id, conversation_id, mark, None)
        totals = await self._conversations.totals(user_id)  # those of threads are among them
        in_conversation, thread_seq = parts_of(conversation_id)
        return msgspec.structs.replace(
            state,
            conversation_id=in_conversation,
            thread_seq=thread_seq,
            total_unread=totals.total_unread,
            total_mentions=totals.total_mentions,
            unread_threads=totals.unread_threads,
        )

    async def state_or_nothing(self, user_id: str, id_: str) -> ReadState:
        """The counts of a thread. Nothing is unread in a thread that the user does not follow."""
        try:
            return await self.state(user_id, id_)
        except NotFound:
            return await self.describe(user_id, id_, _NOTHING, None)

    @property
    def cap(self) -> int:
        return self.scripts.cap

    async def of_conversation(self, user_id: str, conversation_id: str) -> ReadState:
        """The state of a conversation, with the total of threads."""
        state = await self._conversations.state(user_id, conversation_id)
        totals = await self._conversations.totals(user_id)
        return msgspec.structs.replace(state, unread_threads=totals.unread_threads)

    async def marks(self, user_id: str, ids: Sequence[str]) -> dict[str, Mark]:
        """The marks of threads that the user follows. Cold ones are counted from the tables, without a rebuild."""
        key = self.scripts.keys.mark(user_id)
        fields: list[bytes | None] = [None] * (3 + len(ids))
        with suppress(Unavailable):
            fields = await self.keyspace.one(plain(key, b"HMGET", key, b":epoch", b"*", b":put", *ids))
        epoch, size, markers, *packed = fields
        epoch_now = (self.keyspace.epoch(key) + self.scripts.epoch_tag).encode()
        is_warm = epoch == epoch_now and size is not None and markers is None
        found = {id_: unpack_mark(one) for id_, one in zip(ids, packed, strict=True) if one is not None and is_warm}
        if cold := [id_ for id_ in ids if id_ not in found]:
            found |= {one.conversation_id: one.mark for one in await self._thread_count.each(user_id, cold)}
        return found

    async def _state_of(self, user_id: str, conversation_id: str, found: UnreadState | None) -> ReadState:
        mark = await self._warm_mark(user_id, conversation_id, found)
        return await self.describe(user_id, conversation_id, mark, None)

    def state_after(self, conversation_id: str, answer: ReadAnswer) -> ReadState | None:
        return None  # the totals of a thread are those of the conversations

    def _log_of(self, conversation_id: str) -> str:
        return parts_of(conversation_id)[0]

    async def _load(self, user_id: str, conversation_id: str) -> tuple[Head, Status]:
        followed = await load_followed(self.tables, user_id, conversation_id)
        return followed.head, followed.status

    async def _store(self, status: Status) -> Status:
        key = follow_key(status.user_id, *parts_of(status.conversation_id))
        follow = Follow(status.cursor_seq, status.ranges)
        await self.tables.records.put([put_follow(key, follow, status.version - 1)])
        return status


class Standing:
    """The counts of a conversation or of a thread, by its id: for counts that are pushed late."""

    def __init__(self, conversations: Unread, threads: ThreadUnread, states: States) -> None:
        self._conversations = conversations
        self.threads = threads
        self._states = states

    async def state(self, user_id: str, conversation_id: str) -> ReadState:
        counts = self.threads if "/" in conversation_id else self._conversations
        return await counts.state(user_id, conversation_id)

    async def states(self, user_ids: Sequence[str], conversation_id: str) -> dict[str, ReadState]:
        """The counts of many members of a conversation, without those for whom it takes more."""
        return await self._states.read(user_ids, conversation_id)
