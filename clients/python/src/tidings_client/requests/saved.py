"""Saved messages of one user: `account.saved`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from tidings_client.beside.requests import MoreQuery
from tidings_client.forms import path_of, query_of
from tidings_client.rest import Rest
from tidings_client.values import Message


class SavedMessage(msgspec.Struct, frozen=True):
    conversation_id: str
    saved_at: int
    message: Message


class SavedPage(msgspec.Struct, frozen=True):
    """The latest saved first. A page may be short: messages that the user may not see any more are left out."""

    saved: list[SavedMessage]
    next_cursor: str | None


class Saved:
    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def put(self, conversation_id: str, seq: int) -> None:
        """Save a message for oneself. Nobody else learns of it."""
        await self._rest.send("PUT", path_of("saved", conversation_id, seq), object, is_repeatable=True)

    async def remove(self, conversation_id: str, seq: int) -> None:
        await self._rest.send("DELETE", path_of("saved", conversation_id, seq), object, is_repeatable=True)

    async def page(self, cursor: str | None = None) -> SavedPage:
        return await self._rest.get(path_of("saved"), SavedPage, **query_of(MoreQuery(cursor)))

    async def all(self) -> AsyncIterator[SavedMessage]:
        """Iterate over all saved messages, the latest saved first."""
        cursor: str | None = None
        while True:
            page = await self.page(cursor)
            for one in page.saved:
                yield one
            if page.next_cursor is None:
                return
            cursor = page.next_cursor
