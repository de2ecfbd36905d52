"""Follows: a member asks to follow a thread, or to follow it no more.

The record of the thread and that of the follow change together. A marker in the keyspace makes the thread cold, should
the node die before the index has followed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from tidings.errors import Conflict, NotFound, TooLarge, Unavailable
from tidings.messaging.access import Access, MemberList
from tidings.messaging.log import entry_at
from tidings.messaging.threads.records import (
    FOLLOWERS_MAX,
    Follow,
    Follower,
    follow_key,
    follow_of,
    put_follow,
    put_thread,
    read_one,
    thread_id,
    thread_key,
    thread_of,
)
from tidings.messaging.threads.unread import ThreadUnread
from tidings.messaging.unread.rebuild import HOLD_MS, Rebuilds
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.model import KINDS, ReadState
from tidings.pushes import ReadSynced
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Call, Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import Put

_TRIES_MAX = 20  # replies that change the record of the thread at the same moment


@dataclass(eq=False, repr=False)
class Follows:
    access: Access
    tables: Tables
    keyspace: Keyspace
    scripts: Scripts
    rebuilds: Rebuilds
    unread: ThreadUnread
    unknown_outcomes: UnknownOutcomes
    router: Router

    async def set(self, user_id: str, conversation_id: str, thread_seq: int, *, is_on: bool) -> ReadState:
        """Follow or unfollow, and answer the counts. A new follower has read everything so far. Raises NotFound."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        id_, token = thread_id(conversation_id, thread_seq), self.rebuilds.token()
        # A reply that names somebody brings them into a thread whose root they do not see. They may leave the thread.
        is_allowed = self._is_root if is_on else self._is_root_or_followed
        if not await is_allowed(member_list, user_id, thread_seq):
            raise NotFound("no such message")
        marker = self.scripts.threads.unread_put(user_id, token, hold_ms=HOLD_MS, conversation_id=id_)
        await self.keyspace.one(marker)
        done = self.scripts.threads.unread_put(user_id, token, hold_ms=0)
        with self.unknown_outcomes.of([(user_id, id_)]):
            call = await self._commit(user_id, id_, member_list.members[user_id].joined_seq, is_on=is_on)
        with self.unknown_outcomes.of([(user_id, id_)], is_committed=True):
            await self.keyspace.run([done] if call is None else [call, done])
        state = await self.unread.state_or_nothing(user_id, id_)
        if call is not None:
            self.router.push(user_id, ReadSynced(state))
        return state

    async def _is_root(self, member_list: MemberList, user_id: str, seq_no: int) -> bool:
        """Whether the user sees a message at this number that can have replies."""
        root = await entry_at(self.tables.log, member_list.head.conversation_id, seq_no)
        is_seen = seq_no > member_list.visible_after(user_id)
        return root is not None and is_seen and KINDS[root.kind].is_target and root.thread_seq is None

    async def _is_root_or_followed(self, member_list: MemberList, user_id: str, seq_no: int) -> bool:
        key = thread_key(member_list.head.conversation_id, seq_no)
        follower = thread_of(await read_one(self.tables.records, key))[0].followers.get(user_id)
        is_followed = follower is not None and follower.since_seq == member_list.members[user_id].joined_seq
        return is_followed or await self._is_root(member_list, user_id, seq_no)

    async def _commit(self, user_id: str, id_: str, joined_seq: int, *, is_on: bool) -> Call[Any] | None:
        """Change the records. Returns the call that makes the index follow; None: nothing changed."""
        conversation_id, _, thread_seq = id_.partition("/")
        key, own = thread_key(conversation_id, int(thread_seq)), follow_key(user_id, conversation_id, int(thread_seq))
        for _ in range(_TRIES_MAX):
            found, mine = await asyncio.gather(read_one(self.tables.records, key), read_one(self.tables.records, own))
            (thread, version), (_, own_version) = thread_of(found), follow_of(mine)
            was = thread.followers.get(user_id)
            if (was is not None and was.since_seq == joined_seq) == is_on:
                return None
            others = {name: one for name, one in thread.followers.items() if name != user_id}
            if is_on and len(others) >= FOLLOWERS_MAX:
                raise TooLarge(f"a thread has at most {FOLLOWERS_MAX} followers")
            followers = others | {user_id: Follower(joined_seq)} if is_on else others
            changed = msgspec.structs.replace(thread, followers=followers)
            follow = put_follow(own, Follow(thread.last_seq), own_version) if is_on else Put(*own, None)
            try:
                await self.tables.records.put([put_thread(key, changed, version), follow])
            except Conflict:
                continue
            if not is_on:
                return self.scripts.threads.inbox_leave(user_id, id_)
            if not thread.last_seq:
                return None
            return self.scripts.threads.inbox_join(
                user_id, id_, score_ms=thread.last_ms, version=own_version + 1, cursor=thread.last_seq
            )
        raise Unavailable("the thread changes too fast")
