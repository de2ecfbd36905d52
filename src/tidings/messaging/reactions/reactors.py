"""Reactors: who reacted to a message, page by page.

The order is by key and user id. A cursor names the last user shown, so a reaction that comes or goes between two pages
hides nobody else.
"""

from __future__ import annotations

from tidings.cursors import cursor_of, place_at
from tidings.messaging.summaries import Summaries

REACTORS_PAGE_MAX = 1_000  # users in one answer of who reacted


class Reactors:
    def __init__(self, summaries: Summaries) -> None:
        self._summaries = summaries

    async def page(
        self, user_id: str, conversation_id: str, seq_no: int, *, cursor: str | None = None
    ) -> tuple[dict[str, list[str]], str | None]:
        """Key -> user ids, and the cursor of the next page. Raises NotFound, BadCursor."""
        after = place_at(cursor, tuple[str, str]) if cursor is not None else ("", "")
        await self._summaries.target(user_id, conversation_id, seq_no, "read")
        summary, _ = await self._summaries.read(conversation_id, seq_no)
        pairs = sorted((key, one) for key, users in summary.reactions.items() for one in users if (key, one) > after)
        shown: dict[str, list[str]] = {}
        for key, one in pairs[:REACTORS_PAGE_MAX]:
            shown.setdefault(key, []).append(one)
        return shown, cursor_of(pairs[REACTORS_PAGE_MAX - 1]) if len(pairs) > REACTORS_PAGE_MAX else None
