"""Listing: users and conversations as an operator looks through them, a page at a time, without any text.

A search reads on until it has a page of hits, or until it has read ADMIN_SCAN_PAGES pages of rows. Then it answers with
the hits so far and a cursor, so no request walks a whole table.
"""

from __future__ import annotations

import msgspec

from tidings.cursors import cursor_of, place_at
from tidings.messaging.people.names import fold
from tidings.model import ConversationKind, Head, User
from tidings.operators.bounds import ADMIN_ROWS_MAX, ADMIN_SCAN_PAGES, ADMIN_SCAN_ROWS
from tidings.routing.registry import Registry
from tidings.stores.tables.ports import Tables


class ListedUser(msgspec.Struct, frozen=True, kw_only=True):
    user_id: str
    name: str | None
    is_online: bool


class ListedUsers(msgspec.Struct, frozen=True):
    """Users with a conversation, by id. `next_cursor` None: that was the end."""

    users: list[ListedUser]
    next_cursor: str | None


class ListedConversation(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: str
    kind: ConversationKind
    name: str | None
    last_seq: int
    last_message_at: int
    created_at: int


class ListedConversations(msgspec.Struct, frozen=True):
    """Conversations in the order of the store. `next_cursor` None: that was the end."""

    conversations: list[ListedConversation]
    next_cursor: str | None


class Listing:
    def __init__(self, tables: Tables, registry: Registry) -> None:
        self._tables = tables
        self._registry = registry

    async def users(self, query: str, cursor: str | None) -> ListedUsers:
        """Users whose id or name contains the query. Raises BadCursor, StoreError."""
        wanted, after = fold(query), place_at(cursor, str) if cursor else ""
        found = await self._named(query) if query and not cursor else []
        for _ in range(ADMIN_SCAN_PAGES):
            ids = await self._tables.inboxes.users(after_id=after, limit=ADMIN_SCAN_ROWS)
            found += [user for user in await self._profiles(ids) if _contains(wanted, user.user_id, user.name)]
            after = ids[-1] if len(ids) == ADMIN_SCAN_ROWS else ""
            if not after or len(found) >= ADMIN_ROWS_MAX:
                break
        shown = list({user.user_id: user for user in found}.values())
        online = await self._registry.is_online([user.user_id for user in shown])
        listed = [ListedUser(user_id=one.user_id, name=one.name, is_online=online[one.user_id]) for one in shown]
        return ListedUsers(listed, cursor_of(after or None))

    async def conversations(self, query: str, cursor: str | None) -> ListedConversations:
        """Conversations whose id or name contains the query. Raises BadCursor, StoreError."""
        wanted, after = fold(query), place_at(cursor, str) if cursor else ""
        found: list[Head] = []
        for _ in range(ADMIN_SCAN_PAGES):
            heads, after = await self._tables.whole.walk("conversation_heads", after=after, limit=ADMIN_SCAN_ROWS)
            found += [head for head in heads if _contains(wanted, head.conversation_id, head.name)]
            if not after or len(found) >= ADMIN_ROWS_MAX:
                break
        return ListedConversations([_listed(head) for head in found], cursor_of(after or None))

    async def _named(self, user_id: str) -> list[User]:
        """The user of exactly this id, who may have a profile and no conversation yet."""
        user = await self._tables.accounts.user(user_id)
        return [user] if user is not None else []

    async def _profiles(self, user_ids: list[str]) -> list[User]:
        known = await self._tables.accounts.users(user_ids)
        return [known.get(user_id) or User(user_id=user_id) for user_id in user_ids]


def _contains(wanted: str, id_: str, name: str | None) -> bool:
    return wanted in fold(id_) or (name is not None and wanted in fold(name))


def _listed(head: Head) -> ListedConversation:
    return ListedConversation(
        conversation_id=head.conversation_id,
        kind=head.kind,
        name=head.name,
        last_seq=head.last_seq,
        last_message_at=head.last_ms,
        created_at=head.created_ms,
    )
