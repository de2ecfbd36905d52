"""Pages: the large conversations of a user, merged into a page of the inbox or of a filter.

The page of the index has the small ones in their order. The large ones are few, and all of them come with it. They go
to the places that the time of their last message gives them, by score and id as everything in an inbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec

from tidings.messaging.unread.bounds import LISTS_KEPT
from tidings.messaging.unread.large_counts import Counted, LargeCounts, sums_of
from tidings.model import ConversationKind
from tidings.stores.keyspace.scripts.answers import Listed, Page, Place
from tidings.stores.keyspace.scripts.marks import KIND_CODES, Sums
from tidings.tasks import Recent

_FIRST, _INBOX = "first", "inbox"


class _Ordered(NamedTuple):
    by_id: dict[str, Listed]
    ordered: list[Listed]  # by their places, the newest first
    sums: Sums


class LargePages:
    def __init__(self, counts: LargeCounts, cap: int) -> None:
        self._counts = counts
        self._cap = cap
        self._kept = Recent[str, tuple[Sequence[Listed], Mapping[str, Counted], _Ordered]](LISTS_KEPT)

    async def merge(
        self, user_id: str, page: Page, *, limit: int, after: Place, kind: ConversationKind | None = None
    ) -> Page | None:
        """Return the page with the large conversations in it. None: read it again."""
        counted = await self._counts.all(user_id, page.large)
        if counted is None:
            return None
        large, ordered, sums = self._ordered(user_id, page.large, counted)
        listed = [large.get(one.conversation_id, one) for one in page.listed]  # pinned ones are in the page
        pinned = [one for one in listed if _is_pinned_part(after.part, one)]
        others = [one for one in listed if not _is_pinned_part(after.part, one)]
        fits: Iterable[Listed] = (one for one in ordered if _is_in(after.part, one, kind) and _is_after(after, one))
        if page.next is not None and page.next.part == _FIRST:
            fits = ()  # more pinned ones come first
        elif page.next is not None and page.next.conversation_id:
            last = (page.next.score, page.next.conversation_id)
            fits = takewhile(lambda one: _place(one) > last, fits)  # small ones that are not in this page come before
        merged = sorted((*others, *islice(fits, limit + 1)), key=_place, reverse=True)
        room = limit - len(pinned)
        return msgspec.structs.replace(
            page,
            listed=[*pinned, *merged[:room]],
            next=self._next(page, after.part, merged, room),
            large=[],
            total_unread=page.total_unread + sums.loud,
            unread_conversations=page.unread_conversations + sums.conversations,
            total_mentions=page.total_mentions + sums.mentions,
        )

    def _ordered(self, user_id: str, listed: Sequence[Listed], counted: Mapping[str, Counted]) -> _Ordered:
        """Order them by their places, and add them up. It is kept for the same counts."""
        kept = self._kept.get(user_id)
        if kept is not None and kept[0] is listed and kept[1] is counted:
            return kept[2]
        scores = {one.conversation_id: one.score_ms for one in listed}
        large = {id_: _listed(id_, one, scores[id_]) for id_, one in counted.items()}
        ordered = _Ordered(large, sorted(large.values(), key=_place, reverse=True), sums_of(counted, self._cap))
        self._kept.put(user_id, (listed, counted, ordered))
        return ordered

    async def changed(self, user_id: str, since_ms: int) -> list[tuple[float, str]]:
        """Return (time, conversation_id) of the large ones with a message, or a join, since then."""
        listed = await self._counts.listed(user_id)
        return [(float(one.score_ms), one.conversation_id) for one in listed if one.score_ms >= since_ms]

    def _next(self, page: Page, part: str, merged: list[Listed], room: int) -> Place | None:
        """Where the next page begins: where the index says, or earlier where the page had no room for all."""
        if len(merged) <= room:
            return page.next
        part = _INBOX if part == _FIRST else part
        return Place(part, *_place(merged[room - 1])) if room > 0 else Place(part, 0, "")


def _listed(conversation_id: str, one: Counted, score_ms: int) -> Listed:
    return Listed(conversation_id, max(score_ms, one.last_ms), one.mark)


def _place(one: Listed) -> tuple[int, str]:
    return one.score_ms, one.conversation_id


def _is_pinned_part(part: str, one: Listed) -> bool:
    return part == "pinned" or (part == _FIRST and one.mark is not None and one.mark.is_pinned)


def _is_in(part: str, one: Listed, kind: ConversationKind | None) -> bool:
    """Whether this part of the inbox shows a large conversation that the index has not put there itself."""
    mark = one.mark
    if mark is None or (kind is not None and mark.kind_code != KIND_CODES[kind]):
        return False
    match part:
        case "first" | "inbox":
            return not mark.is_archived and not mark.is_pinned
        case "unread":
            return mark.count > 0
        case "mentions":
            return mark.mentions > 0
        case "muted":
            return mark.is_muted
    return part == "archived" and mark.is_archived


def _is_after(after: Place, one: Listed) -> bool:
    is_top = after.part == _FIRST or not after.conversation_id
    return is_top or _place(one) < (after.score, after.conversation_id)
