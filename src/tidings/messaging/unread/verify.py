"""Verify: count every inbox again from the tables and compare it with what the keyspace shows: unread must be exact.

A cold user is no fault: the next read rebuilds it. A warm user that differs is a fault, and `repair` rebuilds it. The
verbs `tidings unread verify|repair` run on a quiet or a busy node: a user whose counts moved is compared once more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import msgspec

from tidings.bounds import PAGE_MAX, REBUILD_CHUNK
from tidings.messaging.unread.count import Count
from tidings.messaging.unread.large_counts import LargeCounts, sums_of
from tidings.messaging.unread.rebuild import Rebuilds
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.scripts.answers import Listed, Page, Place
from tidings.stores.keyspace.scripts.marks import Mark, Sums
from tidings.stores.keyspace.scripts.messaging import TOP, Scripts, filter_top
from tidings.stores.tables.ports import Tables

_NAMES = ("", "archived", "unread", "mentions", "muted", "pinned")  # the inbox, and the filters beside it
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


@dataclass(eq=False, repr=False)
class Verify:
    """`threads` compares the index of threads along with that of conversations."""

    tables: Tables
    keyspace: Keyspace
    scripts: Scripts
    count: Count
    rebuilds: Rebuilds
    large: LargeCounts
    threads: Verify | None = None

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
        mark = self.scripts.keys.mark(user_id)
        await self.keyspace.one(plain(mark, b"HDEL", mark, b"*"))
        await self.rebuilds.user(user_id)
        if self.threads is not None:
            await self.threads.reset(user_id)

    async def _users(self, user_id: str | None) -> AsyncIterator[str]:
        if user_id is not None:
            yield user_id
            return
        after_id = ""
        while found := await self.tables.inboxes.users(after_id=after_id, limit=REBUILD_CHUNK):
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
        """Return (conversations compared, differences). A cold user gives (0, []), apart from the threads.

        `before_more` runs before each chunk of a big inbox.
        """
        count, wrong = await self._compare(user_id, before_more)
        if self.threads is not None:
            wrong = [*wrong, *(await self.threads.compare(user_id, before_more))[1]]
        return count, wrong

    async def _compare(
        self, user_id: str, before_more: Callable[[], Awaitable[None]] | None
    ) -> tuple[int, list[Wrong]]:
        found = await self._shown(user_id)
        if found is None:
            return 0, []
        page, shown = found
        wrong: list[Wrong] = []
        sums, expected = Sums(), dict[str, set[str]]()
        async for chunk in self.count.all(user_id, before_more):
            for one in chunk:
                id_ = one.conversation_id
                sums.add(one.mark, self.scripts.cap)
                for name in _parts(one.mark):
                    expected.setdefault(name, set()).add(id_)
                listed = shown["large"].get(id_) or shown[""].get(id_) or shown["archived"].get(id_)
                if listed is not None and listed.mark is None and (one.mark.is_large or id_ in shown["large"]):
                    continue  # cold: the place in a large conversation comes with its mark
                score_ms = await self._score(id_, one.score_ms, listed)
                wrong += self._differences(user_id, Listed(id_, score_ms, one.mark), listed)
        if page.cold == 0:
            wrong += _totals_wrong(user_id, page, sums)
            for name in (*_NAMES, "large"):
                wanted = expected.get(name, set())
                more = shown[name].keys() - wanted
                wrong += [Wrong(user_id, id_, name or "inbox", 0, shown[name][id_].score_ms) for id_ in sorted(more)]
                missing = wanted - shown[name].keys() if name else ()
                wrong += [Wrong(user_id, id_, name, 1, 0) for id_ in sorted(missing)]
        else:
            listed_ids = shown[""] | shown["archived"] | shown["large"]
            gone = listed_ids.keys() - expected.get("", set()) - expected.get("archived", set())
            gone -= expected.get("large", set())
            wrong += [Wrong(user_id, id_, "inbox", 0, listed_ids[id_].score_ms) for id_ in sorted(gone)]
        return sums.size + sums.archived + sums.large or len(shown[""]), wrong

    async def _score(self, conversation_id: str, score_ms: int, found: Listed | None) -> int:
        """Return the place that the inbox must have: the time of the last message, or a higher one of a message below
        it. The times of a log may go back where a counter was lost, and the place in the inbox never does."""
        if found is None or found.score_ms <= score_ms:
            return score_ms
        heads = await self.tables.conversations.heads([conversation_id])
        last_seq = heads[conversation_id].last_seq if conversation_id in heads else 0
        entries = await self.tables.log.page(
            conversation_id, after=0, before=last_seq + 1, limit=PAGE_MAX, newest_first=True
        )
        return max([score_ms, *(entry.sent_ms for entry in entries if entry.bumps)])

    async def _shown(self, user_id: str) -> tuple[Page, dict[str, dict[str, Listed]]] | None:
        """Read the inbox and every filter from the keyspace, page by page. None: the user is cold."""
        shown: dict[str, dict[str, Listed]] = {}
        last: Page | None = None
        for name in _NAMES:
            shown[name] = {}
            after: Place | None = filter_top(name) if name else TOP
            while after is not None:
                last = await self.keyspace.one(self.scripts.inbox_page(user_id, limit=REBUILD_CHUNK, after=after))
                if last is None:
                    return None
                found = last.listed if name == "pinned" else [one for one in last.listed if not _is_large(one)]
                shown[name] |= {one.conversation_id: one for one in found}
                after = last.next
        if last is None or not last.large:
            return (last, shown | {"large": {}}) if last is not None else None
        counted = await self.large.all(user_id, last.large)
        if counted is None:
            return None  # a mark was too old, and is made anew
        scores = {one.conversation_id: one.score_ms for one in last.large}
        large = {id_: Listed(id_, max(scores[id_], one.last_ms), one.mark) for id_, one in counted.items()}
        large |= {one.conversation_id: one for one in last.large if one.mark is None}
        sums = sums_of(counted, self.scripts.cap)
        whole = msgspec.structs.replace(
            last,
            total_unread=last.total_unread + sums.loud,
            unread_conversations=last.unread_conversations + sums.conversations,
            total_mentions=last.total_mentions + sums.mentions,
        )
        pinned = {id_: large.get(id_, one) for id_, one in shown["pinned"].items()}
        return whole, shown | {"large": large, "pinned": pinned}

    def _differences(self, user_id: str, expected: Listed, found: Listed | None) -> list[Wrong]:
        id_, cap = expected.conversation_id, self.scripts.cap
        pairs = [("inbox", expected.score_ms, found.score_ms if found else 0)]
        if found is not None and found.mark is not None and expected.mark is not None:
            good, shown = expected.mark, found.mark
            pairs.append(("unread", good.shown(cap), shown.shown(cap)))
            pairs.append(("unread_capped", good.is_capped, shown.is_capped))
            pairs.append(("read_seq", good.cursor, shown.cursor))
            # 0: not known; a reader finds it in the log
            pairs.append(("first_unread", good.first, shown.first or good.first))
            pairs.append(("mentions", good.mentions, shown.mentions))
            pairs.append(("first_mention", good.first_mention, shown.first_mention))
            pairs.append(("flags", good.facts, shown.facts))
        return [Wrong(user_id, id_, what, want, got) for what, want, got in pairs if want != got]


def _is_large(one: Listed) -> bool:
    """Whether it is a large one that is pinned: those come with the first page of the inbox."""
    return one.mark is not None and one.mark.is_large


def _parts(mark: Mark) -> Iterator[str]:
    """The parts of the index that must show a conversation with this mark: the inbox ('') and the filters."""
    yield "large" if mark.is_large else "archived" if mark.is_archived else ""
    yield from ["unread"] if mark.count and not mark.is_large else []
    yield from ["mentions"] if mark.mentions and not mark.is_large else []
    yield from ["muted"] if mark.is_muted and not mark.is_large else []
    yield from ["pinned"] if mark.is_pinned else []


def _totals_wrong(user_id: str, page: Page, sums: Sums) -> list[Wrong]:
    pairs = [
        ("total_unread", sums.loud, page.total_unread),
        ("unread_conversations", sums.conversations, page.unread_conversations),
        ("total_mentions", sums.mentions, page.total_mentions),
    ]
    return [Wrong(user_id, "", what, want, got) for what, want, got in pairs if want != got]
