"""Count: the rule of unread, applied to the threads that a user follows. Nothing else decides a count of a thread.

A reply counts for a follower if it is not silent, if it is above the cursor and the beginning of the member's history,
and if it was not read singly. The follower's own replies, deleted ones and those of people whom the follower has
blocked do not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence

from tidings.bounds import REBUILD_BIG_CHUNK, REBUILD_CHUNK
from tidings.messaging.threads.records import (
    FOLLOWS,
    Followed,
    Reply,
    follow_key,
    followed_in,
    load_followed,
    parts_of,
    read_replies,
)
from tidings.messaging.unread.count import Count, Counted
from tidings.messaging.unread.ranges import is_in
from tidings.model import Ranges
from tidings.stores.keyspace.scripts.marks import Mark
from tidings.stores.tables.records import of_user

_DAY_MS = 86_400_000


def is_listed(one: Followed) -> bool:
    """Whether the list of threads shows it: it has a reply, and not all of them went with time."""
    return one.thread.last_seq > one.head.floor_seq


class ThreadCount(Count):
    """Counts threads from the tables. An id is that of a thread."""

    async def one(self, user_id: str, conversation_id: str, *, is_for_index: bool = False) -> Counted:
        """Count one thread. Raises NotFound where the user does not follow it."""
        followed = await load_followed(self._tables, user_id, conversation_id)
        return (await self._count_followed([followed]))[0]

    async def each(self, user_id: str, ids: Iterable[str]) -> list[Counted]:
        """Count those of these threads that the user follows, all together."""
        keys = [follow_key(user_id, *parts_of(id_)) for id_ in ids]
        found = await self._tables.records.get_each(keys)
        return await self._count_followed(await followed_in(self._tables, user_id, list(found.values())))

    async def all(
        self, user_id: str, before_more: Callable[[], Awaitable[None]] | None = None, *, is_for_index: bool = False
    ) -> AsyncIterator[list[Counted]]:
        """Count every thread that the user follows, in chunks. `before_more` as for the conversations."""
        after, limit = "", REBUILD_CHUNK
        while records := await self._tables.records.page(of_user(user_id), FOLLOWS, limit=limit, after=after):
            is_more, limit = len(records) >= limit, REBUILD_BIG_CHUNK
            after = records[-1].name
            size = limit if is_more else len(records)
            for at in range(0, len(records), size):
                if before_more is not None and is_more:
                    await before_more()
                followed = await followed_in(self._tables, user_id, records[at : at + size])
                yield await self._count_followed([one for one in followed if is_listed(one)])

    async def oldest_unread(self, user_id: str, conversation_id: str, *, after: int, ranges: Ranges) -> int | None:
        blocked = await self.blocked(user_id)
        while found := await read_replies(self._tables.records, conversation_id, after=after, newest_first=False):
            for seq_no, reply in found:
                if _counts(reply, user_id, blocked) and not is_in(ranges, seq_no):
                    return seq_no
            after = found[-1][0]
        return None

    async def _count_followed(self, followed: Sequence[Followed]) -> list[Counted]:
        blocked = await self.blocked(followed[0].row.user_id) if followed else ()
        return list(await asyncio.gather(*(self._one(one, blocked) for one in followed)))

    async def _one(self, followed: Followed, blocked: Collection[str]) -> Counted:
        row, head, status, cap = followed.row, followed.head, followed.status, self._scripts.cap
        after = max(status.cursor_seq, head.floor_seq, row.joined_seq if head.history == "joined" else 0)
        unread: list[tuple[int, bool]] = []
        if head.head > after and not row.is_requested:
            unread = await self._replies(followed, after, blocked)
        kept = [seq_no for seq_no, _ in unread[:cap]]
        mentions = [seq_no for seq_no, is_mention in unread[:cap] if is_mention]
        floor, first = 0, kept[-1] if kept else 0
        if len(unread) > cap:
            floor = unread[cap][0]
            oldest = self.oldest_unread(row.user_id, followed.thread_id, after=after, ranges=status.ranges)
            first = await oldest or 0
        mark = Mark(
            version=status.version,
            cursor=status.cursor_seq,
            seen=after,
            count=len(kept),
            first=first,
            floor=floor,
            day=self._clock.now_ms() // _DAY_MS,
            mentions=len(mentions),
            first_mention=mentions[-1] if mentions else 0,
            ranges=status.ranges,
        )
        return Counted(followed.thread_id, max(followed.thread.last_ms, 1), 0, None, mark, kept, mentions)

    async def _replies(self, followed: Followed, after: int, blocked: Collection[str]) -> list[tuple[int, bool]]:
        """Unread replies with whether they mention the user, newest first: at most one more than the cap."""
        records, user_id, before = self._tables.records, followed.row.user_id, 1 << 53
        unread: list[tuple[int, bool]] = []
        while len(unread) <= self._scripts.cap and (
            found := await read_replies(records, followed.thread_id, after=after, before=before, newest_first=True)
        ):
            unread += [
                (seq_no, reply.mentions_user(user_id))
                for seq_no, reply in found
                if _counts(reply, user_id, blocked) and not is_in(followed.status.ranges, seq_no)
            ]
            before = found[-1][0]
        return unread[: self._scripts.cap + 1]


def _counts(reply: Reply, user_id: str, blocked: Collection[str]) -> bool:
    return not (reply.is_silent or reply.is_deleted or reply.sender_id == user_id or reply.sender_id in blocked)
