"""Inbox: a user's conversations, newest first. A page costs one sorted-set read and exactly the rows of the page.

Rows are written a little late (inbox_rows.py), so a row that is behind its place in the order is repaired from the
conversation's head as it is read. While the keyspace is down the tables answer alone, and the page says so.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from tidings.base64url import from_base64url, to_base64url
from tidings.bounds import PAGE_MAX
from tidings.clock import Clock
from tidings.errors import BadCursor, NotFound, Unavailable
from tidings.ids import is_id
from tidings.messaging.access import Access
from tidings.messaging.reading.inbox_rows import write_rows
from tidings.messaging.reading.large_pages import LargePages
from tidings.messaging.reading.row_records import RowRecords, read_row_records, read_rules
from tidings.messaging.reading.table_filters import Filter, TableFilters, place_of
from tidings.messaging.unread.line import touch_of
from tidings.messaging.unread.rebuild import ANY_VERSION, Rebuilds
from tidings.messaging.unread.unread import Unread
from tidings.model import NO_RULES, ConversationKind, Head, InboxItem, InboxPage, ReadState, Row, Totals
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.scripts.answers import Listed, Page, Place
from tidings.stores.keyspace.scripts.messaging import TOP, Scripts, filter_top
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.stored_content import AT_HEAD
from tidings.tasks import SingleFlight

FILTERS = get_args(Filter)
PARTS = ("first", "inbox", *FILTERS)  # what a cursor can stand in: `first` are the pinned ones of the whole inbox
_FLAGS = ("pinned", "archived", "muted")  # filters that the flag of a row decides
_TRIES_MAX = 20  # a page that meets something cold is read again after the rebuild
_SEAL_BYTES = 6  # enough to notice a mistake; there is nothing to gain by forging a place in one's own inbox
_SCORE_MAX = 1 << 53  # ms; the largest number that a sorted set holds exactly


def encode_cursor(user_id: str, place: Place) -> str:
    """Return where a page ended, sealed for the user: the cursor of another user is refused."""
    text = f"{place.part}:{place.score}:{place.conversation_id}".encode()
    return to_base64url(_seal(user_id, text) + text)


def decode_cursor(user_id: str, cursor: str, is_known: Callable[[str], bool] = is_id) -> Place:
    """Return the place in a cursor. Raises BadCursor for a text that encode_cursor never makes for this user."""
    try:
        raw = from_base64url(cursor)
        part, score, conversation_id = raw[_SEAL_BYTES:].decode().split(":")
        place = Place(part, int(score), conversation_id)
    except ValueError:
        raise BadCursor() from None
    is_possible = abs(place.score) <= _SCORE_MAX and (is_known(conversation_id) or not conversation_id)
    if not is_possible or part not in PARTS or encode_cursor(user_id, place) != cursor:
        raise BadCursor()
    return place


def _seal(user_id: str, place: bytes) -> bytes:
    return hashlib.blake2b(place, digest_size=_SEAL_BYTES, key=hashlib.sha256(user_id.encode()).digest()).digest()


@dataclass(eq=False, repr=False)
class Inbox:
    """Reads pages of an inbox, and sets the user's own flags on a row."""

    access: Access
    tables: Tables
    keyspace: Keyspace
    scripts: Scripts
    rebuilds: Rebuilds
    unread: Unread
    large_pages: LargePages
    count_repair: Callable[[str, int], None]
    clock: Clock

    def __post_init__(self) -> None:
        # Every client reads its inbox again when the keyspace goes, and each such page costs many reads.
        self._page_from_tables = SingleFlight(self._read_tables)
        self._filter_from_tables = SingleFlight(self._filter_tables)
        self._filters = TableFilters(self.tables.inboxes, self._items_from_tables)

    async def page(
        self,
        user_id: str,
        *,
        limit: int,
        cursor: str | None,
        filter_name: Filter | None = None,
        kind: ConversationKind | None = None,
        has_records: bool = True,
    ) -> InboxPage:
        """Return a page of the inbox, or of one of its filters. `has_records`: with drafts and rules."""
        limit = min(max(limit, 1), PAGE_MAX)
        top = filter_top(filter_name) if filter_name else TOP
        after = decode_cursor(user_id, cursor) if cursor else top
        if after.part != top.part and (filter_name or after.part not in (TOP.part, "inbox")):
            raise BadCursor()  # of another filter
        try:
            page = await self._page(user_id, limit, after, kind, has_records)
        except Unavailable:
            if filter_name or kind:
                return await self._filter_from_tables(user_id, limit, after, filter_name, kind)
            return await self._page_from_tables(user_id, limit, after)
        if filter_name in _FLAGS:  # a flag may have been taken off after the page was listed, or its time may be over
            fitting = [one for one in page.items if getattr(one.row, filter_name)]
            page = msgspec.structs.replace(page, items=fitting)
        return page

    async def item(self, user_id: str, conversation_id: str) -> InboxItem:
        """Return one line of the inbox, repaired. The caller has authorized."""
        rows = await self.tables.inboxes.rows(user_id, [conversation_id])
        if conversation_id not in rows:
            raise NotFound("no such conversation")
        repaired = await self._repair(rows, [conversation_id])
        rules = await read_rules(self.tables.records, conversation_id)
        beside = RowRecords(rules={conversation_id: rules})
        return self._item(repaired[conversation_id], await self.unread.state_soon(user_id, conversation_id), beside)

    def _item(self, row: Row, state: ReadState, beside: RowRecords) -> InboxItem:
        """A line of the inbox with the flags as they are now: a mute may be over, and an archived one may be back."""
        if row.muted or row.archived:
            now_ms = self.clock.now_ms()
            row = msgspec.structs.replace(row, muted=row.is_muted(now_ms), archived=row.is_archived(now_ms))
        rules = NO_RULES if row.is_invited else beside.rules_of(row.conversation_id)
        return InboxItem(row, state, beside.drafts.get(row.conversation_id), rules)

    async def changed(self, user_id: str, since_ms: int, limit: int = -1) -> list[str]:
        """Return conversations with a message or a join since then, newest first; limit -1 means all of them. The inbox
        index is the offline queue."""
        await self.unread.totals(user_id)  # warm, so that the order is complete
        keys = self.scripts.keys
        since = (b"+inf", since_ms, b"BYSCORE", b"REV", b"LIMIT", 0, limit, b"WITHSCORES")
        calls = [plain(key, b"ZRANGE", key, *since) for key in (keys.inbox(user_id), keys.filter(user_id, "archived"))]
        flat = [part for found in await self.keyspace.run(calls) for part in found]
        placed = [(float(score), id_.decode()) for score, id_ in zip(flat[1::2], flat[::2], strict=True)]
        placed += await self.large_pages.changed(user_id, since_ms)
        return [id_ for _, id_ in sorted(placed, reverse=True)[: limit if limit >= 0 else None]]

    async def _page(
        self, user_id: str, limit: int, after: Place, kind: ConversationKind | None, has_records: bool
    ) -> InboxPage:
        for _ in range(_TRIES_MAX):
            call = self.scripts.inbox_page(user_id, limit=limit, after=after, kind=kind)
            calls: tuple[Call[Any], ...] = (call, self.scripts.threads.unread_state(user_id))
            page, threads = await self.keyspace.run(calls)
            if page is None:
                await self.rebuilds.user(user_id)
                continue
            if page.cold > 0:
                await self.rebuilds.cold_conversations(user_id)
                continue
            if page.large:
                merged = await self.large_pages.merge(user_id, page, limit=limit, after=after, kind=kind)
                if merged is None:
                    continue
                page = merged
            rows, heads, beside = await self._rows(user_id, page.listed, has_records)
            if len(rows) == len(page.listed):
                is_known = threads is not None and threads.total_unread is not None
                totals = None if is_known else await self.unread.totals(user_id)
                unread_threads = threads.unread_conversations if totals is None else totals.unread_threads
                return await self._complete(user_id, page, _with_heads(rows, heads), beside, unread_threads)
            await self._drop_left(user_id, page, rows)
        raise Unavailable("the inbox is being rebuilt")

    async def _rows(
        self, user_id: str, listed: Sequence[Listed], has_records: bool
    ) -> tuple[dict[str, Row], dict[str, Head], RowRecords]:
        """Read at once: rows, the heads of large conversations, whose rows nobody writes, and the records beside."""
        ids = [one.conversation_id for one in listed]
        large = [one.conversation_id for one in listed if one.mark is not None and one.mark.is_large]
        return await asyncio.gather(
            self.tables.inboxes.rows(user_id, ids),
            self.tables.conversations.heads(large) if large else _nothing(),
            read_row_records(self.tables.records, user_id, ids) if has_records else _no_records(),
        )

    async def _complete(
        self, user_id: str, page: Page, rows: dict[str, Row], beside: RowRecords, unread_threads: int
    ) -> InboxPage:
        behind = [one.conversation_id for one in page.listed if _is_behind(rows[one.conversation_id], one)]
        if behind:
            rows = await self._repair(rows, behind)
        describe, totals = self.unread.describe, (page.total_unread, page.total_mentions)
        items = []
        for one in page.listed:
            assert one.mark is not None  # page.cold is 0
            state = await describe(user_id, one.conversation_id, one.mark, *totals)
            items.append(self._item(rows[one.conversation_id], state, beside))
        return InboxPage(
            items,
            encode_cursor(user_id, page.next) if page.next else None,
            Totals(page.total_unread, page.unread_conversations, page.total_mentions, unread_threads),
        )

    async def _repair(self, rows: dict[str, Row], ids: list[str]) -> dict[str, Row]:
        """Bring rows up to their conversation's head, for this answer and in the table."""
        heads = await self.tables.conversations.heads(ids)
        rows = _with_heads(rows, {id_: heads.pop(id_) for id_ in list(heads) if heads[id_].large_ms})
        repaired: dict[str, Row] = {}
        while behind := {id_: head for id_, head in heads.items() if _is_older(rows[id_], head)}:
            repaired |= {id_: _up_to_date(rows[id_], head) for id_, head in behind.items()}
            touches = [touch_of(rows[id_].user_id, head) for id_, head in behind.items()]
            heads = await write_rows(self.tables, behind, touches)
        if repaired:
            self.count_repair("row", len(repaired))
        return rows | repaired

    async def _drop_left(self, user_id: str, page: Page, rows: dict[str, Row]) -> None:
        """Drop listed conversations that have no row: the user has left them, and the keyspace missed it."""
        gone = [one.conversation_id for one in page.listed if one.conversation_id not in rows]
        for conversation_id in gone:
            try:
                await self.rebuilds.conversation(user_id, conversation_id, version=ANY_VERSION)
            except NotFound:
                self.count_repair("inbox", 1)

    async def _read_tables(self, user_id: str, limit: int, after: Place) -> InboxPage:
        before = (after.score, after.conversation_id) if after.conversation_id else None
        rows = await self.tables.inboxes.latest(user_id, before=before, limit=limit + 1)
        last = rows[limit - 1] if len(rows) > limit else None
        items = await self._items_from_tables(user_id, rows[:limit])
        return InboxPage(
            items,
            encode_cursor(user_id, place_of(last)) if last else None,
            await self._totals_from_tables(user_id, rows[:limit], items),
            is_stale=True,
        )

    async def _filter_tables(
        self, user_id: str, limit: int, after: Place, name: Filter | None, kind: ConversationKind | None
    ) -> InboxPage:
        items, place = await self._filters.page(user_id, limit, after, name, kind)
        totals = await self._totals_from_tables(user_id, [one.row for one in items], items)
        return InboxPage(items, encode_cursor(user_id, place) if place else None, totals, is_stale=True)

    async def _totals_from_tables(self, user_id: str, rows: list[Row], items: list[InboxItem]) -> Totals:
        """The counts that the rows know are all there is; what is on the page is counted."""
        total, conversations = await self.tables.inboxes.unread(user_id)
        known = [row.unread_count or 0 for row in rows]
        counted = [item.state.unread_count or 0 for item in items]
        total += sum(counted) - sum(known)
        conversations += sum(count > 0 for count in counted) - sum(count > 0 for count in known)
        return Totals(max(total, 0), max(conversations, 0))

    async def _items_from_tables(self, user_id: str, rows: list[Row]) -> list[InboxItem]:
        ids = [row.conversation_id for row in rows]
        repaired = await self._repair({row.conversation_id: row for row in rows}, ids)
        beside = await read_row_records(self.tables.records, user_id, ids)
        states = await asyncio.gather(*(self.unread.from_tables(user_id, id_) for id_ in ids), return_exceptions=True)
        items = []
        for id_, state in zip(ids, states, strict=True):
            if isinstance(state, BaseException):
                if not isinstance(state, NotFound):  # left since the rows were read
                    raise state
            else:
                items.append(self._item(repaired[id_], state, beside))
        return items


