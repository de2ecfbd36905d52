"""Conversation rows are written late: the last value per row, about once a second, so that a busy channel does not cost
a row per member and message.

What a row gets is what the head says when it is written, and once more if that text changed while it was written: one
that was edited or deleted meanwhile, on whichever node, never comes back. What is lost with a crash is nothing: a row
that is behind is repaired when it is read (inbox.py), and counts come from the keyspace. A changed or deleted last
message is written at once, because nothing else would show it. send.py notes and flushes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from tidings.bounds import ROW_WRITE_BIG_MEMBERS, ROW_WRITE_BIG_S, ROW_WRITE_S
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.messaging.access import Roster
from tidings.model import Head, Member
from tidings.stores.ports import Conversations, Inboxes, Touch
from tidings.stores.scripts import Indexed

log = logging.getLogger("tidings.rows")


class Tables(Conversations, Inboxes, Protocol):
    """What is read and written here."""


class _Late:
    """The members whose rows of one conversation are behind, and the counts to put beside."""

    __slots__ = ("counts", "due_s", "last_seq", "members", "members_seq")

    def __init__(self, due_s: float) -> None:
        self.due_s = due_s
        self.last_seq = 0
        self.members: Mapping[str, Member] = {}
        self.members_seq = 0
        self.counts: dict[str, Indexed] = {}


class Rows:
    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock
        self._late: dict[str, _Late] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(
        self, roster: Roster, *, last_seq: int, last_ms: int, preview: str | None, indexed: dict[str, Indexed]
    ) -> None:
        """A newer message. Never blocks."""
        late = self._late.get(roster.head.conversation_id)
        if late is None:
            wait_s = ROW_WRITE_BIG_S if len(roster.members) > ROW_WRITE_BIG_MEMBERS else ROW_WRITE_S
            late = self._late[roster.head.conversation_id] = _Late(self._clock.monotonic_s() + wait_s)
            self._start()
        if last_seq >= late.last_seq:
            late.last_seq, late.members, late.counts = last_seq, roster.members, indexed
            late.members_seq = roster.members_seq

    async def write_now(self, roster: Roster, head: Head) -> None:
        """The last message itself changed: its rows must not keep the old text."""
        late = self._late.pop(head.conversation_id, None) or _Late(0.0)
        late.members, late.members_seq = roster.members, roster.members_seq
        await self._write({head.conversation_id: late})

    async def flush(self) -> None:
        """Write everything that waits, now: on drain."""
        late, self._late = self._late, {}
        await self._write(late)

    def _start(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_late(), name="rows")

    async def _write_late(self) -> None:
        while self._late:
            await asyncio.sleep(ROW_WRITE_S / 4)
            now_s = self._clock.monotonic_s()
            due = {id_: late for id_, late in self._late.items() if late.due_s <= now_s}
            for id_ in due:
                del self._late[id_]
            try:
                await self._write(due)
            except StoreError as error:
                log.warning("rows stay behind until they are read or written again: %s", error)

    async def _write(self, late: dict[str, _Late]) -> None:
        heads = await self._tables.heads(late) if late else {}
        while heads:
            await self._know_members(heads, late)
            touches = [touch for id_, head in heads.items() for touch in _touches(head, late[id_])]
            heads = await write_rows(self._tables, heads, touches)

    async def _know_members(self, heads: dict[str, Head], late: dict[str, _Late]) -> None:
        """Whoever left and came back has a row again, but must not be shown what was said in between: a list older than
        the head is read again, after it."""
        for id_, head in heads.items():
            if late[id_].members_seq < head.members_seq:
                late[id_].members = {member.user_id: member for member in await self._tables.members(id_)}
                late[id_].members_seq = head.members_seq


async def write_rows(tables: Tables, heads: Mapping[str, Head], touches: Sequence[Touch]) -> dict[str, Head]:
    """What the heads say. Answers those whose text changed meanwhile: their rows are to be written again."""
    await tables.touch(touches)
    again = await tables.heads(heads)
    return {id_: head for id_, head in again.items() if _is_other_text(head, heads[id_])}


def _touches(head: Head, late: _Late) -> list[Touch]:
    return [
        Touch(
            user_id=user_id,
            conversation_id=head.conversation_id,
            last_seq=head.last_seq,
            last_ms=head.last_ms,
            preview=head.preview,
            unread_count=late.counts[user_id].unread_count if user_id in late.counts else None,
        )
        for user_id, member in late.members.items()
        if head.history == "all" or member.joined_seq < head.last_seq  # else it was said before they came
    ]


def _is_other_text(now: Head, then: Head) -> bool:
    """The message shown was edited or deleted. A newer one is not waited for: whoever took it writes its rows, and in a
    busy conversation there would be no end."""
    return now.last_seq == then.last_seq and now.preview != then.preview
