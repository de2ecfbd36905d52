"""Rows: a conversation enters the inboxes of people, and their connected devices learn of it.

A commit outside of a lane puts a marker into the keyspace first. Should the node die before the inboxes have followed,
the marker makes the index of these users cold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.messaging.conversations.announcements import Announcements
from tidings.messaging.unread.count import flags_of
from tidings.messaging.unread.rebuild import HOLD_MS
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.model import Head, Member, Row, User
from tidings.pushes import ConversationAdded
from tidings.stores.keyspace.call import Call, Keyspace, Slices
from tidings.stores.keyspace.scripts.messaging import Scripts


class Rows:
    def __init__(
        self,
        announcements: Announcements,
        keyspace: Keyspace,
        scripts: Scripts,
        unknown_outcomes: UnknownOutcomes,
        clock: Clock,
    ) -> None:
        self._announcements = announcements
        self._slices = Slices(keyspace)  # a group of hundreds holds up nobody else in the keyspace
        self._scripts = scripts
        self._unknown_outcomes = unknown_outcomes
        self._clock = clock

    async def mark(self, user_ids: Iterable[str]) -> list[Call[Any]]:
        """Put a marker into the keyspace. Returns the calls that remove it. Raises Unavailable: nothing has changed."""
        token, put, users = self._clock.random_id(8), self._scripts.unread_put, list(user_ids)
        await self._slices.run([put(user_id, token, hold_ms=HOLD_MS) for user_id in users])
        return [put(user_id, token, hold_ms=0) for user_id in users]

    async def show(self, rows: Sequence[Row], note: Sequence[Call[Any]], *, line_ms: int = 0) -> None:
        """Enter the inboxes, and push to the connected members. The creator may have other devices too."""
        join, now_ms = self._scripts.inbox_join, self._clock.now_ms()
        joins = [
            join(row.user_id, row.conversation_id, score_ms=row.joined_ms, version=0, cursor=0, flags=flags)
            for row, flags in ((row, flags_of(row, now_ms, line_ms=line_ms)) for row in rows)
        ]
        try:
            with self._unknown_outcomes.of(((row.user_id, "") for row in rows), is_committed=True):
                await self._slices.run([*joins, *note])
        except StoreError:
            return  # the rows are committed, and the marker stays
        self._announcements.announce([(row.user_id, row.conversation_id) for row in rows], ConversationAdded)


def direct_row(
    id_: str,
    user_id: str,
    other_id: str,
    other: User | None,
    now_ms: int,
    *,
    is_hidden: bool,
    is_requested: bool = False,
) -> Row:
    """The row of a direct conversation: it has the name of the other side."""
    return Row(
        user_id=user_id,
        conversation_id=id_,
        kind="direct",
        name=(other.name if other else None) or other_id,
        avatar_url=other.avatar_url if other and not is_requested else None,  # no picture of a stranger
        is_requested=is_requested,
        joined_ms=0 if is_hidden else now_ms,
        is_hidden=is_hidden,
    )


def shared_rows(head: Head, owner_id: str, others: Sequence[str]) -> tuple[list[Member], list[Row]]:
    """The members of a new group or channel, and its row in the inbox of each."""
    id_, now_ms = head.conversation_id, head.created_ms
    people = [Member(conversation_id=id_, user_id=owner_id, role="owner", joined_ms=now_ms)]
    people += [Member(conversation_id=id_, user_id=other, joined_ms=now_ms) for other in others]
    rows = [
        Row(
            user_id=one.user_id,
            conversation_id=id_,
            kind=head.kind,
            name=head.name,
            avatar_url=head.avatar_url,
            joined_ms=now_ms,
            role=one.role,
        )
        for one in people
    ]
    return people, rows
