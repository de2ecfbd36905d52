"""Who came into a conversation and who went is told so, beside the entries that say it to the others.

The node whose lane changed the members tells them wherever they are connected. A node that heard nothing of it, and
finds the change in the log, tells those who are connected to itself, before it goes on with what follows. So a word may
come twice, and is not lost with a publish. Called by deliver.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from tidings.errors import Problem, StoreError
from tidings.messaging.access import Roster
from tidings.messaging.inbox import Inbox
from tidings.model import ConversationAdded, ConversationRemoved, Entry, Event
from tidings.routing.hub import Hub
from tidings.routing.router import Router

log = logging.getLogger("tidings.deliver")

Push = Callable[[str, Event], None]


class Newcomers:
    def __init__(self, inbox: Inbox, hub: Hub, router: Router) -> None:
        self._inbox = inbox
        self._hub = hub
        self._router = router

    async def tell(self, roster: Roster, entry: Entry) -> None:
        """Of a change that our lane has just stored."""
        assert entry.member is not None
        for user_id in entry.member.user_ids:
            if user_id not in roster.members:
                self._router.push(user_id, ConversationRemoved(roster.head.conversation_id))
            elif entry.member.action == "added":
                await self._tell_added(user_id, roster.head.conversation_id, self._router.push)

    async def tell_found(self, changes: Iterable[Entry], roster: Roster) -> None:
        """Of changes that were found in the log, and that the roster knows."""
        for entry in changes:
            assert entry.member is not None
            for user_id in filter(self._hub.of_user, entry.member.user_ids):
                if user_id not in roster.members:
                    self._hub.push(user_id, ConversationRemoved(roster.head.conversation_id))
                elif roster.members[user_id].joined_seq == entry.seq_no:
                    await self._tell_added(user_id, roster.head.conversation_id, self._hub.push)

    async def _tell_added(self, user_id: str, conversation_id: str, push: Push) -> None:
        try:
            item = await self._inbox.item(user_id, conversation_id)
        except (Problem, StoreError) as error:
            log.info("a new conversation is seen with the next inbox page: %s", error)
            return
        push(user_id, ConversationAdded(item))
