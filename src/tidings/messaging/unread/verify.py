"""Verify: count every inbox again from the tables and compare it with what the keyspace shows: unread must be exact.

A cold user is no fault: the next read rebuilds it. A warm user that differs is a fault, and `repair` rebuilds it. The
verbs `tidings unread verify|repair` run on a quiet or a busy node: a user whose counts moved is compared once more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from tidings.bounds import PAGE_MAX, REBUILD_CHUNK
from tidings.messaging.unread.rebuild import Rebuilds, score_of
from tidings.model import Head, Row
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.scripts.answers import Listed, Page
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables

_TRIES_MAX = 3  # a user who gets messages meanwhile is compared again


class Wrong(msgspec.Struct, frozen=True):
    """One difference between the tables and the keyspace."""

    user_id: str
    conversation_id: str
    what: str
    expected: int
    found: int


class Report(msgspec.Struct, frozen=True):
    users: int
    conversations: int
    cold: int
    repaired: int
    wrong: list[Wrong]

    @property
    def is_ok(self) -> bool:
        return not self.wrong or self.repaired > 0


class Verify:
    def __init__(self, tables: Tables, keyspace: Keyspace, scripts: Scripts, rebuilds: Rebuilds) -> None:
        self._tables = tables
        self._keyspace = keyspace
        self._scripts = scripts
        self._rebuilds = rebuilds

    async def run(self, user_id: str | None, *, repair: bool) -> Report:
        users = conversations = cold = repaired = 0
        wrong: list[Wrong] = []
        async for one in self._users(user_id):
            users += 1
            count, differences = await self._settled(one)
            conversations += count
            cold += count == 0
            if differences and repair:
                await self.reset(one)
                repaired += 1
            wrong += differences
        return Report(users, conversations, cold, repaired, wrong)

    async def reset(self, user_id: str) -> None:
        """Make the user cold and rebuild the index."""
        mark = self._scripts.keys.mark(user_id)
        await self._keyspace.one(plain(mark, b"HDEL", mark, b"*"))
        await self._rebuilds.user(user_id)

    async def _users(self, user_id: str | None) -> AsyncIterator[str]:
        if user_id is not None:
            yield user_id
            return
        after_id = ""
        while found := await self._tables.inboxes.users(after_id=after_id, limit=REBUILD_CHUNK):
            for one in found:
                yield one
            after_id = found[-1]

    async def _settled(self, user_id: str) -> tuple[int, list[Wrong]]:
        """Compare a user until nothing differs, or until the differences have stayed for all tries."""
        count, differences = await self.compare(user_id)
        for _ in range(_TRIES_MAX - 1):
            if not differences:
                break
            count, differences = await self.compare(user_id)
        return count, differences

    async def compare(
        self, user_id: str, before_more: Callable[[], Awaitable[None]] | None = None
    ) -> tuple[int, list[Wrong]]:
        """Return (conversations compared, differences). A cold user gives (0, []).

        `before_more` runs between two chunks of a big inbox.
        """
        found = await self._shown(user_id)
        if found is None:
            return 0, []
        page, shown = found
        wrong: list[Wrong] = []
        total = conversations = 0
        expected_ids = set()
        async for chunk in self._rebuilds.count_all(user_id, before_more):
            for row, head, counted in chunk:
                id_, count = row.conversation_id, counted.mark.shown(self._scripts.cap)
                expected_ids.add(id_)
                total, conversations = total + count, conversations + (count > 0)
                expected = Listed(id_, await self._score(head, row, shown.get(id_)), counted.mark)
                wrong += self._differences(user_id, expected, shown.get(id_))
        wrong += [Wrong(user_id, id_, "inbox", 0, shown[id_].score_ms) for id_ in shown.keys() - expected_ids]
        return len(expected_ids) or len(shown), wrong + _totals_wrong(user_id, page, total, conversations)

    async def _score(self, head: Head, row: Row, found: Listed | None) -> int:
        """Return the place that the inbox must have: the time of the last message, or a higher one of a message below
        it. The times of a log may go back where a counter was lost, and the place in the inbox never does."""
        score_ms = score_of(head, row)
        if found is None or found.score_ms <= score_ms:
            return score_ms
        entries = await self._tables.log.page(
            head.conversation_id, after=0, before=head.last_seq + 1, limit=PAGE_MAX, newest_first=True
        )
        return max([score_ms, *(entry.sent_ms for entry in entries if entry.bumps)])

    async def _shown(self, user_id: str) -> tuple[Page, dict[str, Listed]] | None:
        """Read the whole inbox from the keyspace, page by page. None: the user is cold."""
        shown: dict[str, Listed] = {}
        after: tuple[int, str] | None = None
        while True:
            call = self._scripts.inbox_page(user_id, limit=REBUILD_CHUNK, after=after)
            page = await self._keyspace.one(call)
            if page is None:
                return None
            shown |= {one.conversation_id: one for one in page.listed}
            if not page.listed or page.left == 0:
                return page, shown
            after = page.listed[-1].score_ms, page.listed[-1].conversation_id

    def _differences(self, user_id: str, expected: Listed, found: Listed | None) -> list[Wrong]:
        id_, cap = expected.conversation_id, self._scripts.cap
        pairs = [("inbox", expected.score_ms, found.score_ms if found else 0)]
        if found is not None and found.mark is not None and expected.mark is not None:
            good, shown = expected.mark, found.mark
            pairs.append(("unread", good.shown(cap), shown.shown(cap)))
            pairs.append(("unread_capped", good.is_capped, shown.is_capped))
            pairs.append(("read_seq", good.cursor, shown.cursor))
            pairs.append(
                ("first_unread", good.first, shown.first or good.first)
            )  # 0: not known; a reader finds it in the log
        return [Wrong(user_id, id_, what, want, got) for what, want, got in pairs if want != got]


def _totals_wrong(user_id: str, page: Page, total: int, conversations: int) -> list[Wrong]:
    if page.cold > 0:
        return []
    wrong = []
    if page.total_unread != total:
        wrong.append(Wrong(user_id, "", "total_unread", total, page.total_unread))
    if page.unread_conversations != conversations:
        wrong.append(Wrong(user_id, "", "unread_conversations", conversations, page.unread_conversations))
    return wrong
