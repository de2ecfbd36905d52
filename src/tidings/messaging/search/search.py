"""Search: messages of one's own conversations, by words, the newest first.

An index names messages that may fit. Each of them is read from the log as it is now, the cold tier included, and
decides: what is deleted, expired, edited, before one's own beginning or of somebody blocked is no hit. Where the store
has no index, the newest messages are read. `is_complete` says whether everything was looked at.

A stranger learns nothing: only conversations of the asker are asked about, and another one does not exist. An answer
takes LEAST_S at least. So its time does not tell how many words of others begin like the one that was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tidings.bounds import SEARCH_READ_MAX
from tidings.clock import Clock
from tidings.cursors import cursor_of, place_at
from tidings.errors import BadCursor, BadRequest, NotFound
from tidings.ids import is_id
from tidings.messaging.access import Access, seen_by
from tidings.messaging.log import NEWEST, Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.search.indexer import Indexer
from tidings.messaging.search.words import Piece, has_link, hits_in, snippet_of, terms_of
from tidings.messaging.summaries import Summaries
from tidings.model import KINDS, Beside, Entry
from tidings.stores.tables.ports import Inboxes
from tidings.stores.tables.search import END, Asked, Place, SearchIndex, Term
from tidings.tasks import Recent

KNOWN_S = 5.0  # how long a node knows the conversations of a user who searches; each hit is checked anyway
KNOWN_MAX = 200  # users whose conversations are known so: 20 MB where each has 1,000
LEAST_S = 0.02  # twice what nearly every search over a million messages takes (`tidings bench search`)
ROUNDS_MAX = 5  # reads of the index for one page: only messages that are gone make a second one necessary
READ_CONVERSATIONS = 10  # conversations that share these reads, if none is named
CONVERSATIONS_MAX = 20_000  # of one user that a search looks at: 200 reads, kept for a few seconds
_TOGETHER = 100  # rows, or messages, in one read


class Question(msgspec.Struct, frozen=True, kw_only=True):
    q: str
    conversation_id: str | None = None
    sender_id: str | None = None
    after: int | None = None  # ms, on the clock of sent_at; the message itself is included
    before: int | None = None  # ms, excluded
    has: str | None = None  # file or link
    limit: int = 20
    cursor: str | None = None


class Hit(msgspec.Struct, frozen=True):
    entry: Entry
    snippet: list[Piece]


class Found(msgspec.Struct, frozen=True):
    hits: list[Hit]
    next_cursor: str | None
    is_complete: bool
    beside: Mapping[tuple[str, int], Beside] = {}  # (conversation_id, seq_no) of a hit -> what is shown beside it


class _Scope(msgspec.Struct, frozen=True):
    """The conversations of an asker, and whether all of them are indexed."""

    conversation_ids: list[str]
    is_complete: bool


@dataclass(eq=False, repr=False)
class Search:
    index: SearchIndex | None
    indexer: Indexer
    access: Access
    blocks: Blocks
    summaries: Summaries
    entries: Log
    inboxes: Inboxes
    clock: Clock
    observe: Callable[[float], object]

    def __post_init__(self) -> None:
        self._scopes = Recent[str, tuple[float, _Scope]](KNOWN_MAX)

    async def find(self, user_id: str, question: Question) -> Found:
        """Raises BadRequest, BadCursor, NotFound for a conversation of others, and StoreError."""
        began_s = self.clock.monotonic_s()
        terms = terms_of(question.q)
        if not terms:
            raise BadRequest("`q` has no word to look for")
        below = _place_of(question.cursor) if question.cursor else END
        if question.before is not None:
            below = min(below, Place(question.before, "", 0))
        blocked = await self.blocks.blocked_by(user_id)
        find = self._by_reading if self.index is None else self._by_index
        found = await find(user_id, question, terms, below, blocked)
        beside = await self.summaries.beside_each(user_id, [hit.entry for hit in found.hits])
        took_s = self.clock.monotonic_s() - began_s
        self.observe(took_s)
        await asyncio.sleep(max(0.0, LEAST_S - took_s))
        return msgspec.structs.replace(found, beside=beside)

    def deleted(self, conversation_id: str) -> None:
        """The words of a conversation that is gone must go too."""
        self.indexer.note(conversation_id)

    # --- with an index ------------------------------------------------------------------------------

    async def _by_index(
        self, user_id: str, question: Question, terms: tuple[Term, ...], below: Place, blocked: frozenset[str]
    ) -> Found:
        assert self.index is not None
        scope = await self._scope(user_id, question.conversation_id)
        is_exact = question.conversation_id is not None  # its head was read; the rows of an inbox are a moment late
        is_complete = scope.is_complete and (is_exact or not self.indexer.is_behind(scope.conversation_ids))
        hits: list[Hit] = []
        for number in range(ROUNDS_MAX):
            most = _TOGETHER if number else question.limit + 1  # one more tells whether there is a next page
            asked = Asked(
                terms=terms,
                conversation_ids=scope.conversation_ids,
                sender_id=question.sender_id,
                after_ms=min(question.after or 0, END.sent_ms),
                below=below,
                has_file=question.has == "file",
                has_link=question.has == "link",
                limit=most,
            )
            places = await self.index.find(asked) if scope.conversation_ids else []
            read = await asyncio.gather(*(self._hit(user_id, place, question, terms, blocked) for place in places))
            for place, hit in zip(places, read, strict=True):
                if hit is not None and len(hits) == question.limit:
                    return Found(hits, cursor_of(below), is_complete)
                below = place
                if hit is not None:
                    hits.append(hit)
            if len(places) < most:
                return Found(hits, None, is_complete)
        return Found(hits, cursor_of(below), False)

    async def _hit(
        self, user_id: str, place: Place, question: Question, terms: tuple[Term, ...], blocked: frozenset[str]
    ) -> Hit | None:
        """The message at a place, if it is one that the asker may see and that fits as it is now."""
        try:
            member_list = await self.access.authorize(user_id, place.conversation_id, "read")
        except NotFound:
            self.indexer.note(place.conversation_id)  # it may be deleted: then its words go
            return None
        if place.seq_no <= member_list.visible_after(user_id):
            return None
        entry = await self.entries.entry(place.conversation_id, place.seq_no)
        now_ms = self.clock.now_ms()
        return None if entry is None else _hit_of(seen_by(user_id, entry, now_ms), question, terms, blocked)

    async def _scope(self, user_id: str, conversation_id: str | None) -> _Scope:
        if conversation_id is not None:
            await self.access.authorize(user_id, conversation_id, "read")
            head = await self.entries.top(conversation_id)
            return _Scope([conversation_id], not await self._behind({conversation_id: head}))
        known = self._scopes.get(user_id)
        if known is not None and known[0] > self.clock.monotonic_s():
            return known[1]
        heads, is_all = await self._heads(user_id)
        scope = _Scope(list(heads), is_all and not await self._behind(heads))
        self._scopes.put(user_id, (self.clock.monotonic_s() + KNOWN_S, scope))
        return scope

    async def _heads(self, user_id: str) -> tuple[dict[str, int], bool]:
        """The user's conversations with their last message, and whether these are all."""
        heads: dict[str, int] = {}
        after_id = ""
        while len(heads) < CONVERSATIONS_MAX:
            page = await self.inboxes.scan(user_id, after_id=after_id, limit=_TOGETHER)
            heads |= {row.conversation_id: row.last_seq for row in page if not row.is_invited}
            if len(page) < _TOGETHER:
                return heads, True
            after_id = page[-1].conversation_id
        return heads, False

    async def _behind(self, heads: dict[str, int]) -> bool:
        """Whether a conversation is not indexed up to its head. Those that are not are indexed soon."""
        assert self.index is not None
        cursors = await self.index.cursors(heads)
        behind = [id_ for id_, head in heads.items() if cursors.get(id_, 0) < head]
        for conversation_id in behind:
            self.indexer.note(conversation_id)
        return bool(behind)

    # --- without an index ---------------------------------------------------------------------------

    async def _by_reading(
        self, user_id: str, question: Question, terms: tuple[Term, ...], below: Place, blocked: frozenset[str]
    ) -> Found:
        """The newest SEARCH_READ_MAX messages of one conversation, or of the latest conversations together."""
        ids, is_complete = await self._to_read(user_id, question.conversation_id)
        found: list[Hit] = []
        for conversation_id in ids:
            hits, is_whole = await self._read(user_id, conversation_id, SEARCH_READ_MAX // len(ids), question, terms)
            found += [hit for hit in hits if _place(hit) < below and hit.entry.sender_id not in blocked]
            is_complete = is_complete and is_whole
        found.sort(key=_place, reverse=True)
        page = found[: question.limit]
        cursor = cursor_of(_place(page[-1])) if len(found) > len(page) else None
        return Found(page, cursor, is_complete)

    async def _to_read(self, user_id: str, conversation_id: str | None) -> tuple[list[str], bool]:
        if conversation_id is not None:
            await self.access.authorize(user_id, conversation_id, "read")
            return [conversation_id], True
        rows = await self.inboxes.latest(user_id, before=None, limit=READ_CONVERSATIONS + 1)
        ids = [row.conversation_id for row in rows if not row.is_invited]
        return ids[:READ_CONVERSATIONS], len(rows) <= READ_CONVERSATIONS

    async def _read(
        self, user_id: str, conversation_id: str, most: int, question: Question, terms: tuple[Term, ...]
    ) -> tuple[list[Hit], bool]:
        """Hits, and whether the log was read down to where it ends for the asker."""
        try:
            start = (await self.access.authorize(user_id, conversation_id, "read")).visible_after(user_id)
        except NotFound:
            return [], True
        entries, is_end = await self.entries.down(conversation_id, NEWEST, lambda entry: entry.seq_no > start, most)
        now_ms = self.clock.now_ms()
        seen = [seen_by(user_id, entry, now_ms) for entry in entries]
        hits = [hit for entry in seen if (hit := _hit_of(entry, question, terms, frozenset())) is not None]
        is_whole = is_end or bool(entries and entries[-1].seq_no == start + 1) or len(entries) < most
        return hits, is_whole


def _hit_of(entry: Entry, question: Question, terms: Sequence[Term], blocked: frozenset[str]) -> Hit | None:
    content = entry.content
    if not KINDS[entry.kind].is_target or entry.is_deleted or content is None or not content.text:
        return None
    if content.only_sender:
        return None
    is_wanted = (
        entry.sender_id not in blocked
        and question.sender_id in (None, entry.sender_id)
        and (question.after is None or entry.sent_ms >= question.after)
        and (question.before is None or entry.sent_ms < question.before)
        and (question.has != "file" or content.files)
        and (question.has != "link" or has_link(content.text))
    )
    places = hits_in(terms, content.text) if is_wanted else []
    return Hit(entry, snippet_of(content.text, places)) if places else None


def _place(hit: Hit) -> Place:
    return Place(hit.entry.sent_ms, hit.entry.conversation_id, hit.entry.seq_no)


def _place_of(cursor: str) -> Place:
    place = place_at(cursor, Place)
    if not (0 <= place.sent_ms < END.sent_ms and is_id(place.conversation_id) and 0 <= place.seq_no <= NEWEST):
        raise BadCursor()
    return place
