"""How the index comes back: everything in the keyspace about a user's inbox and unread, made again from the tables.

The rule that keeps it exact: note `:gen`, read the tables, build aside, install in one script only if `:gen` is still the
same, else read again. Whoever meets something COLD raises `:gen` instead of counting, so what was committed while we
read is either in what we read or makes us read again. Never shown half-built; one rebuild per user at a time and a few
per node. Asked for by whoever looks (unread, inbox, resume), never by a send.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from tidings.bounds import REBUILD_CHUNK, REBUILD_TRIES_MAX, REBUILDS_MAX
from tidings.clock import Clock
from tidings.errors import NotFound, Unavailable
from tidings.model import Head, Row, Status
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.ports import Conversations, Inboxes, Messages, Statuses
from tidings.stores.scripts import Mark, Scripts, unpack_mark

_DAY_MS = 86_400_000


class Tables(Messages, Conversations, Inboxes, Statuses, Protocol):
    """What a rebuild reads."""


class Built(msgspec.Struct, frozen=True):
    """One conversation, read from the tables."""

    mark: Mark
    unread: list[tuple[int, int]]  # (seq_no, sent_ms), newest first, at most the cap


def effective(status: Status | None, row: Row) -> Status:
    """The status that counts: one of an earlier membership is replaced by "read up to where I joined"."""
    blank = Status(conversation_id=row.conversation_id, user_id=row.user_id)
    kept = status or blank
    if status is not None and status.since_seq >= row.joined_seq:
        return status
    return msgspec.structs.replace(kept, cursor_seq=row.joined_seq, ranges=(), since_seq=row.joined_seq)


def is_in(ranges: Sequence[tuple[int, int]], seq_no: int) -> bool:
    return any(low <= seq_no <= high for low, high in ranges)


def score_of(head: Head, row: Row) -> int:
    return max(head.last_ms, row.joined_ms, 1)


def is_shown(head: Head, row: Row) -> bool:
    """A direct conversation appears for the other side with its first message."""
    return not row.is_hidden or head.last_seq > 0


class Rebuilds:
    """`user` and `conversation` return when the index is warm again."""

    def __init__(
        self,
        keyspace: Keyspace,
        scripts: Scripts,
        tables: Tables,
        clock: Clock,
        *,
        is_delivered_seen: bool,
        count_rebuild: Callable[[str], None],
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._tables = tables
        self._clock = clock
        self._is_delivered_seen = is_delivered_seen  # unread.policy = when_offline
        self._count_rebuild = count_rebuild
        self._slots = asyncio.Semaphore(REBUILDS_MAX)
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}  # and how many wait for it or hold it

    async def user(self, user_id: str) -> None:
        """The whole of a user: inbox, marks, unread sets, totals."""
        async with self._turn(user_id):
            if not await self._is_warm(user_id):
                await self._rebuild_user(user_id)

    async def conversation(self, user_id: str, conversation_id: str) -> Mark:
        """One conversation of a user. Raises NotFound if it is not in the tables for this user."""
        async with self._turn(user_id):
            for _ in range(REBUILD_TRIES_MAX):
                gen, is_warm = await self._keyspace.one(self._scripts.unread_chill(user_id, conversation_id))
                if not is_warm:
                    await self._rebuild_user(user_id)
                    if (mark := await self.mark(user_id, conversation_id)) is not None:
                        return mark
                    return (await self.read(user_id, conversation_id)).mark
                built = await self.read(user_id, conversation_id)
                if await self._install(user_id, conversation_id, gen, built):
                    return built.mark
        raise Unavailable("the unread count changes too fast to be rebuilt")

    async def missing(self, user_id: str) -> None:
        """Every conversation of the inbox that has no mark: while there is one, the totals are not known."""
        inbox, mark = self._scripts.keys.inbox(user_id), self._scripts.keys.mark(user_id)
        ids = await self._keyspace.one(plain(inbox, b"ZRANGE", inbox, 0, -1))
        for start in range(0, len(ids), REBUILD_CHUNK):
            chunk = ids[start : start + REBUILD_CHUNK]
            marks = await self._keyspace.one(plain(mark, b"HMGET", mark, *chunk))
            for conversation_id, packed in zip(chunk, marks, strict=True):
                if packed is None:
                    await self.conversation(user_id, conversation_id.decode())

    async def mark(self, user_id: str, conversation_id: str) -> Mark | None:
        """The mark as it stands; None: this conversation or all of the user is COLD."""
        key = self._scripts.keys.mark(user_id)
        epoch, size, packed = await self._keyspace.one(plain(key, b"HMGET", key, b":epoch", b"*", conversation_id))
        is_warm = size is not None and epoch == self._keyspace.epoch(key).encode()
        return unpack_mark(packed) if is_warm and packed is not None else None

    async def read(self, user_id: str, conversation_id: str) -> Built:
        """Count one conversation from the tables."""
        rows = await self._tables.rows(user_id, [conversation_id])
        heads = await self._tables.heads([conversation_id])
        if conversation_id not in rows or conversation_id not in heads:
            raise NotFound("no such conversation")
        statuses = await self._tables.get(user_id, [conversation_id])
        row, head = rows[conversation_id], heads[conversation_id]
        return await self._count(row, head, effective(statuses.get(conversation_id), row))

    async def read_all(self, user_id: str) -> AsyncIterator[tuple[Row, Head, Built]]:
        """Every conversation of a user from the tables, for a rebuild or for verify."""
        after_id = ""
        while rows := await self._tables.scan(user_id, after_id=after_id, limit=REBUILD_CHUNK):
            after_id = rows[-1].conversation_id
            ids = [row.conversation_id for row in rows]
            heads = await self._tables.heads(ids)
            statuses = await self._tables.get(user_id, ids)
            there = [row for row in rows if row.conversation_id in heads]
            built = await asyncio.gather(
                *(
                    self._count(row, heads[row.conversation_id], effective(statuses.get(row.conversation_id), row))
                    for row in there
                )
            )
            for row, one in zip(there, built, strict=True):
                yield row, heads[row.conversation_id], one

    async def _count(self, row: Row, head: Head, status: Status) -> Built:
        seen = max(status.cursor_seq, status.delivered_seq) if self._is_delivered_seen else status.cursor_seq
        after = max(seen, head.floor_seq, row.joined_seq if head.history == "joined" else 0)
        found: list[tuple[int, int]] = []
        if head.last_seq > after:
            width = sum(high - low + 1 for low, high in status.ranges)
            limit = self._scripts.cap + 1 + width
            entries = await self._tables.unread(row.conversation_id, row.user_id, after=after, limit=limit)
            found = [entry for entry in entries if not is_in(status.ranges, entry[0])]
        kept = found[: self._scripts.cap]
        floor = kept[-1][0] - 1 if len(found) > len(kept) else 0
        mark = Mark(
            version=status.version,
            cursor=status.cursor_seq,
            seen=max(seen, after),
            count=len(kept),
            first=kept[-1][0] if kept and not floor else 0,
            floor=floor,
            day=self._clock.now_ms() // _DAY_MS,
            ranges=status.ranges,
        )
        return Built(mark, kept)

    async def _install(self, user_id: str, conversation_id: str, gen: int, built: Built) -> bool:
        """False: overtaken."""
        token = self._clock.random_id(8)
        await self._keyspace.run(self._fill_aside(user_id, conversation_id, token, built.unread))
        call = self._scripts.unread_install(user_id, conversation_id, token, gen=gen, mark=built.mark)
        state, _ = await self._keyspace.one(call)
        if state == 1:
            self._count_rebuild("unread")
        return state == 1

    async def _rebuild_user(self, user_id: str) -> None:
        for _ in range(REBUILD_TRIES_MAX):
            gen = await self._gen(user_id)
            if await self._try_user(user_id, gen):
                self._count_rebuild("inbox")
                return
        raise Unavailable("the inbox changes too fast to be rebuilt")

    async def _try_user(self, user_id: str, gen: int) -> bool:
        token = self._clock.random_id(8)
        keys = self._scripts.keys
        inbox, mark = f"{keys.inbox(user_id)}:{token}", f"{keys.mark(user_id)}:{token}"
        size = total = conversations = 0
        unread_ids: list[str] = []
        calls: list[Call[object]] = []
        async for row, head, built in self.read_all(user_id):
            if not is_shown(head, row):
                continue
            id_, shown = row.conversation_id, built.mark.shown(self._scripts.cap)
            size, total, conversations = size + 1, total + shown, conversations + (shown > 0)
            calls.append(plain(inbox, b"ZADD", inbox, score_of(head, row), id_))
            calls.append(plain(mark, b"HSET", mark, id_, built.mark.packed()))
            if built.unread:
                unread_ids.append(id_)
                calls.extend(self._fill_aside(user_id, id_, token, built.unread))
            else:
                calls.append(plain(inbox, b"UNLINK", keys.unread(user_id, id_)))
            if len(calls) >= REBUILD_CHUNK:
                await self._keyspace.run(calls)
                calls = []
        calls += [plain(key, b"EXPIRE", key, 60) for key in (inbox, mark)]
        await self._keyspace.run(calls)
        return await self._keyspace.one(
            self._scripts.inbox_install(
                user_id, token, gen=gen, size=size, totals=(total, conversations), unread_ids=unread_ids
            )
        )

    def _fill_aside(
        self, user_id: str, conversation_id: str, token: str, unread: list[tuple[int, int]]
    ) -> list[Call[object]]:
        key = self._scripts.aside(user_id, conversation_id, token)
        calls: list[Call[object]] = [
            plain(key, b"ZADD", key, *(part for seq, ms in unread[i : i + REBUILD_CHUNK] for part in (ms, seq)))
            for i in range(0, len(unread), REBUILD_CHUNK)
        ]
        if calls:
            calls.append(plain(key, b"EXPIRE", key, 60))  # an aside nobody installs goes by itself
        return calls

    async def _gen(self, user_id: str) -> int:
        key = self._scripts.keys.mark(user_id)
        return int(await self._keyspace.one(plain(key, b"HGET", key, b":gen")) or 0)

    async def _is_warm(self, user_id: str) -> bool:
        return await self._keyspace.one(self._scripts.inbox_page(user_id, limit=1, after=None)) is not None

    @asynccontextmanager
    async def _turn(self, user_id: str) -> AsyncIterator[None]:
        """One rebuild per user, a few per node; who waited finds it warm."""
        lock, users = self._locks.get(user_id, (asyncio.Lock(), 0))
        self._locks[user_id] = (lock, users + 1)
        try:
            async with lock, self._slots:
                yield
        finally:
            lock, users = self._locks.pop(user_id)
            if users > 1:
                self._locks[user_id] = (lock, users - 1)
