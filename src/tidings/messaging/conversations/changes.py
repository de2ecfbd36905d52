"""Changes of a conversation: the numbered entry that says what is new about its name, its picture or its rules.

The entry counts for nobody and moves nothing. It raises the version of the member list, so every node reads the
conversation again before it stores a message above the entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidings.clock import Clock
from tidings.messaging.access import MemberList
from tidings.messaging.send.draft import Companion, Draft
from tidings.model import Content, MemberChange


def change_draft(
    clock: Clock, user_id: str, member_list: MemberList, fields: Mapping[str, Any], companion: Companion | None = None
) -> Draft:
    """The draft of such an entry, with the fields that change. `companion`: records that change in its commit."""
    return Draft(
        sender_id=user_id,
        conversation_id=member_list.head.conversation_id,
        message_id=clock.random_id(),
        kind="conversation",
        content=Content(conversation=dict(fields)),
        change=MemberChange("role", (user_id,), member_list.members[user_id].role),
        companion=companion,
    )
