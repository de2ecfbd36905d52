"""Coming back: the client says the last seq it has per conversation and gets everything after it, or is told plainly
that there is more. Never a silent gap.

The connection is attached before this runs, so live entries may come in between; what the log gives is gapless, and a
client drops what it has already.
"""

from __future__ import annotations

from tidings.bounds import PAGE_MAX, RESUME_CONVERSATIONS_MAX
from tidings.errors import NotFound
from tidings.messaging.access import Access, Roster
from tidings.messaging.inbox import Inbox
from tidings.messaging.receipts import Receipts
from tidings.messaging.slots import Slots
from tidings.messaging.unread import Unread
from tidings.model import ConversationRemoved, ConversationUpdated, Entry, MessageNew, Resumed
from tidings.routing.hub import Outbound
from tidings.stores.calls import Keyspace, plain
from tidings.stores.keys import Keys
from tidings.stores.ports import Conversations

_ENTRIES_MAX = 500  # per conversation; the rest is read as history


class Resume:
    def __init__(
        self,
        access: Access,
        conversations: Conversations,
        slots: Slots,
        inbox: Inbox,
        unread: Unread,
        receipts: Receipts,
        keyspace: Keyspace,
        keys: Keys,
    ) -> None:
        self._access = access
        self._conversations = conversations
        self._slots = slots
        self._inbox = inbox
        self._unread = unread
        self._receipts = receipts
        self._keyspace = keyspace
        self._keys = keys

    async def catch_up(self, outbound: Outbound, resume: dict[str, int], since: int | None) -> None:
        """Push what was missed."""
        for conversation_id, seq_no in list(resume.items())[:RESUME_CONVERSATIONS_MAX]:
            try:
                roster = await self._access.authorize(outbound.user_id, conversation_id, "read")
            except NotFound:
                outbound.push(ConversationRemoved(conversation_id))
                continue
            await self._conversation(outbound, roster, seq_no)
        if since is not None:
            await self._others(outbound, set(resume), since)

    async def _conversation(self, outbound: Outbound, roster: Roster, seq_no: int) -> None:
        conversation_id, user_id = roster.head.conversation_id, outbound.user_id
        heads = await self._conversations.heads([conversation_id])
        head = heads[conversation_id].head if conversation_id in heads else 0
        is_reset = seq_no > head
        after = max(0 if is_reset else seq_no, roster.visible_after(user_id))
        entries = await self._entries(conversation_id, after)
        for entry in entries:
            outbound.push(MessageNew(entry, None, False, None))
        state = await self._unread.state(user_id, conversation_id)
        delivered_all, read_all = await self._receipts.lowest(roster, but=user_id)
        to_seq = entries[-1].seq_no if entries else after
        outbound.push(
            Resumed(
                conversation_id=conversation_id,
                from_seq=after + 1,
                to_seq=to_seq,
                complete=to_seq >= head,
                reset=is_reset,
                read_seq=state.read_seq,
                unread_count=state.unread_count,
                delivered_all_seq=delivered_all,
                read_all_seq=read_all,
            )
        )

    async def _entries(self, conversation_id: str, after: int) -> list[Entry]:
        entries: list[Entry] = []
        while len(entries) < _ENTRIES_MAX:
            found = await self._slots.after(conversation_id, after + len(entries), PAGE_MAX)
            entries += found
            if len(found) < PAGE_MAX:
                break
        return entries

    async def _others(self, outbound: Outbound, named: set[str], since: int) -> None:
        """Conversations the client did not name, with a message or a join since then."""
        await self._unread.totals(outbound.user_id)  # warm, so that the order is complete
        key = self._keys.inbox(outbound.user_id)
        limit = RESUME_CONVERSATIONS_MAX + len(named)
        call = plain(key, b"ZRANGE", key, b"+inf", since, b"BYSCORE", b"REV", b"LIMIT", 0, limit)
        changed = [id_.decode() for id_ in await self._keyspace.one(call)]
        for conversation_id in [id_ for id_ in changed if id_ not in named][:RESUME_CONVERSATIONS_MAX]:
            try:
                item = await self._inbox.item(outbound.user_id, conversation_id)
            except NotFound:
                continue
            outbound.push(ConversationUpdated(item))
