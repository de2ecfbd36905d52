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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec

from tidings.bounds import REBUILD_CHUNK, REBUILD_TRIES_MAX, REBUILDS_BIG_MAX, REBUILDS_MAX
from tidings.clock import Clock
from tidings.errors import NotFound, Unavailable
from tidings.messaging.unread.count import Count, Counted
from tidings.stores.keyspace.call import Call, Keyspace, Slices, plain
from tidings.stores.keyspace.scripts.marks import Mark, Sums
from tidings.stores.keyspace.scripts.messaging import Scripts, mentions_of
from tidings.tasks import KeyedLock, SingleFlight

_ASIDE_TTL_S = 600  # keys that were built aside and never installed expire after this time
_SILENT_MS = 3_000  # a node that rebuilds a user says so with every chunk; after this silence it counts as dead
_BEAT_S = 1.0  # how often a rebuild that waits for a place says that it is alive
_SLICE = 100  # unread sets put in place by one script: about a millisecond of the server
_POLL_S = 0.05  # how often we ask whether another node has finished the rebuild
_OTHER_NODE_S = 60.0  # how long we wait for the rebuild of another node altogether
_PAUSE_S_MAX = 0.1  # between two chunks of a big inbox
HOLD_MS = 15_000  # longer than a commit takes; an older marker was left by a node that died
ANY_VERSION = 1 << 53  # higher than the version of any mark, so the conversation is read again in any case


class _Aside(msgspec.Struct):
    """A user's index while it is built aside, under names with the token."""

    token: str
    sums: Sums


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


