"""How the index comes back: everything in the keyspace about a user's inbox and unread, made again from the tables.

The rule that keeps it exact: say that a rebuild begins, read the tables, build aside, install in one script. Whoever
meets something COLD notes its change instead of counting it. A conversation that changed since its rebuild began is not
installed but read again; in the rebuild of a whole user it is installed COLD, so sends never hold a rebuild up. Never
shown half-built; one rebuild per user at a time on all nodes, and a few per node. Asked for by whoever looks (unread,
inbox, resume), never by a send.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from tidings.bounds import PAGE_MAX, REBUILD_CHUNK, REBUILD_TRIES_MAX, REBUILDS_MAX
from tidings.clock import Clock
from tidings.errors import NotFound, Unavailable
from tidings.model import Head, Ranges, Row, Status
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.ports import Conversations, Inboxes, Messages, Statuses
from tidings.stores.scripts import Look, Mark, Scripts

_DAY_MS = 86_400_000
_ASIDE_TTL_S = 600  # what is built aside and never installed goes by itself
_SILENT_MS = 3_000  # a node that rebuilds a user says so with every chunk; one that is silent for longer has died
_LOOK_AGAIN_S = 0.05  # how often we look whether another node has finished
_ELSEWHERE_S = 60.0  # how long we wait for another node altogether
HOLD_MS = 15_000  # longer than a commit takes: a note that is older was left behind by a node that died
ANY_VERSION = 1 << 53  # no mark is as new as this: the conversation is read again whatever the keyspace says


class Tables(Messages, Conversations, Inboxes, Statuses, Protocol):
    """What a rebuild reads."""


class Built(msgspec.Struct, frozen=True):
    """One conversation, read from the tables."""

    mark: Mark
    unread: list[tuple[int, int]]  # (seq_no, sent_ms), newest first, at most the cap


class Whole(msgspec.Struct):
    """A user's index as it grows aside."""

    token: str
    size: int = 0
    total: int = 0
    conversations: int = 0
    unread_ids: list[str] = msgspec.field(default_factory=list)


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

    def token(self) -> str:
        """A name that nobody else uses: of a build aside, or of a note in the keyspace."""
        return self._clock.random_id(8)

    async def user(self, user_id: str) -> None:
        """The whole of a user: inbox, marks, unread sets, totals."""
        async with self._turn(user_id):
            await self._rebuild_user(user_id)

    async def conversation(self, user_id: str, conversation_id: str, *, version: int = 0) -> Mark:
        """One conversation of a user, of this version of the member's state or a later one.

        Raises NotFound if it is not in the tables for this user; then it leaves the inbox too.
        """
        async with self._turn(user_id):
            for _ in range(REBUILD_TRIES_MAX):
                call = self._scripts.unread_chill(user_id, conversation_id, version=version)
                chilled = await self._keyspace.one(call)
                if chilled.mark is not None:
                    return chilled.mark
                if chilled.is_user_cold:
                    await self._rebuild_user(user_id)
                    version = 0 if version == ANY_VERSION else version
                    continue
                built = await self._read_or_drop(user_id, conversation_id, chilled.gen)
                if chilled.gen is None or await self._install(user_id, conversation_id, chilled.gen, built):
                    return built.mark
        raise Unavailable("the unread count changes too fast to be rebuilt")

    async def missing(self, user_id: str) -> None:
        """Every COLD conversation of a warm user: while there is one, the totals are not known."""
        for conversation_id in await self._cold_ids(user_id):
            try:
                await self.conversation(user_id, conversation_id)
            except NotFound:
                continue  # it was left; the inbox knows now

    async def mark(self, user_id: str, conversation_id: str, found: Look | None) -> Mark:
        """The mark of a look at the keyspace, rebuilt first if it is COLD."""
        if found is not None and found.mark is not None:
            return found.mark
        return await self.conversation(user_id, conversation_id)

    async def read(self, user_id: str, conversation_id: str) -> Built:
        """Count one conversation from the tables."""
        ids = [conversation_id]
        rows, heads, statuses = await asyncio.gather(
            self._tables.rows(user_id, ids), self._tables.heads(ids), self._tables.get(user_id, ids)
        )
        if not rows or not heads:
            raise NotFound("no such conversation")
        ((_, _, built),) = await self._count(list(rows.values()), heads, statuses)
        return built

    async def read_all(self, user_id: str) -> AsyncIterator[list[tuple[Row, Head, Built]]]:
        """Every conversation that the user's inbox should show, from the tables, in chunks: for a rebuild or verify."""
        after_id = ""
        while rows := await self._tables.scan(user_id, after_id=after_id, limit=REBUILD_CHUNK):
            after_id = rows[-1].conversation_id
            ids = [row.conversation_id for row in rows]
            heads, statuses = await asyncio.gather(self._tables.heads(ids), self._tables.get(user_id, ids))
            there = [row for row in rows if row.conversation_id in heads]
            yield await self._count(
                [row for row in there if is_shown(heads[row.conversation_id], row)], heads, statuses
            )

    async def oldest(self, user_id: str, conversation_id: str, *, after: int, ranges: Ranges) -> int | None:
        """The first unread from the log: for counts above the cap, whose oldest are not in the set."""
        limit = 4  # it is nearly always the next one; who wrote much himself is read in longer steps
        while entries := await self._tables.page(
            conversation_id, after=after, before=1 << 62, limit=limit, newest_first=False
        ):
            limit = PAGE_MAX
            for entry in entries:
                is_counted = entry.kind == "message" and not entry.is_deleted and entry.sender_id != user_id
                if is_counted and not is_in(ranges, entry.seq_no):
                    return entry.seq_no
            after = entries[-1].seq_no
        return None

    # --- counting -----------------------------------------------------------------------------------

    async def _count(
        self, rows: Sequence[Row], heads: dict[str, Head], statuses: dict[str, Status]
    ) -> list[tuple[Row, Head, Built]]:
        """All rows are of one user. Only conversations with something after the cursor are counted in the log."""
        plan = []
        for row in rows:
            head, status = heads[row.conversation_id], effective(statuses.get(row.conversation_id), row)
            seen = max(status.cursor_seq, status.delivered_seq) if self._is_delivered_seen else status.cursor_seq
            after = max(seen, head.floor_seq, row.joined_seq if head.history == "joined" else 0)
            plan.append((row, head, status, after))
        behind = [(row, status, after) for row, head, status, after in plan if head.last_seq > after]
        lists = await asyncio.gather(*(self._unread(*one) for one in behind))
        found = {row.conversation_id: entries for (row, _, _), entries in zip(behind, lists, strict=True)}
        return [
            (row, head, await self._built(status, after, found.get(row.conversation_id, [])))
            for row, head, status, after in plan
        ]

    async def _unread(self, row: Row, status: Status, after: int) -> list[tuple[int, int]]:
        """Newest first; one more than the cap where there are more."""
        width = sum(high - low + 1 for low, high in status.ranges)
        limit = self._scripts.cap + 1 + width
        entries = await self._tables.unread(row.conversation_id, row.user_id, after=after, limit=limit)
        return [entry for entry in entries if not is_in(status.ranges, entry[0])]

    async def _built(self, status: Status, after: int, found: list[tuple[int, int]]) -> Built:
        cap = self._scripts.cap
        kept = found[:cap]
        floor = first = 0
        if len(found) > cap:
            floor = found[cap][0]
            oldest = self.oldest(status.user_id, status.conversation_id, after=after, ranges=status.ranges)
            first = await oldest or 0
        elif kept:
            first = kept[-1][0]
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
        return Built(mark, kept)

    # --- one conversation ---------------------------------------------------------------------------

    async def _read_or_drop(self, user_id: str, conversation_id: str, gen: str | None) -> Built:
        try:
            return await self.read(user_id, conversation_id)
        except NotFound:
            if gen is not None:  # listed, but there is no row: the user has left, and the keyspace missed it
                await self._keyspace.one(self._scripts.inbox_leave(user_id, conversation_id, gen=gen))
            raise

    async def _install(self, user_id: str, conversation_id: str, gen: str, built: Built) -> bool:
        """False: it changed meanwhile."""
        token = self.token()
        install = self._scripts.unread_install(user_id, conversation_id, token, gen=gen, mark=built.mark)
        calls = [*self._fill_aside(user_id, conversation_id, token, built.unread), install]
        is_installed = bool((await self._keyspace.run(calls))[-1])
        if is_installed:
            self._count_rebuild("unread")
        return is_installed

    def _fill_aside(
        self, user_id: str, conversation_id: str, token: str, unread: list[tuple[int, int]]
    ) -> list[Call[Any]]:
        key = self._scripts.aside(user_id, conversation_id, token)
        calls: list[Call[Any]] = [
            plain(key, b"ZADD", key, *(part for seq, ms in unread[i : i + REBUILD_CHUNK] for part in (ms, seq)))
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

    async def _rebuild_user(self, user_id: str) -> None:
        """Inside our turn. Another node may be at it, or have done it."""
        deadline_s, token = self._clock.monotonic_s() + _ELSEWHERE_S, self.token()
        for _ in range(REBUILD_TRIES_MAX):
            while (begun := await self._begin(user_id, token)) < 0 and self._clock.monotonic_s() < deadline_s:
                await asyncio.sleep(_LOOK_AGAIN_S)
            if begun == 1:
                return
            if begun == 0 and await self._try_user(user_id, token):
                self._count_rebuild("inbox")
                return
        raise Unavailable("the inbox could not be rebuilt")

    async def _begin(self, user_id: str, token: str) -> int:
        return await self._keyspace.one(self._scripts.inbox_begin(user_id, token, wait_ms=_SILENT_MS))

    async def _try_user(self, user_id: str, token: str) -> bool:
        """False: somebody else took over, or what was built aside was lost."""
        whole = Whole(token)
        async for chunk in self.read_all(user_id):
            beat = self._scripts.inbox_begin(user_id, token, wait_ms=_SILENT_MS, is_begun=True)
            begun, *_ = await self._keyspace.run([beat, *self._chunk_aside(user_id, whole, chunk)])
            if begun != 0:
                return bool(begun == 1)
        return await self._keyspace.one(
            self._scripts.inbox_install(
                user_id,
                token,
                size=whole.size,
                totals=(whole.total, whole.conversations),
                unread_ids=whole.unread_ids,
            )
        )

    def _chunk_aside(self, user_id: str, whole: Whole, chunk: Sequence[tuple[Row, Head, Built]]) -> list[Call[Any]]:
        keys, cap, token = self._scripts.keys, self._scripts.cap, whole.token
        inbox, mark = f"{keys.inbox(user_id)}:{token}", f"{keys.mark(user_id)}:{token}"
        scores: list[int | str] = []
        marks: list[str] = []
        empty: list[str] = []
        fills: list[Call[Any]] = []
        for row, head, built in chunk:
            id_, shown = row.conversation_id, built.mark.shown(cap)
            whole.total, whole.conversations = whole.total + shown, whole.conversations + (shown > 0)
            scores += (score_of(head, row), id_)
            marks += (id_, built.mark.packed())
            if built.unread:
                whole.unread_ids.append(id_)
                fills += self._fill_aside(user_id, id_, token, built.unread)
            else:
                empty.append(keys.unread(user_id, id_))
        whole.size += len(chunk)
        if not chunk:
            return []
        calls = [plain(inbox, b"ZADD", inbox, *scores), plain(mark, b"HSET", mark, *marks)]
        if empty:
            calls.append(plain(inbox, b"UNLINK", *empty))
        return [*calls, *(plain(key, b"EXPIRE", key, _ASIDE_TTL_S) for key in (inbox, mark)), *fills]

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
