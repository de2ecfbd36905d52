"""Replies: the records of a thread change in the commit of a reply, or of its delete.

The author of a reply follows the thread, and so does everybody whom it names. The author of the root follows from the
first reply on. The cursor of a new follower stands at their own reply, or just below the reply that names them.

To a member who joined after the root it is a message that does not exist, unless a reply brought them into the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from tidings.errors import BadRequest, NotFound
from tidings.messaging.access import Access, MemberList
from tidings.messaging.log import entry_at
from tidings.messaging.send.draft import Companion, Companions, Draft
from tidings.messaging.threads.quotes import Quoting
from tidings.messaging.threads.records import (
    FOLLOWERS_MAX,
    REPLIES,
    Follow,
    Follower,
    Thread,
    follow_key,
    follow_of,
    put_follow,
    put_reply,
    put_thread,
    read_one,
    read_replies,
    reply_key,
    thread_id,
    thread_key,
    thread_of,
)
from tidings.model import KINDS, Entry
from tidings.stores.tables.ports import Messages
from tidings.stores.tables.records import Put, RecordKey, Records, of_conversation


class Replies:
    """Finds the companion of a draft that is a reply or quotes a message, or that deletes a reply."""

    def __init__(self, access: Access, messages: Messages, records: Records) -> None:
        self._access = access
        self._messages = messages
        self._records = records

    def accompany(self, draft: Draft) -> None:
        content = draft.content
        if draft.target is not None:
            if KINDS[draft.kind].uncounts:
                _add(draft, Unreplying(draft.target, self._records))
            return
        if content is not None and content.reply_to is not None:
            _add(draft, Quoting(draft, self._access, self._messages))
        if content is not None and content.thread_seq is not None:
            _add(draft, Replying(draft, self._access, self._messages, self._records))


def _add(draft: Draft, mine: Companion) -> None:
    draft.companion = mine if draft.companion is None else Companions(draft.companion, mine)
    draft.is_unread = True


class Replying:
    last_seq = 0  # any order of the entries will do: a cursor tells what counts

    def __init__(self, draft: Draft, access: Access, messages: Messages, records: Records) -> None:
        assert draft.content is not None and draft.content.thread_seq is not None
        self._draft = draft
        self._thread_seq = draft.content.thread_seq
        self._access = access
        self._messages = messages
        self._records = records
        self._key = thread_key(draft.conversation_id, self._thread_seq)
        self._thread, self._version = Thread(), 0
        self._joined: dict[str, int] = {}  # who begins to follow -> the joined_seq of their membership
        self._versions: dict[str, int] = {}  # of the records of their follows
        self._author_id = ""  # of the root, where the reply is the first one
        # The others stand for records that the number, or a read, will name: they count as entries of the group.
        named = range(3 + len(draft.content.mentions))
        owner = of_conversation(draft.conversation_id)
        self.keys = frozenset((self._key, *(RecordKey(owner, REPLIES, f"{draft.message_id} {at}") for at in named)))

    async def read(self) -> None:
        """Read the thread and the follows of everybody who will follow. Raises BadRequest, NotFound."""
        record, member_list = await asyncio.gather(
            read_one(self._records, self._key), self._access.fresh(self._draft.conversation_id)
        )
        self._thread, self._version = thread_of(record)
        if member_list is None or self._draft.sender_id not in member_list.members:
            raise NotFound("no such conversation")
        assert self._draft.content is not None
        named = [self._draft.sender_id, *self._draft.content.mentions]
        if not self._thread.last_seq:
            self._author_id = (await self._root(member_list)).sender_id or ""
            named.append(self._author_id)
        elif not await self._may_go_on(member_list):
            raise _no_root()
        joined = {id_: member_list.members[id_].joined_seq for id_ in named if id_ in member_list.members}
        followers = self._thread.followers
        new = [id_ for id_, seq in joined.items() if id_ not in followers or followers[id_].since_seq != seq]
        self._joined = {id_: joined[id_] for id_ in new[: max(FOLLOWERS_MAX - len(followers), 0)]}
        found = await asyncio.gather(*(read_one(self._records, self._follow_key(id_)) for id_ in self._joined))
        self._versions = {id_: follow_of(one)[1] for id_, one in zip(self._joined, found, strict=True)}

    async def _root(self, member_list: MemberList) -> Entry:
        """The message that the first reply of a thread answers. A later reply, and a resend, need no look at it."""
        root = await entry_at(self._messages, self._draft.conversation_id, self._thread_seq)
        is_seen = self._thread_seq > member_list.visible_after(self._draft.sender_id)
        if root is None or not is_seen or root.is_deleted or not KINDS[root.kind].is_target:
            raise _no_root()
        if root.thread_seq is not None:
            raise BadRequest("`thread_seq` names a reply; give the root of its thread")
        return root

    async def _may_go_on(self, member_list: MemberList) -> bool:
        """Whether the sender may reply in a thread that has replies: by the root, a follow, or a reply of their own.

        The last one is for a resend: its sender may have ended the follow meanwhile. A thread outlives its root, so the
        floor of the log does not count here.
        """
        sender_id = self._draft.sender_id
        member, follower = member_list.members[sender_id], self._thread.followers.get(sender_id)
        if member_list.head.history != "joined" or self._thread_seq > member.joined_seq:
            return True
        if follower is not None and follower.since_seq == member.joined_seq:
            return True
        id_ = thread_id(self._draft.conversation_id, self._thread_seq)
        seen = await read_replies(self._records, id_, after=member.joined_seq, newest_first=True)
        return any(reply.sender_id == sender_id for _, reply in seen)

    def puts(self, entry: Entry) -> Sequence[Put]:
        if entry.content is not None and entry.content.only_sender:
            return []  # to everybody else it is no reply
        old, seq_no = self._thread, entry.seq_no
        moves = not entry.content or not entry.content.silent or not old.last_seq
        thread = Thread(
            old.replies + 1,
            max(old.last_seq, seq_no) if moves else old.last_seq,
            max(old.last_ms, entry.sent_ms) if moves else old.last_ms,
            old.followers | {id_: Follower(joined_seq, seq_no) for id_, joined_seq in self._joined.items()},
        )
        follows = [
            put_follow(self._follow_key(id_), Follow(self._cursor(entry, id_)), version)
            for id_, version in self._versions.items()
        ]
        return [put_thread(self._key, thread, self._version), put_reply(entry), *follows]

    def _cursor(self, entry: Entry, user_id: str) -> int:
        """The cursor of a user whom this reply makes follow. The author of the root has read no reply."""
        if user_id == entry.sender_id:
            return entry.seq_no
        return self._thread_seq if user_id == self._author_id else entry.seq_no - 1

    def _follow_key(self, user_id: str) -> RecordKey:
        return follow_key(user_id, self._draft.conversation_id, self._thread_seq)


def _no_root() -> BadRequest:
    return BadRequest("`thread_seq` names no message of this conversation")


class Unreplying:
    """The companion of the delete of a reply."""

    last_seq = 0

    def __init__(self, reply: Entry, records: Records) -> None:
        assert reply.thread_seq is not None
        self._reply = reply
        self._records = records
        self._key = thread_key(reply.conversation_id, reply.thread_seq)
        self._thread, self._version = Thread(), 0
        self._is_known = False
        self.keys = frozenset((self._key, reply_key(reply)))

    async def read(self) -> None:
        self._thread, self._version = thread_of(await read_one(self._records, self._key))
        self._is_known = await read_one(self._records, reply_key(self._reply)) is not None

    def puts(self, entry: Entry) -> Sequence[Put]:
        if not self._is_known:
            return []  # it was shown to its sender only
        thread = msgspec.structs.replace(self._thread, replies=max(self._thread.replies - 1, 0))
        return [put_thread(self._key, thread, self._version), put_reply(self._reply, is_deleted=True)]
