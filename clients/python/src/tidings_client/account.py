"""Requests of one user over REST: conversations, members, messages, marks.

`Client` is an Account that also has a connection. A backend gets the account of any user from `Server.account`. Every
method is one request, with the names of the protocol. A request that is not of the documented form is refused before it
is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from tidings_client.beside.requests import BesideMessages
from tidings_client.beside.structs import Receipts
from tidings_client.bounds import ADD_MEMBER_S, PAGE_DEFAULT, PAGE_MAX, REST_S
from tidings_client.clock import Clock
from tidings_client.files import FilesPage, OnProgress, checked_paths, download, link, page_of_files, upload
from tidings_client.forms import (
    INTEGER_MAX,
    Anchor,
    ConversationKind,
    ConversationPatch,
    FlagsBody,
    HistoryQuery,
    HistoryRule,
    InboxFilter,
    InboxQuery,
    Mention,
    MessageDelete,
    MessagePatch,
    NewConversation,
    NewMembers,
    NewMessage,
    Notify,
    ReadMark,
    Role,
    RolePatch,
    UnreadMark,
    check_one_mark,
    check_one_place,
    checked_id,
    checked_ids,
    path_of,
    query_of,
)
from tidings_client.people import (
    Person,
    PresencePage,
    Profile,
    Profiles,
)
from tidings_client.reading.explanation import Explanation
from tidings_client.reading.found import SearchPage
from tidings_client.requests.drafts import OwnDrafts
from tidings_client.requests.entries import Entries
from tidings_client.requests.joining import Ways
from tidings_client.requests.people import AboutPeople
from tidings_client.requests.pins import Pins
from tidings_client.requests.saved import Saved
from tidings_client.requests.scheduled import Scheduled
from tidings_client.requests.threads import Threads
from tidings_client.rest import Rest
from tidings_client.values import (
    Conversation,
    HistoryPage,
    InboxPage,
    InboxRow,
    MembersPage,
    Message,
    RateLimits,
    ReadState,
    Sent,
    Totals,
)

T = TypeVar("T")


class Account(BesideMessages, AboutPeople):
    def __init__(self, rest: Rest, clock: Clock, user_id: str = "") -> None:
        super().__init__(rest)
        self._user_id = user_id
        self._clock = clock
        self.pins = Pins(rest)
        self.saved = Saved(rest)
        self.threads = Threads(rest)
        self.drafts = OwnDrafts(rest)
        self.scheduled = Scheduled(rest, clock)
        self.rules = Ways(rest)

    # --- conversations ---

    async def create(
        self,
        kind: ConversationKind,
        members: Sequence[str],
        *,
        name: str | None = None,
        avatar_url: str | None = None,
        history: HistoryRule | None = None,
        client_id: str | None = None,
    ) -> Conversation:
        """Create a conversation. A direct pair has one, however often it is created. So has a client_id of the user:
        a create that is repeated makes one conversation. Without one, a group or channel is new each time."""
        body = NewConversation(kind, checked_ids(members, "members"), name, avatar_url, history, client_id)
        is_repeatable = kind == "direct" or client_id is not None
        return await self._rest.send("POST", path_of("conversations"), Conversation, body, is_repeatable=is_repeatable)

    async def direct(self, user_id: str) -> str:
        """Return the id of the direct conversation with this user."""
        return (await self.create("direct", [user_id])).conversation_id

    async def conversation(self, conversation_id: str) -> Conversation:
        return await self._rest.get(_one(conversation_id), Conversation)

    async def rename(self, conversation_id: str, name: str | None) -> Conversation:
        return await self._repeat("PATCH", _one(conversation_id), Conversation, ConversationPatch(name))

    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete it for everyone. Only its owner may."""
        await self._rest.send("DELETE", _one(conversation_id), object)

    async def members(self, conversation_id: str, *, limit: int = 100, cursor: str | None = None) -> MembersPage:
        """Read a page of the members, by user_id."""
        return await self._rest.get(_one(conversation_id, "members"), MembersPage, limit=limit, cursor=cursor)

    async def add(self, conversation_id: str, user_ids: Sequence[str]) -> Conversation:
        """Add members, 1,000 at most, or 10,000 with a server key. Present members are passed over."""
        body = NewMembers(checked_ids(user_ids, "user_ids"))
        path, quiet_s = _one(conversation_id, "members"), REST_S + ADD_MEMBER_S * len(body.user_ids)
        return await self._rest.send("POST", path, Conversation, body, is_repeatable=True, quiet_s=quiet_s)

    async def remove(self, conversation_id: str, user_id: str) -> None:
        """Remove a member. A user who names oneself leaves."""
        await self._rest.send("DELETE", _one(conversation_id, "members", user_id), object)

    async def set_role(self, conversation_id: str, user_id: str, role: Role) -> Conversation:
        return await self._repeat("PATCH", _one(conversation_id, "members", user_id), Conversation, RolePatch(role))

    # --- messages ---

    async def send(
        self,
        conversation_id: str,
        text: str = "",
        *,
        data: dict[str, Any] | None = None,
        reply_to: int | None = None,
        is_silent: bool = False,
        files: Sequence[str | Path] = (),
        on_progress: OnProgress | None = None,
        ttl_s: int | None = None,
        mentions: Sequence[str] = (),
        mention: Mention | None = None,
        thread_seq: int | None = None,
        also_here: bool = False,
        message_id: str | None = None,
        ts: int | None = None,
    ) -> Sent:
        """Return when the message is stored. After an error pass the same message_id again: it is stored once."""
        message_id = self._clock.random_id() if message_id is None else message_id
        file_ids = tuple([await self.upload(conversation_id, path, on_progress) for path in checked_paths(files)])
        named = checked_ids(mentions, "mentions")
        of = (message_id, text, ts, data, is_silent, reply_to)
        body = NewMessage(*of, file_ids, ttl_s, named, mention, thread_seq, also_here)
        return await self._repeat("POST", _one(conversation_id, "messages"), Sent, body)

    async def upload(self, conversation_id: str, path: str | Path, on_progress: OnProgress | None = None) -> str:
        """Upload a file of the disk. Returns its file_id; what is not sent with a message within a day is removed."""
        return await upload(self._rest, self._clock, conversation_id, path, on_progress)

    async def files(
        self, conversation_id: str, *, kind: str | None = None, limit: int = PAGE_DEFAULT, cursor: str | None = None
    ) -> FilesPage:
        """The files of a conversation, newest first. `kind`: image or file."""
        return await page_of_files(self._rest, conversation_id, kind, limit, cursor)

    async def file_link(self, conversation_id: str, file_id: str, *, download: bool = False) -> str:
        """A URL of the file that lives a minute and needs no token. `download`: a browser saves it."""
        return await link(self._rest, conversation_id, file_id, download=download)

    async def download(self, conversation_id: str, file_id: str, to: str | Path) -> None:
        """Write the file to this path."""
        await download(self._rest, conversation_id, file_id, to)

    async def edit(
        self,
        conversation_id: str,
        seq: int,
        text: str | UnsetType = UNSET,
        *,
        data: dict[str, Any] | UnsetType | None = UNSET,
        mentions: Sequence[str] | UnsetType = UNSET,
    ) -> Sent:
        """Change text, data or mentions of an own message. A field that is left out stays; data None removes it."""
        named = mentions if isinstance(mentions, UnsetType) else checked_ids(mentions, "mentions")
        body = MessagePatch(text, data, named, UNSET, self._clock.random_id())
        return await self._repeat("PATCH", _one(conversation_id, "messages", seq), Sent, body)

    async def delete(self, conversation_id: str, seq: int) -> Sent:
        body = MessageDelete(self._clock.random_id())
        return await self._repeat("DELETE", _one(conversation_id, "messages", seq), Sent, body)

    async def receipts(
        self, conversation_id: str, seq: int, *, limit: int | None = None, cursor: str | None = None
    ) -> Receipts:
        """List the members that have read the message, those that have it, and the rest.

        A large conversation is listed in pages: pass `next_cursor` as the cursor of the next call."""
        path = _one(conversation_id, "messages", seq, "receipts")
        return await self._rest.get(path, Receipts, limit=limit, cursor=cursor)

    async def page(
        self,
        conversation_id: str,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        around_seq: int | None = None,
        is_first_unread: bool = False,
        is_first_mention: bool = False,
        limit: int = PAGE_DEFAULT,
    ) -> HistoryPage:
        """Read one page of the log, newest first. Without a place it is the newest page."""
        anchor: Anchor | None = "first_mention" if is_first_mention else "first_unread" if is_first_unread else None
        check_one_place(before_seq, after_seq, around_seq, anchor)
        return await self._page(conversation_id, HistoryQuery(before_seq, after_seq, around_seq, anchor, limit))

    async def _page(self, conversation_id: str, asked: HistoryQuery) -> HistoryPage:
        return await self._rest.get(_one(conversation_id, "messages"), HistoryPage, **query_of(asked))

    async def message(self, conversation_id: str, seq: int) -> Message:
        """Read one entry as it is now."""
        return await self._rest.get(_one(conversation_id, "messages", seq), Message)

    async def history(self, conversation_id: str, *, before_seq: int | None = None) -> AsyncIterator[Message]:
        """Iterate over every entry from there back to the first, newest first. Pages are read as they are needed."""
        while True:
            page = await self.page(conversation_id, before_seq=before_seq, limit=PAGE_MAX)
            for message in page.messages:
                yield message
            if page.next_before_seq is None:
                return
            before_seq = page.next_before_seq

    # --- the inbox ---

    async def inbox(
        self,
        *,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
        filter: InboxFilter | None = None,
        kind: ConversationKind | None = None,
    ) -> InboxPage:
        """Read one page of the inbox: pinned ones first, then the latest first, without archived ones; or a filter."""
        return await self._inbox(InboxQuery(limit, cursor, filter, kind))

    async def _inbox(self, asked: InboxQuery) -> InboxPage:
        return await self._rest.get(path_of("inbox"), InboxPage, **query_of(asked))

    async def conversations(self) -> AsyncIterator[InboxRow]:
        """Iterate over the whole inbox, latest first."""
        cursor: str | None = None
        while True:
            page = await self.inbox(limit=PAGE_MAX, cursor=cursor)
            for row in page.conversations:
                yield row
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    def entries(self, *, after: str | None = None) -> Entries:
        """Iterate over every entry of every conversation, for ever. `entries.cursor` is the place to go on from.

        Without a cursor it begins now; `start` is before the first entry of all.
        """

        async def wait(seconds: float) -> Collection[str]:
            await asyncio.sleep(seconds)
            return ()

        return Entries(self, self._me, after, wait, self._clock)

    def _me(self) -> str:
        return self._user_id

    async def flag(
        self,
        conversation_id: str,
        *,
        muted: bool | None = None,
        pinned: bool | None = None,
        archived: bool | None = None,
        muted_until: int | UnsetType | None = UNSET,
        notify: Notify | None = None,
    ) -> InboxRow:
        flags = FlagsBody(muted, pinned, archived, muted_until, notify)
        return await self._repeat("PATCH", path_of("inbox", conversation_id), InboxRow, flags)

    async def unread(self) -> Totals:
        return await self._rest.get(path_of("unread"), Totals)

    async def explain_unread(self, conversation_id: str) -> Explanation:
        """Say why the unread count of a conversation is what it is, reason by reason."""
        path, id_ = path_of("unread", "explain"), checked_id(conversation_id)
        return await self._rest.get(path, Explanation, conversation_id=id_)

    async def mark_read(
        self, conversation_id: str, up_to_seq: int | None = None, *, seqs: Sequence[int] | None = None
    ) -> ReadState:
        """Mark as read up to a seq, or only these seqs. Without either, mark everything."""
        if seqs is not None:
            check_one_mark(up_to_seq, seqs)
            mark = ReadMark(seqs=list(seqs))
        else:
            mark = ReadMark(up_to_seq=INTEGER_MAX if up_to_seq is None else up_to_seq)  # above the head means the head
        return await self._repeat("POST", _one(conversation_id, "read"), ReadState, mark)

    async def mark_unread(self, conversation_id: str, from_seq: int) -> ReadState:
        return await self._repeat("POST", _one(conversation_id, "unread"), ReadState, UnreadMark(from_seq))

    # --- people ---

    async def presence(self, conversation_id: str, user_ids: Sequence[str] = ()) -> list[Person]:
        """Read the presence of members: all other members unless some are named."""
        query = {"conversation_id": checked_id(conversation_id), "user_ids": _listed(user_ids)}
        return (await self._rest.get(path_of("presence"), PresencePage, **query)).presence

    async def profiles(self, conversation_id: str, user_ids: Sequence[str] = ()) -> list[Profile]:
        """Read profiles of members, 100 at a time: of all unless some are named. TooLarge where all are over 100."""
        return (await self._rest.get(_one(conversation_id, "profiles"), Profiles, user_ids=_listed(user_ids))).profiles

    async def search(
        self,
        q: str,
        *,
        conversation_id: str | None = None,
        sender_id: str | None = None,
        after: int | None = None,
        before: int | None = None,
        has: Literal["file", "link"] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> SearchPage:
        """Find messages of the user's own conversations by words, the newest first. Times are in ms."""
        ids = {"conversation_id": conversation_id, "sender_id": sender_id}
        query = {name: None if id_ is None else checked_id(id_) for name, id_ in ids.items()}
        page = {"after": after, "before": before, "limit": limit, "cursor": cursor}
        return await self._rest.get(path_of("search"), SearchPage, q=q, has=has, **query, **page)

    async def accept(self, conversation_id: str) -> Conversation:
        """Accept an invitation, or the request of a stranger."""
        return await self._rest.send("PUT", _one(conversation_id, "accept"), Conversation, is_repeatable=True)

    async def rate_limits(self) -> RateLimits:
        return await self._rest.get(path_of("rate_limits"), RateLimits)

    async def _repeat(self, method: str, path: str, kind: type[T], body: msgspec.Struct) -> T:
        return await self._rest.send(method, path, kind, body, is_repeatable=True)


def _one(conversation_id: str, *parts: str | int) -> str:
    return path_of("conversations", conversation_id, *parts)


def _listed(user_ids: Sequence[str]) -> str | None:
    return ",".join(map(checked_id, checked_ids(user_ids, "user_ids"))) or None
