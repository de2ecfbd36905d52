"""Inspection: one user or one conversation as an operator may see it, without any text that people wrote.

No text, no preview and no push token leaves this module: its structs have no place for them. The admin routes check
that an operator asks; this module checks nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tidings.bounds import PAGE_DEFAULT
from tidings.errors import BadCursor, NotFound, StoreError, StoreUnavailable
from tidings.ids import is_user_id
from tidings.messaging.access import Access
from tidings.messaging.archive.segment import folder_of, parse_name, parse_ref
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.unread.verify import Report, Verify
from tidings.model import ConversationKind, HistoryRule, InboxItem, Member, Role, Status, User
from tidings.operators.active_users import ActiveUsers
from tidings.operators.bounds import ADMIN_LOOK_S, ADMIN_SCAN_ROWS
from tidings.routing.registry import Registry
from tidings.stores.blobs.ports import Blobs
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.ports import Tables


class ConnectionView(msgspec.Struct, frozen=True):
    """A live lease."""

    node_id: str
    connection_id: str
    device: str | None


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """`provider` None: the device connected but never registered for push."""

    device_id: str
    provider: str | None
    is_live: bool
    last_seen: int


class UserConversation(msgspec.Struct, frozen=True, kw_only=True):
    conversation_id: str
    kind: ConversationKind
    name: str | None
    last_seq: int
    last_message_at: int
    read_seq: int
    unread_count: int | None
    unread_capped: bool
    muted: bool
    pinned: bool
    archived: bool


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """`is_known` False: no store knows this id."""

    user_id: str
    is_known: bool
    name: str | None
    avatar_url: str | None
    tokens_valid_after: int
    is_online: bool
    last_seen: int | None
    connections: list[ConnectionView]
    devices: list[DeviceView]
    total_unread: int
    unread_conversations: int
    is_stale: bool
    conversations: list[UserConversation]
    next_cursor: str | None
    waiting_conversations: int
    active_days: list[str]


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    user_id: str
    role: Role
    joined_seq: int
    joined_at: int
    delivered_seq: int
    read_seq: int
    is_online: bool


class ArchiveView(msgspec.Struct, frozen=True, kw_only=True):
    """`archived_seq`: the highest number in a segment; 0: there is no segment."""

    archived_seq: int
    segments: int
    bytes: int


class ConversationView(msgspec.Struct, frozen=True, kw_only=True):
    """`members` is a page, by user_id; those with a role come first in it. `archive` None: the blobs did not answer, or
    a later page of members was asked for."""

    conversation_id: str
    kind: ConversationKind
    name: str | None
    history: HistoryRule
    created_at: int
    head: int
    last_seq: int
    last_message_at: int
    members_seq: int
    floor_seq: int
    members_count: int
    members: list[MemberView]
    next_cursor: str | None
    archive: ArchiveView | None


@dataclass(eq=False, repr=False, kw_only=True)
class Inspection:
    tables: Tables
    blobs: Blobs
    access: Access
    inbox: Inbox
    recount: Verify
    activity: ActiveUsers
    registry: Registry
    keyspace: Keyspace
    keys: Keys

    def __post_init__(self) -> None:
        self._verifying = asyncio.Lock()

    # --- a user -----------------------------------------------------------------------------------

    async def user(self, user_id: str, cursor: str | None) -> UserView:
        """Raises BadCursor, StoreError."""
        profile = await self.tables.accounts.user(user_id)
        page = await self.inbox.page(user_id, limit=PAGE_DEFAULT, cursor=cursor)
        connections, sessions = await self._connections(user_id)
        renewed_ms = await self.keyspace.one(self.registry.last_renewed(user_id))
        devices = await self._known_devices(user_id, connections, sessions)
        days = await self.activity.active_days(user_id)
        waiting = await self.tables.pending.of_user(user_id)
        user = profile or User(user_id=user_id)
        return UserView(
            user_id=user_id,
            is_known=profile is not None or bool(page.items or sessions or devices or days),
            name=user.name,
            avatar_url=user.avatar_url,
            tokens_valid_after=user.tokens_valid_after,
            is_online=(await self.registry.is_online([user_id]))[user_id],
            last_seen=max(int(sessions.get("*", "0").rpartition(" ")[2]), renewed_ms or 0) or None,
            connections=connections,
            devices=devices,
            total_unread=page.totals.total_unread,
            unread_conversations=page.totals.unread_conversations,
            is_stale=page.is_stale,
            conversations=[_user_conversation(item) for item in page.items],
            next_cursor=page.next_cursor,
            waiting_conversations=len(waiting),
            active_days=[day.isoformat() for day in days],
        )

    async def verify(self, user_id: str) -> Report:
        """Compare the user's counts with the tables, one user at a time. Raises StoreUnavailable, StoreError."""
        if self._verifying.locked():
            raise StoreUnavailable("another user is being verified; try again in a moment")
        async with self._verifying:
            try:
                async with asyncio.timeout(ADMIN_LOOK_S):
                    return await self.recount.run(user_id, repair=False)
            except TimeoutError:
                raise StoreUnavailable(f"not finished within {ADMIN_LOOK_S:g} s; use tidings unread verify") from None

    async def connections(self, user_id: str) -> list[ConnectionView]:
        """Live connections on every node. Raises StoreError."""
        return (await self._connections(user_id))[0]

    async def _connections(self, user_id: str) -> tuple[list[ConnectionView], dict[str, str]]:
        """Live leases, and the sessions of devices: device -> its lease and the time it was last seen."""
        ws, session = self.keys.ws(user_id), self.keys.session(user_id)
        now_ms = self.registry.now_ms()
        leases, flat = await self.keyspace.run(
            [plain(ws, b"ZRANGE", ws, now_ms, b"+inf", b"BYSCORE"), plain(session, b"HGETALL", session)]
        )
        texts = [part.decode() for part in flat]
        sessions = dict(zip(texts[::2], texts[1::2], strict=True))
        device_of = {held.partition(" ")[0]: device for device, held in sessions.items()}
        names = [lease.decode() for lease in leases]
        return [ConnectionView(*_split(name), device_of.get(name)) for name in names], sessions

    async def _known_devices(
        self, user_id: str, connections: Sequence[ConnectionView], sessions: dict[str, str]
    ) -> list[DeviceView]:
        live = {one.device for one in connections}
        registered = {device.device_id: device for device in await self.tables.devices.of_user(user_id)}
        seen_ms = {device: int(held.rpartition(" ")[2]) for device, held in sessions.items() if device != "*"}
        return [
            DeviceView(
                device_id=device_id,
                provider=registered[device_id].provider if device_id in registered else None,
                is_live=device_id in live,
                last_seen=seen_ms.get(device_id) or registered[device_id].last_seen_ms,
            )
            for device_id in sorted({*registered, *seen_ms})
        ]

    # --- a conversation ---------------------------------------------------------------------------

    async def conversation(self, conversation_id: str, cursor: str | None = None) -> ConversationView:
        """The conversation with a page of its members. Raises NotFound, BadCursor, StoreError."""
        if cursor is not None and not is_user_id(cursor):
            raise BadCursor()
        head = (await self.tables.conversations.heads([conversation_id])).get(conversation_id)
        member_list = self.access.cached(conversation_id)
        if head is not None and (member_list is None or member_list.head.members_seq < head.members_seq):
            member_list = await self.access.load(conversation_id)
        if head is None or member_list is None:
            raise NotFound("no such conversation")
        members, next_cursor = await self._members(conversation_id, cursor or "")
        return ConversationView(
            conversation_id=conversation_id,
            kind=head.kind,
            name=head.name,
            history=head.history,
            created_at=head.created_ms,
            head=head.head,
            last_seq=head.last_seq,
            last_message_at=head.last_ms,
            members_seq=head.members_seq,
            floor_seq=head.floor_seq,
            members_count=len(member_list.members),
            members=members,
            next_cursor=next_cursor,
            archive=await self._archive(conversation_id) if cursor is None else None,
        )

    async def _members(self, conversation_id: str, after_id: str) -> tuple[list[MemberView], str | None]:
        """A page of the members, and where the next one begins. A conversation may have 100,000 of them."""
        found = await self.tables.conversations.members_after(
            conversation_id, after_id=after_id, limit=ADMIN_SCAN_ROWS + 1
        )
        members = found[:ADMIN_SCAN_ROWS]
        ids = [member.user_id for member in members]
        statuses = {one.user_id: one for one in await self.tables.statuses.of_members(conversation_id, ids)}
        online = await self.registry.is_online(ids)
        shown = [_member(one, statuses.get(one.user_id), online[one.user_id]) for one in members]
        shown.sort(key=lambda one: (("owner", "admin", "member").index(one.role), one.user_id))
        return shown, ids[-1] if len(found) > ADMIN_SCAN_ROWS else None

    async def _archive(self, conversation_id: str) -> ArchiveView | None:
        found: list[tuple[int, int]] = []  # last number, bytes
        try:
            async with asyncio.timeout(ADMIN_LOOK_S):
                folder = folder_of(await self.tables.archive.id(), conversation_id)
                async for blobs in self.blobs.list(folder):
                    found += [
                        (last, blob.size_bytes) for blob in blobs if (last := _last_seq(blob.name, conversation_id))
                    ]
        except (StoreError, TimeoutError):
            return None
        last_seq = max((last for last, _ in found), default=0)
        return ArchiveView(archived_seq=last_seq, segments=len(found), bytes=sum(size for _, size in found))


def _last_seq(name: str, conversation_id: str) -> int:
    """The last number in an object; 0: the object is not of this conversation."""
    named = parse_name(name)
    return parse_ref(named[1]).last if named is not None and named[0] == conversation_id else 0


def _split(lease: str) -> tuple[str, str]:
    node_id, _, connection_id = lease.partition(":")
    return node_id, connection_id


def _user_conversation(item: InboxItem) -> UserConversation:
    row, state = item.row, item.state
    return UserConversation(
        conversation_id=row.conversation_id,
        kind=row.kind,
        name=row.name,
        last_seq=row.last_seq,
        last_message_at=row.last_message_ts,
        read_seq=state.read_seq,
        unread_count=state.unread_count,
        unread_capped=state.unread_capped,
        muted=row.muted,
        pinned=row.pinned,
        archived=row.archived,
    )


def _member(member: Member, status: Status | None, is_online: bool) -> MemberView:
    return MemberView(
        user_id=member.user_id,
        role=member.role,
        joined_seq=member.joined_seq,
        joined_at=member.joined_ms,
        delivered_seq=max(member.joined_seq, status.delivered_seq if status else 0),
        read_seq=max(member.joined_seq, status.read_seq if status else 0),
        is_online=is_online,
    )