def _with_heads(rows: dict[str, Row], large: Mapping[str, Head]) -> dict[str, Row]:
    """Nobody writes the rows of a large conversation, so they show what its head says."""
    return rows | {id_: _up_to_date(rows[id_], head) for id_, head in large.items() if _is_seen(rows[id_], head)}


async def _nothing() -> dict[str, Head]:
    return {}


async def _no_records() -> RowRecords:
    return RowRecords()


def _is_older(row: Row, head: Head) -> bool:
    """Whether the row shows an older message than the head, or leaves the text to it, and the member may see it."""
    return (head.last_seq > row.last_seq or row.last_message == AT_HEAD) and _is_seen(row, head)


def _is_seen(row: Row, head: Head) -> bool:
    """Whether the user sees the last message: a user who is invited is no member, and sees none."""
    return not row.is_invited and (head.history != "joined" or head.last_seq > row.joined_seq)


def _up_to_date(row: Row, head: Head) -> Row:
    return msgspec.structs.replace(
        row,
        last_message_preview=head.preview,
        last_message_ts=head.last_ms,
        last_seq=head.last_seq,
        last_message=head.last_message,
    )


def _is_behind(row: Row, one: Listed) -> bool:
    if one.mark is not None and one.mark.is_large:
        return False  # it shows what the head says
    if row.last_message == AT_HEAD:
        return True  # it was large
    score_ms = one.score_ms
    return score_ms > row.last_message_ts and score_ms > row.joined_ms and score_ms > 1
