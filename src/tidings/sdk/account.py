"""What one user can do over REST: conversations, members, messages, marks.

`Client` is an Account that is connected too. A team's backend gets one for any user from `Server.account`. Every
method is one request; names are the protocol's. What is not of the documented form is refused before it is sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import msgspec

from tidings.bounds import PAGE_DEFAULT, PAGE_MAX
from tidings.clock import Clock
from tidings.gateway.bodies import (
    ConversationPatch,
    FlagsBody,
    HistoryQuery,
    InboxQuery,
    MessageDelete,
    MessagePatch,
    NewConversation,
    NewMembers,
    NewMessage,
    ProfilePut,
    ProfilesBody,
    ReadMark,
    RolePatch,
    UnreadMark,
)
from tidings.gateway.protocol import INTEGER_MAX, Anchor, check_one_mark, check_one_place
from tidings.model import ConversationKind, HistoryRule, Role
from tidings.sdk.forms import checked_id, checked_ids, path_of, query_of
from tidings.sdk.rest import Rest
from tidings.sdk.values import (
    Conversation,
    HistoryPage,
    InboxPage,
    InboxRow,
    Message,
    Person,
    PresencePage,
    Profile,
    RateLimits,
    ReadState,
    Receipts,
    Sent,
    Totals,
)

T = TypeVar("T")


class Account:
    def __init__(self, rest: Rest, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock

    # --- conversations ---

    async def create(
        self,
        kind: ConversationKind,
        members: Sequence[str],
        *,
        name: str | None = None,
        avatar_url: str | None = None,
        history: HistoryRule | None = None,
    ) -> Conversation:
        """A direct pair has one conversation, however often it is created; a group or channel is new each time."""
        body = NewConversation(kind, checked_ids(members, "members"), name, avatar_url, history)
        is_repeatable = kind == "direct"
        return await self._rest.send("POST", path_of("conversations"), Conversation, body, is_repeatable=is_repeatable)

    async def direct(self, user_id: str) -> str:
        """The id of the conversation with this user."""
        return (await self.create("direct", [user_id])).conversation_id

    async def conversation(self, conversation_id: str) -> Conversation:
        return await self._rest.get(_one(conversation_id), Conversation)

    async def rename(self, conversation_id: str, name: str | None) -> Conversation:
        return await self._repeat("PATCH", _one(conversation_id), Conversation, ConversationPatch(name))

    async def delete_conversation(self, conversation_id: str) -> None:
        """For everyone; by its owner."""
        await self._rest.send("DELETE", _one(conversation_id), object)

    async def add(self, conversation_id: str, user_ids: Sequence[str]) -> Conversation:
        body = NewMembers(checked_ids(user_ids, "user_ids"))
        return await self._repeat("POST", _one(conversation_id, "members"), Conversation, body)

    async def remove(self, conversation_id: str, user_id: str) -> None:
        """Oneself: leave."""
        await self._rest.send("DELETE", _one(conversation_id, "members", user_id), object)

    async def set_role(self, conversation_id: str, user_id: str, role: Role) -> Conversation:
        path = _one(conversation_id, "members", user_id)
        return await self._repeat("PATCH", path, Conversation, RolePatch(role))

    # --- messages ---

    async def send(
        self, conversation_id: str, text: str, *, message_id: str | None = None, ts: int | None = None
    ) -> Sent:
        """Returns when it is stored. To try again after an error, pass the same message_id: it is stored once."""
        body = NewMessage(self._clock.random_id() if message_id is None else message_id, text, ts)
        return await self._repeat("POST", _one(conversation_id, "messages"), Sent, body)

    async def edit(self, conversation_id: str, seq: int, text: str) -> Sent:
        body = MessagePatch(text, self._clock.random_id())
        return await self._repeat("PATCH", _one(conversation_id, "messages", seq), Sent, body)

    async def delete(self, conversation_id: str, seq: int) -> Sent:
        body = MessageDelete(self._clock.random_id())
        return await self._repeat("DELETE", _one(conversation_id, "messages", seq), Sent, body)

    async def receipts(self, conversation_id: str, seq: int) -> Receipts:
        """Who has read it, who has it, who has not."""
        return await self._rest.get(_one(conversation_id, "messages", seq, "receipts"), Receipts)

    async def page(
        self,
        conversation_id: str,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        around_seq: int | None = None,
        is_first_unread: bool = False,
        limit: int = PAGE_DEFAULT,
    ) -> HistoryPage:
        """One page of the log, newest first; without a place it is the newest one."""
        anchor: Anchor | None = "first_unread" if is_first_unread else None
        check_one_place(before_seq, after_seq, around_seq, anchor)
        query = query_of(HistoryQuery(before_seq, after_seq, around_seq, anchor, limit))
        return await self._rest.get(_one(conversation_id, "messages"), HistoryPage, **query)

    async def history(self, conversation_id: str, *, before_seq: int | None = None) -> AsyncIterator[Message]:
        """Every entry from there back to the first, newest first; pages are fetched as they are needed."""
        while True:
            page = await self.page(conversation_id, before_seq=before_seq, limit=PAGE_MAX)
            for message in page.messages:
                yield message
            if page.next_before_seq is None:
                return
            before_seq = page.next_before_seq

    # --- the inbox ---

    async def inbox(self, *, limit: int = PAGE_DEFAULT, cursor: str | None = None) -> InboxPage:
        return await self._rest.get(path_of("inbox"), InboxPage, **query_of(InboxQuery(limit, cursor)))

    async def conversations(self) -> AsyncIterator[InboxRow]:
        """The whole inbox, latest first."""
        cursor: str | None = None
        while True:
            page = await self.inbox(limit=PAGE_MAX, cursor=cursor)
            for row in page.conversations:
                yield row
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    async def flag(
        self,
        conversation_id: str,
        *,
        muted: bool | None = None,
        pinned: bool | None = None,
        archived: bool | None = None,
    ) -> InboxRow:
        flags = FlagsBody(muted, pinned, archived)
        return await self._repeat("PATCH", path_of("inbox", conversation_id), InboxRow, flags)

    async def unread(self) -> Totals:
        return await self._rest.get(path_of("unread"), Totals)

    async def mark_read(
        self, conversation_id: str, up_to_seq: int | None = None, *, seqs: Sequence[int] | None = None
    ) -> ReadState:
        """Up to a seq (all, unless told), or only these."""
        if seqs is not None:
            check_one_mark(up_to_seq, None, seqs)
        mark = ReadMark(seqs=list(seqs)) if seqs is not None else ReadMark(up_to_seq=_or_all(up_to_seq))
        return await self._repeat("POST", _one(conversation_id, "read"), ReadState, mark)

    async def mark_unread(self, conversation_id: str, from_seq: int) -> ReadState:
        return await self._repeat("POST", _one(conversation_id, "unread"), ReadState, UnreadMark(from_seq))

    # --- people ---

    async def presence(self, conversation_id: str, user_ids: Sequence[str] = ()) -> list[Person]:
        """Who of a conversation is online; all other members unless some are named."""
        query = {"conversation_id": checked_id(conversation_id), "user_ids": _listed(user_ids)}
        return (await self._rest.get(path_of("presence"), PresencePage, **query)).presence

    async def profiles(self, conversation_id: str, user_ids: Sequence[str] = ()) -> list[Profile]:
        """Of members, 100 at a time. Unless some are named: of all, and TooLarge where they are more than 100."""
        path = _one(conversation_id, "profiles")
        return (await self._rest.get(path, ProfilesBody, user_ids=_listed(user_ids))).profiles

    async def profile(self, user_id: str) -> Profile:
        return await self._rest.get(path_of("users", user_id), Profile)

    async def set_profile(self, user_id: str, *, name: str | None = None, avatar_url: str | None = None) -> Profile:
        return await self._repeat("PUT", path_of("users", user_id), Profile, ProfilePut(name, avatar_url))

    async def rate_limits(self) -> RateLimits:
        return await self._rest.get(path_of("rate_limits"), RateLimits)

    async def _repeat(self, method: str, path: str, kind: type[T], body: msgspec.Struct) -> T:
        return await self._rest.send(method, path, kind, body, is_repeatable=True)


def _one(conversation_id: str, *parts: str | int) -> str:
    return path_of("conversations", conversation_id, *parts)


def _listed(user_ids: Sequence[str]) -> str | None:
    return ",".join(map(checked_id, checked_ids(user_ids, "user_ids"))) or None


def _or_all(up_to_seq: int | None) -> int:
    return INTEGER_MAX if up_to_seq is None else up_to_seq  # above the head means the head
