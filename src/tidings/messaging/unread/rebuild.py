"""Rebuild: make a user's index in the keyspace again from the tables: inbox, marks, unread sets and totals.

A rebuild stays exact in four steps: announce it, read the tables, build aside, install in one script. From the
announcement on, every change of something cold is recorded in the mark hash instead of being counted. A conversation
that changed since its rebuild began is not installed but read again. In the rebuild of a whole user it is installed
cold, so that sends never hold a rebuild up. A half-built index is never shown: unread sets are put in place before the
index, in slices, because nobody reads them while the user is cold. One rebuild of a user runs at a time on all nodes
together. It is a task of its own: it outlives the reader that asked, and later readers join it. A few run on each node;
big inboxes have few places of their own, so a small one never waits for them. Readers (unread, inbox, resume) ask for
a rebuild; a send never does.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec

from tidings.bounds import (
    PAGE_MAX,
    REBUILD_BIG_CHUNK,
    REBUILD_CHUNK,
    REBUILD_TRIES_MAX,
    REBUILDS_BIG_MAX,
    REBUILDS_MAX,
)
from tidings.clock import Clock
from tidings.errors import NotFound, Unavailable
from tidings.messaging.unread.ranges import effective, is_in, seen_up_to
from tidings.model import Head, Ranges, Row, Status
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.scripts.answers import UnreadState
from tidings.stores.keyspace.scripts.marks import Mark
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables
from tidings.tasks import KeyedLock, SingleFlight

_DAY_MS = 86_400_000
_ASIDE_TTL_S = 600  # keys that were built aside and never installed expire after this time
_SILENT_MS = 3_000  # a node that rebuilds a user says so with every chunk; after this silence it counts as dead
_BEAT_S = 1.0  # how often a rebuild that waits for a place says that it is alive
_SLICE = 100  # unread sets put in place by one script: about a millisecond of the server
_POLL_S = 0.05  # how often we ask whether another node has finished the rebuild
_OTHER_NODE_S = 60.0  # how long we wait for the rebuild of another node altogether
_PAUSE_S_MAX = 0.1  # between two chunks of a big inbox
HOLD_MS = 15_000  # longer than a commit takes; an older marker was left by a node that died
ANY_VERSION = 1 << 53  # higher than the version of any mark, so the conversation is read again in any case


class Counted(msgspec.Struct, frozen=True):
    """One conversation of a user, counted from the tables."""

    mark: Mark
    unread: list[int]  # newest first, at most the cap


class _Aside(msgspec.Struct):
    """A user's index while it is built aside, under names with the token."""

    token: str
    size: int = 0
    total: int = 0
    conversations: int = 0


class _Place:
    """A place among the rebuilds of this node. A rebuild that turns out big moves to one of the few big places."""

    def __init__(self, small: asyncio.Semaphore, big: asyncio.Semaphore) -> None:
        self._small = small
        self._big = big
        self._held: asyncio.Semaphore | None = None
        self.since_s = math.inf  # when its last chunk began

    async def __aenter__(self) -> _Place:
        await self._small.acquire()
        self._held = self._small
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._held is not None:
            self._held.release()

    async def grow(self, beat: Callable[[], Awaitable[object]]) -> None:
        """Take a big place. `beat` runs once a second while this waits."""
        if self._held is not self._small:
            return
        self._small.release()
        self._held = None
        waiting = asyncio.get_running_loop().create_task(self._big.acquire(), name="rebuild place")
        try:
            while not (await asyncio.wait({waiting}, timeout=_BEAT_S))[0]:
                await beat()
            self._held = self._big
        finally:
            if self._held is None and not waiting.cancel():
                self._big.release()


def score_of(head: Head, row: Row) -> int:
    return max(0 if row.is_invited else head.last_ms, row.joined_ms, 1)


def is_shown(head: Head, row: Row) -> bool:
    """A direct conversation appears for the other side with its first message; a hidden one with the next."""
    return not row.is_hidden or head.last_seq > row.hidden_seq


async def load_member(tables: Tables, user_id: str, conversation_id: str) -> tuple[Row, Head, Status]:
    """Read what the tables have of one member. Raises NotFound."""
    ids = [conversation_id]
    rows, heads, statuses = await asyncio.gather(
        tables.inboxes.rows(user_id, ids), tables.conversations.heads(ids), tables.statuses.get(user_id, ids)
    )
    if not rows or not heads:
        raise NotFound("no such conversation")
    row = rows[conversation_id]
    return row, heads[conversation_id], effective(statuses.get(conversation_id), row)


