"""Membership events: `conversation.added` and `conversation.removed` to the users whom a member entry concerns, and
`conversation.updated` to those whose archived conversation is back.

`conversation.added` comes from the stream: a node pushes it to its own connections when the member entry goes out. It
holds later entries of the conversation for that user back until the row was read, so no entry comes before it. The node
whose lane removed a member pushes `conversation.removed` wherever that user is connected. A node that finds the change
in the log pushes to the users connected to itself. So does a node that pushed entries below the removal to them after
the first news (leaving.py). A removal may be pushed twice, and is not lost with a publish.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator

from tidings.bounds import GAP_AGAIN_S
from tidings.errors import NotFound, Problem, StoreError, cause_of
from tidings.messaging.access import MemberList
from tidings.messaging.reading.inbox import Inbox
from tidings.model import Entry
from tidings.pushes import ConversationAdded, ConversationRemoved, ConversationUpdated, Event
from tidings.routing.hub import Connection, Hub
from tidings.routing.router import Router
from tidings.tasks import Recent

log = logging.getLogger("tidings.deliver")

_TRIES_MAX = 50  # of a row that cannot be read now: 10 s, then the entries go out without the news
_ENDED_MAX = 10_000  # memberships that ended before they were told: the news of the removal is on its way
Key = tuple[str, str, int]  # conversation_id, user_id and joined_seq: a membership


class MembershipEvents:
    def __init__(self, inbox: Inbox, hub: Hub, router: Router) -> None:
        self._inbox = inbox
        self._hub = hub
        self._router = router
        # The events that wait until the row of a user who joined was read. Nearly always nothing.
        self.joining: dict[Key, list[tuple[Connection, Event]]] = {}
        # Memberships whose row was gone when it was read: no entry of them goes out, or it would come after a skip.
        self.ended = Recent[Key, None](_ENDED_MAX)

    def push_removed(self, member_list: MemberList, entry: Entry) -> None:
        """Push the removals of a change that our lane has just stored, to every node."""
        for user_id in self._gone(member_list, entry):
            self._router.push(user_id, ConversationRemoved(member_list.head.conversation_id))

    def push_found(self, changes: Iterable[Entry], member_list: MemberList) -> None:
        """Push the removals of changes that were found in the log, and that the member list knows, to this node."""
        for entry in changes:
            for user_id in filter(self._hub.of_user, self._gone(member_list, entry)):
                self._hub.push(user_id, ConversationRemoved(member_list.head.conversation_id))

    def hold_joins(self, member_list: MemberList, entries: Iterable[Entry]) -> Iterator[Key]:
        """Hold back the entries after a join, for each user here who joined with one of these. Yields those joins."""
        for entry in entries:
            assert entry.member is not None
            for user_id in filter(self._hub.of_user, entry.member.user_ids):
                member, key = member_list.members.get(user_id), (entry.conversation_id, user_id, entry.seq_no)
                if member is not None and member.joined_seq == entry.seq_no and key not in self.joining:
                    self.joining[key] = []
                    yield key

    async def finish_join(self, key: Key) -> None:
        """Read the row, push `conversation.added`, then the entries that waited. A membership that ended is skipped."""
        user_id = key[1]
        try:
            added = await self._read_row(key)
        finally:
            waiting = self.joining.pop(key, None)
        if waiting is None:
            return
        if added is not None:
            self._hub.push(user_id, added)
        for connection, event in waiting:
            connection.push(event)

    async def _read_row(self, key: Key) -> ConversationAdded | None:
        """The news with the row. A store that does not answer is asked again for a while. None: there is no news."""
        conversation_id, user_id, joined_seq = key
        for _ in range(_TRIES_MAX):
            try:
                item = await self._inbox.item(user_id, conversation_id)
                if item.row.joined_seq <= joined_seq:
                    return ConversationAdded(item)
                self._end(key)  # removed and added again: the later join has its own news
            except NotFound:
                self._end(key)  # removed again
            except (Problem, StoreError) as error:
                log.info("conversation.added waits for a store", extra=cause_of(error, user_id=user_id))
                await asyncio.sleep(GAP_AGAIN_S)
            if key not in self.joining:
                break
        return None

    def _end(self, key: Key) -> None:
        self.joining.pop(key, None)
        self.ended.put(key, None)

    async def push_back(self, user_id: str, conversation_id: str) -> None:
        """Push the row of a conversation that was archived when a message came, to every node."""
        try:
            item = await self._inbox.item(user_id, conversation_id)
        except (Problem, StoreError) as error:
            log.info("conversation.updated was not pushed", extra=cause_of(error, user_id=user_id))
            return
        if not item.row.archived:  # else it was a message from before, sent again
            self._router.push(user_id, ConversationUpdated(item))

    def _gone(self, member_list: MemberList, entry: Entry) -> list[str]:
        """Return the users whom the change removed. Entries that wait for them are dropped."""
        assert entry.member is not None
        gone = [user_id for user_id in entry.member.user_ids if user_id not in member_list.members]
        for key in [key for key in self.joining if key[0] == entry.conversation_id and key[1] in gone]:
            del self.joining[key]
        return gone
