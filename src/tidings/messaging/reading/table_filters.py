"""Table filters: pages of the inbox's filters while the keyspace is down.

The tables have no index for a filter, so a page looks at the rows of the inbox in their order and keeps those that
belong. It looks at SCANNED_MAX rows at most, so a page may be short and have a cursor all the same. Pinned
conversations are few and have an order of their own: they are one page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from tidings.bounds import PAGE_DEFAULT, PAGE_MAX
from tidings.model import ConversationKind, InboxItem, Row
from tidings.stores.keyspace.scripts.answers import Place
from tidings.stores.tables.ports import Inboxes

SCANNED_MAX = 200  # rows that one page looks at: each costs a count of its unread messages
Filter = Literal["unread", "mentions", "pinned", "archived", "muted"]
Items = Callable[[str, list[Row]], Awaitable[list[InboxItem]]]  # the rows of a user as lines, with their counts


class TableFilters:
    def __init__(self, inboxes: Inboxes, items: Items) -> None:
        self._inboxes = inboxes
        self._items = items

    async def page(
        self, user_id: str, limit: int, after: Place, name: Filter | None, kind: ConversationKind | None
    ) -> tuple[list[InboxItem], Place | None]:
        """Return the lines of a page, and where it ended; None: there is nothing more."""
        found: list[InboxItem] = []
        place: Place | None = after if after.conversation_id else None
        part, most = name or "inbox", PAGE_MAX if name == "pinned" else limit
        for _ in range(0, SCANNED_MAX, PAGE_DEFAULT):
            before = (place.score, place.conversation_id) if place else None
            rows = await self._inboxes.latest(user_id, before=before, limit=PAGE_DEFAULT)
            items = {one.row.conversation_id: one for one in await self._items(user_id, rows)}
            for row in rows:
                item, place = items.get(row.conversation_id), place_of(row, part)
                if item is not None and _belongs(item, name, kind):
                    found.append(item)
                if len(found) == most:
                    return _ordered(found, name), place
            if len(rows) < PAGE_DEFAULT:
                place = None
                break
        return _ordered(found, name), None if name == "pinned" else place


def place_of(row: Row, part: str = "inbox") -> Place:
    return Place(part, max(row.last_message_ts, row.joined_ms, 1), row.conversation_id)


def _belongs(item: InboxItem, name: Filter | None, kind: ConversationKind | None) -> bool:
    row, state = item.row, item.state
    if kind is not None and row.kind != kind:
        return False
    return {
        None: not row.archived,
        "unread": bool(state.unread_count),
        "mentions": bool(state.mention_count),
        "pinned": row.pinned and not row.archived,
        "archived": row.archived,
        "muted": row.muted,
    }[name]


def _ordered(items: list[InboxItem], name: Filter | None) -> list[InboxItem]:
    return sorted(items, key=lambda item: item.row.pinned_ms) if name == "pinned" else items
