"""Recompute every unread count and inbox from the tables and compare with what the keyspace shows: promise 4, checked.

A COLD user is no fault: it is rebuilt when somebody looks. A warm one that differs is, and `repair` rebuilds it. Run by
`tidings unread verify|repair`, on a quiet or a busy node: what moved while it was compared is compared once more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from tidings.bounds import REBUILD_CHUNK
from tidings.messaging.rebuild import Rebuilds, Tables, is_shown, score_of
from tidings.stores.calls import Keyspace, plain
from tidings.stores.scripts import Page, Scripts

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
        """Forget the user's index and build it again."""
        mark = self._scripts.keys.mark(user_id)
        await self._keyspace.run([plain(mark, b"HDEL", mark, b"*"), plain(mark, b"HINCRBY", mark, b":gen", 1)])
        await self._rebuilds.user(user_id)

    async def _users(self, user_id: str | None) -> AsyncIterator[str]:
        if user_id is not None:
            yield user_id
            return
        after_id = ""
        while found := await self._tables.users(after_id=after_id, limit=REBUILD_CHUNK):
            for one in found:
                yield one
            after_id = found[-1]

    async def _settled(self, user_id: str) -> tuple[int, list[Wrong]]:
        """Compared until it agrees or keeps differing."""
        count, differences = await self._compare(user_id)
        for _ in range(_TRIES_MAX - 1):
            if not differences:
                break
            count, differences = await self._compare(user_id)
        return count, differences

    async def _compare(self, user_id: str) -> tuple[int, list[Wrong]]:
        """(conversations compared, differences). A COLD user: (0, [])."""
        page = await self._keyspace.one(self._scripts.inbox_page(user_id, limit=1_000_000, after=None))
        if page is None:
            return 0, []
        shown = {one.conversation_id: one for one in page.listed}
        wrong: list[Wrong] = []
        total = conversations = 0
        expected_ids = set()
        async for row, head, built in self._rebuilds.read_all(user_id):
            id_ = row.conversation_id
            if not is_shown(head, row):
                continue
            expected_ids.add(id_)
            count = built.mark.shown(self._scripts.cap)
            total, conversations = total + count, conversations + (count > 0)
            listed = shown.get(id_)
            if listed is None or listed.score_ms != score_of(head, row):
                found = listed.score_ms if listed else 0
                wrong.append(Wrong(user_id, id_, "inbox", score_of(head, row), found))
            if listed is not None and listed.mark is not None and listed.mark.shown(self._scripts.cap) != count:
                wrong.append(Wrong(user_id, id_, "unread", count, listed.mark.shown(self._scripts.cap)))
        wrong += [Wrong(user_id, id_, "inbox", 0, shown[id_].score_ms) for id_ in shown.keys() - expected_ids]
        return len(expected_ids) or len(shown), wrong + _totals_wrong(user_id, page, total, conversations)


def _totals_wrong(user_id: str, page: Page, total: int, conversations: int) -> list[Wrong]:
    if page.cold > 0:
        return []
    wrong = []
    if page.total_unread != total:
        wrong.append(Wrong(user_id, "", "total_unread", total, page.total_unread))
    if page.unread_conversations != conversations:
        wrong.append(Wrong(user_id, "", "unread_conversations", conversations, page.unread_conversations))
    return wrong