class Rebuilds:
    """Makes cold indexes warm again."""

    def __init__(
        self,
        keyspace: Keyspace,
        scripts: Scripts,
        tables: Tables,
        clock: Clock,
        *,
        count_rebuild: Callable[[str], None],
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._tables = tables
        self._clock = clock
        self._count_rebuild = count_rebuild
        self._small = asyncio.Semaphore(REBUILDS_MAX)
        self._big = asyncio.Semaphore(REBUILDS_BIG_MAX)
        self._locks = KeyedLock[str]()
        self._users = SingleFlight[None, str](self._run_user)

    def token(self) -> str:
        """Return a name that nobody else uses: for a build aside, or for a marker."""
        return self._clock.random_id(8)

    async def user(self, user_id: str) -> None:
        """Rebuild all of a user: inbox, marks, unread sets, totals. The work goes on if the caller gives up."""
        await self._users(user_id)

    async def close(self) -> None:
        """End the rebuilds under way. Another node, or the next start, begins them again."""
        await self._users.close()

    async def conversation(self, user_id: str, conversation_id: str, *, version: int = 0) -> Mark:
        """Rebuild one conversation of a user, unless its mark has this version or a later one.

        Raises NotFound if the tables do not have it for this user; then it leaves the inbox too.
        """
        for _ in range(REBUILD_TRIES_MAX):
            async with self._locks(user_id), self._small:
                call = self._scripts.unread_chill(user_id, conversation_id, version=version)
                chilled = await self._keyspace.one(call)
                if chilled.mark is not None:
                    return chilled.mark
                if not chilled.is_user_cold:
                    counted = await self._count_or_drop(user_id, conversation_id, chilled.gen)
                    if chilled.gen is None or await self._install(user_id, conversation_id, chilled.gen, counted):
                        return counted.mark
                    continue
            await self.user(user_id)
            version = 0 if version == ANY_VERSION else version
        raise Unavailable("the unread count changes too fast to be rebuilt")

    async def cold_conversations(self, user_id: str) -> None:
        """Rebuild every cold conversation of a warm user. The totals are not known while there is one."""
        for conversation_id in await self._cold_ids(user_id):
            try:
                await self.conversation(user_id, conversation_id)
            except NotFound:
                continue  # the user has left it, and the inbox has dropped it now

    async def warm_mark(self, user_id: str, conversation_id: str, found: UnreadState | None) -> Mark:
        """Return the mark that was found in the keyspace. A cold conversation is rebuilt first."""
        if found is not None and found.mark is not None:
            return found.mark
        return await self.conversation(user_id, conversation_id)

    async def count(self, user_id: str, conversation_id: str) -> Counted:
        """Count one conversation from the tables. Raises NotFound."""
        return (await self._count([await load_member(self._tables, user_id, conversation_id)]))[0]

    async def count_all(
        self, user_id: str, before_more: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncIterator[list[tuple[Row, Head, Counted]]]:
        """Count every conversation that the user's inbox must show, from the tables, in chunks.

        `before_more` runs between two chunks of an inbox that has more than one.
        """
        after_id, limit = "", REBUILD_CHUNK
        while rows := await self._tables.inboxes.scan(user_id, after_id=after_id, limit=limit):
            is_more, limit = len(rows) >= limit, REBUILD_BIG_CHUNK
            after_id = rows[-1].conversation_id
            ids = [row.conversation_id for row in rows]
            heads, statuses = await asyncio.gather(
                self._tables.conversations.heads(ids), self._tables.statuses.get(user_id, ids)
            )
            shown = [
                (row, heads[id_], effective(statuses.get(id_), row))
                for id_, row in zip(ids, rows, strict=True)
                if id_ in heads and is_shown(heads[id_], row)
            ]
            counted = await self._count(shown)
            yield [(row, head, one) for (row, head, _), one in zip(shown, counted, strict=True)]
            if before_more is not None and is_more:
                await before_more()

    async def oldest_unread(self, user_id: str, conversation_id: str, *, after: int, ranges: Ranges) -> int | None:
        """Find the first unread in the log. Above the cap, the oldest numbers are not in the set."""
        limit = 4  # nearly always the next entry is it; a member who wrote many entries is read in longer steps
        blocked = await self._blocked(user_id)
        while entries := await self._tables.log.page(
            conversation_id, after=after, before=1 << 62, limit=limit, newest_first=False
        ):
            limit = PAGE_MAX
            for entry in entries:
                is_counted = entry.counts and entry.sender_id != user_id and entry.sender_id not in blocked
                if is_counted and not is_in(ranges, entry.seq_no):
                    return entry.seq_no
            after = entries[-1].seq_no
        return None

    # --- counting -----------------------------------------------------------------------------------

    async def _count(self, members: Sequence[tuple[Row, Head, Status]]) -> list[Counted]:
        """Count conversations of one user. Only those with entries above the member's cursor are read in the log."""
        starts = [self._start(*member) for member in members]
        blocked = await self._blocked(members[0][0].user_id) if members else ()
        reads = {
            row.conversation_id: self._unread(row, status, after, blocked)
            for (row, head, status), after in zip(members, starts, strict=True)
            if head.last_seq > after and not row.is_requested and not row.is_invited
        }
        unread = dict(zip(reads, await asyncio.gather(*reads.values()), strict=True))
        return [
            await self._counted(status, after, unread.get(row.conversation_id, []))
            for (row, _, status), after in zip(members, starts, strict=True)
        ]

    def _start(self, row: Row, head: Head, status: Status) -> int:
        """Return the number at or below which nothing counts for the member."""
        seen = seen_up_to(status, is_delivered_seen=self._scripts.is_delivered_seen)
        return max(seen, head.floor_seq, row.joined_seq if head.history == "joined" else 0)

    async def _counted(self, status: Status, after: int, found: list[int]) -> Counted:
        cap = self._scripts.cap
        kept = found[:cap]
        floor = first = 0
        if len(found) > cap:
            floor = found[cap]
            oldest = self.oldest_unread(status.user_id, status.conversation_id, after=after, ranges=status.ranges)
            first = await oldest or 0
        elif kept:
            first = kept[-1]
        mark = Mark(
            version=status.version,
            cursor=status.cursor_seq,
            seen=after,
            count=len(kept),
            first=first,
            floor=floor,
            day=self._clock.now_ms() // _DAY_MS,
            ranges=status.ranges,
        )
        return Counted(mark, kept)

    async def _blocked(self, user_id: str) -> list[str]:
        return [block.blocked_id for block in await self._tables.people.blocks_of(user_id)]

    async def _unread(self, row: Row, status: Status, after: int, but: Collection[str]) -> list[int]:
        """Return the unread entries, newest first; where there are more than the cap, one more than the cap."""
        width = sum(high - low + 1 for low, high in status.ranges)
        limit = self._scripts.cap + 1 + width
        entries = await self._tables.log.unread(row.conversation_id, row.user_id, after=after, limit=limit, but=but)
        return [seq_no for seq_no, _ in entries if not is_in(status.ranges, seq_no)]

    # --- one conversation ---------------------------------------------------------------------------

    async def _count_or_drop(self, user_id: str, conversation_id: str, gen: str | None) -> Counted:
        try:
            return await self.count(user_id, conversation_id)
        except NotFound:
            if gen is not None:  # the inbox lists it without a row: the user has left, and the keyspace missed it
                await self._keyspace.one(self._scripts.inbox_leave(user_id, conversation_id, gen=gen))
            raise

    async def _install(self, user_id: str, conversation_id: str, gen: str, counted: Counted) -> bool:
        """Put one conversation into place. False: it changed meanwhile."""
        token = self.token()
        install = self._scripts.unread_install(user_id, conversation_id, token, gen=gen, mark=counted.mark)
        calls = [*self._fill_aside(user_id, conversation_id, token, counted.unread), install]
        is_installed = bool((await self._keyspace.run(calls))[-1])
        if is_installed:
            self._count_rebuild("unread")
        return is_installed

    def _fill_aside(self, user_id: str, conversation_id: str, token: str, unread: list[int]) -> list[Call[Any]]:
        key = self._scripts.aside(user_id, conversation_id, token)
        calls: list[Call[Any]] = [
            plain(key, b"ZADD", key, *(part for seq in unread[i : i + REBUILD_CHUNK] for part in (seq, seq)))
            for i in range(0, len(unread), REBUILD_CHUNK)
        ]
        if calls:
            calls.append(plain(key, b"EXPIRE", key, _ASIDE_TTL_S))
        return calls

    async def _cold_ids(self, user_id: str) -> list[str]:
        key, ids, cursor = self._scripts.keys.mark(user_id), [], b"0"
        while True:
            scan = plain(key, b"HSCAN", key, cursor, b"MATCH", b"~*", b"COUNT", 2 * REBUILD_CHUNK)
            cursor, fields = await self._keyspace.one(scan)
            ids += [field[1:].decode() for field in fields[::2]]
            if cursor == b"0":
                return list(dict.fromkeys(ids))

    # --- a whole user -------------------------------------------------------------------------------

    async def _run_user(self, user_id: str) -> None:
        """Rebuild a user, or wait for the node that does."""
        async with self._locks(user_id), _Place(self._small, self._big) as place:
            await self._rebuild_user(user_id, place)

    async def _rebuild_user(self, user_id: str, place: _Place) -> None:
        deadline_s, token = self._clock.monotonic_s() + _OTHER_NODE_S, self.token()
        for _ in range(REBUILD_TRIES_MAX):
            while (begun := await self._begin(user_id, token)) < 0 and self._clock.monotonic_s() < deadline_s:
                await asyncio.sleep(_POLL_S)
            if begun == 1:
                return
            if begun == 0 and await self._try_user(user_id, token, place):
                self._count_rebuild("inbox")
                return
        raise Unavailable("the inbox could not be rebuilt")

    async def _begin(self, user_id: str, token: str) -> int:
        return await self._keyspace.one(self._scripts.inbox_begin(user_id, token, wait_ms=_SILENT_MS))

    async def _try_user(self, user_id: str, token: str, place: _Place) -> bool:
        """Build a user aside and install it. False: another node took over, or the keys built aside were lost."""
        aside = _Aside(token)
        beat = self._scripts.inbox_begin(user_id, token, wait_ms=_SILENT_MS, is_begun=True)
        async for chunk in self.count_all(user_id, lambda: self._make_room(place, beat)):
            begun, *answers = await self._keyspace.run([beat, *self._chunk_aside(user_id, aside, chunk)])
            if begun != 0:
                return bool(begun == 1)
            if not all(placed for placed in answers if isinstance(placed, bool)):
                return False
        totals = (aside.total, aside.conversations)
        return await self._keyspace.one(self._scripts.inbox_install(user_id, token, size=aside.size, totals=totals))

    async def _make_room(self, place: _Place, beat: Call[int]) -> None:
        """Let others have half of the time: the rebuild of a big inbox is nobody's hurry."""
        await place.grow(lambda: self._keyspace.one(beat))
        await asyncio.sleep(min(self._clock.monotonic_s() - place.since_s, _PAUSE_S_MAX))
        place.since_s = self._clock.monotonic_s()

    def _chunk_aside(self, user_id: str, aside: _Aside, chunk: Sequence[tuple[Row, Head, Counted]]) -> list[Call[Any]]:
        """Return the calls that build a chunk aside and put its unread sets in place. Only the latter answer a bool."""
        keys, cap, token = self._scripts.keys, self._scripts.cap, aside.token
        inbox, mark = f"{keys.inbox(user_id)}:{token}", f"{keys.mark(user_id)}:{token}"
        scores: list[int | str] = []
        marks: list[str] = []
        empty: list[str] = []
        unread_ids: list[str] = []
        fills: list[Call[Any]] = []
        for row, head, counted in chunk:
            id_, shown = row.conversation_id, counted.mark.shown(cap)
            aside.total, aside.conversations = aside.total + shown, aside.conversations + (shown > 0)
            scores += (score_of(head, row), id_)
            marks += (id_, counted.mark.packed())
            if counted.unread:
                unread_ids.append(id_)
                fills += self._fill_aside(user_id, id_, token, counted.unread)
            else:
                empty.append(keys.unread(user_id, id_))
        aside.size += len(chunk)
        if not chunk:
            return []
        calls = [plain(inbox, b"ZADD", inbox, *scores), plain(mark, b"HSET", mark, *marks)]
        if empty:
            calls.append(plain(inbox, b"UNLINK", *empty))
        calls += [plain(key, b"EXPIRE", key, _ASIDE_TTL_S) for key in (inbox, mark)]
        slices = [unread_ids[i : i + _SLICE] for i in range(0, len(unread_ids), _SLICE)]
        return [*calls, *fills, *(self._scripts.inbox_place(user_id, token, ids) for ids in slices)]