class Rebuilds:
    """Makes cold indexes warm again."""

    def __init__(
        self, keyspace: Keyspace, scripts: Scripts, count: Count, clock: Clock, *, count_rebuild: Callable[[str], None]
    ) -> None:
        self._keyspace = keyspace
        self._slices = Slices(keyspace)
        self._scripts = scripts
        self._count = count
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

    # --- one conversation ---------------------------------------------------------------------------

    async def _count_or_drop(self, user_id: str, conversation_id: str, gen: str | None) -> Counted:
        try:
            return await self._count.one(user_id, conversation_id, is_for_index=True)
        except NotFound:
            if gen is not None:  # the inbox lists it without a row: the user has left, and the keyspace missed it
                await self._keyspace.one(self._scripts.inbox_leave(user_id, conversation_id, gen=gen))
            raise

    async def _install(self, user_id: str, conversation_id: str, gen: str, counted: Counted) -> bool:
        """Put one conversation into place. False: it changed meanwhile."""
        token = self.token()
        install = self._scripts.unread_install(
            user_id,
            conversation_id,
            token,
            gen=gen,
            mark=counted.mark,
            score_ms=counted.score_ms,
            pinned_ms=counted.pinned_ms,
        )
        calls = [*self._wake(user_id, counted), *self._fill_aside(user_id, token, counted), install]
        is_installed = bool((await self._keyspace.run(calls))[-1])
        if is_installed:
            self._count_rebuild("unread")
        return is_installed

    def _wake(self, user_id: str, counted: Counted) -> list[Call[Any]]:
        """Leave a marker that makes the conversation cold when its mute is over: then it counts in the badge again."""
        if counted.ends_ms is None:
            return []
        put, id_ = self._scripts.unread_put, counted.conversation_id
        hold_ms = max(counted.ends_ms - self._clock.now_ms(), 1)
        token = f"mute={id_}"  # no id has this sign, so no other marker ends with it
        return [put(user_id, token, hold_ms=0), put(user_id, token, hold_ms=hold_ms, conversation_id=id_)]

    def _fill_aside(self, user_id: str, token: str, counted: Counted) -> list[Call[Any]]:
        key = self._scripts.aside(user_id, counted.conversation_id, token)
        return [*_fill(key, counted.unread), *_fill(mentions_of(key), counted.mentions)]

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
        aside = _Aside(token, Sums())
        beat = self._scripts.inbox_begin(user_id, token, wait_ms=_SILENT_MS, is_begun=True)
        async for chunk in self._count.all(user_id, lambda: self._make_room(place, beat), is_for_index=True):
            begun, *answers = await self._slices.run([beat, *self._chunk_aside(user_id, aside, chunk)])
            if begun != 0:
                return bool(begun == 1)
            if not all(placed for placed in answers if isinstance(placed, bool)):
                return False
        return await self._keyspace.one(self._scripts.inbox_install(user_id, token, aside.sums))

    async def _make_room(self, place: _Place, beat: Call[int]) -> None:
        """Let others have half of the time: the rebuild of a big inbox is nobody's hurry."""
        await place.grow(lambda: self._keyspace.one(beat))
        await asyncio.sleep(min(self._clock.monotonic_s() - place.since_s, _PAUSE_S_MAX))
        place.since_s = self._clock.monotonic_s()

    def _chunk_aside(self, user_id: str, aside: _Aside, chunk: Sequence[Counted]) -> list[Call[Any]]:
        """Return the calls that build a chunk aside and put its unread sets in place. Only the latter answer a bool."""
        if not chunk:
            return []
        keys, token = self._scripts.keys, aside.token
        inbox, mark = f"{keys.inbox(user_id)}:{token}", f"{keys.mark(user_id)}:{token}"
        sets: dict[str, list[int | str]] = {}
        for one in chunk:
            aside.sums.add(one.mark, self._scripts.cap)
            for name, score in _sets(one):
                sets.setdefault(f"{inbox}{name}", []).extend((score, one.conversation_id))
        calls = [plain(key, b"ZADD", key, *scores) for key, scores in sets.items()]
        marks = [part for one in chunk for part in (one.conversation_id, one.mark.packed())]
        calls.append(plain(mark, b"HSET", mark, *marks))
        calls += [plain(key, b"EXPIRE", key, _ASIDE_TTL_S) for key in (*sets, mark)]
        unread = {keys.unread(user_id, one.conversation_id): one for one in chunk}
        empty = [key for key, one in unread.items() if not one.unread]
        empty += [mentions_of(key) for key, one in unread.items() if not one.mentions]
        calls += [plain(inbox, b"UNLINK", *empty[i : i + _SLICE]) for i in range(0, len(empty), _SLICE)]
        fills = [call for one in chunk for call in self._fill_aside(user_id, token, one)]
        fills += [call for one in chunk for call in self._wake(user_id, one)]
        unread_ids = [one.conversation_id for one in chunk if one.unread]
        mention_ids = [one.conversation_id for one in chunk if one.mentions]
        place = self._scripts.inbox_place
        slices = [place(user_id, token, unread_ids[i : i + _SLICE]) for i in range(0, len(unread_ids), _SLICE)]
        slices += [place(user_id, token, (), mention_ids[i : i + _SLICE]) for i in range(0, len(mention_ids), _SLICE)]
        return [*calls, *fills, *slices]


def _fill(key: str, seqs: Sequence[int]) -> list[Call[Any]]:
    """Return the calls that make a set of these numbers."""
    calls: list[Call[Any]] = [
        plain(key, b"ZADD", key, *(part for seq in seqs[i : i + REBUILD_CHUNK] for part in (seq, seq)))
        for i in range(0, len(seqs), REBUILD_CHUNK)
    ]
    return [*calls, plain(key, b"EXPIRE", key, _ASIDE_TTL_S)] if calls else []


def _sets(one: Counted) -> Iterator[tuple[str, int]]:
    """The inbox and the filters that show a conversation, each with its score there."""
    mark, score = one.mark, one.score_ms
    yield ":large" if mark.is_large else ":archived" if mark.is_archived else "", score
    if mark.count:
        yield ":unread", score
    if mark.mentions:
        yield ":mentions", score
    if mark.is_muted and not mark.is_large:
        yield ":muted", score
    if mark.is_pinned:
        yield ":pinned", -one.pinned_ms
