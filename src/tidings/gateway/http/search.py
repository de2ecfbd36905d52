"""The route of search: messages of the caller's own conversations, by words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidings.bounds import PAGE_MAX
from tidings.gateway.encode import message_of
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.search.search import Question, Search
from tidings.messaging.summaries import place_of
from tidings.protocol.bodies import MessageBody
from tidings.protocol.types import Cursor, Id, Limit, Millis, UserId

SEARCH_CHARS_MAX = 200  # of a query


class SearchQuery(msgspec.Struct, frozen=True):
    q: Annotated[str, Meta(max_length=SEARCH_CHARS_MAX)] = ""
    conversation_id: Id | None = None
    sender_id: UserId | None = None
    after: Millis | None = None
    before: Millis | None = None
    has: Literal["file", "link"] | None = None
    limit: Limit = 20
    cursor: Cursor | None = None


class HitBody(msgspec.Struct, frozen=True):
    """`snippet`: parts of the text around the hit, and of each part whether it is the hit."""

    conversation_id: str
    message: MessageBody
    snippet: list[tuple[str, bool]]


class SearchBody(msgspec.Struct, frozen=True):
    """The newest first. `complete` false: something was not looked at yet."""

    hits: list[HitBody]
    next_cursor: str | None
    complete: bool


@dataclass(eq=False, repr=False)
class SearchRoutes(Routes):
    messages: Search
    limiter: Limiter

    @route("GET", "/v1/search", query=SearchQuery, answer=SearchBody, errors=("bad_cursor", "not_found"))
    async def search(self, request: Request) -> Reply:
        """Find messages of one's own conversations by words."""
        await self.limiter.admit("search", request.user_id)
        asked = {name: getattr(request.query, name) for name in SearchQuery.__struct_fields__}
        asked["limit"] = min(asked["limit"], PAGE_MAX)
        found = await self.messages.find(request.user_id, Question(**asked))
        shown = [message_of(hit.entry, beside=found.beside.get(place_of(hit.entry))) for hit in found.hits]
        pairs = zip(found.hits, shown, strict=True)
        hits = [HitBody(hit.entry.conversation_id, message, hit.snippet) for hit, message in pairs]
        return Reply(200, SearchBody(hits, found.next_cursor, found.is_complete))
