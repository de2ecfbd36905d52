"""Conversation rows are written late: the last value per row, about once a second, so that a busy channel does not cost
a row per member and message.

What is lost with a crash is nothing: a row that is behind is repaired when it is read (inbox.py), and counts come from
the keyspace. A changed or deleted last message is written at once, because nothing else would show it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from tidings.bounds import ROW_WRITE_BIG_MEMBERS, ROW_WRITE_BIG_S, ROW_WRITE_S
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.messaging.access import Roster
from tidings.model import Head
from tidings.stores.ports import Inboxes, Touch
from tidings.stores.scripts import Indexed

log = logging.getLogger("tidings.rows")


class _Late:
    """The newest state of one conversation, not yet in the rows."""

    __slots__ = ("counts", "due_s", "last_ms", "last_seq", "preview", "user_ids")

    def __init__(self, due_s: float) -> None:
        self.due_s = due_s
        self.last_seq = 0
        self.last_ms = 0
        self.preview: str | None = None
        self.user_ids: Iterable[str] = ()
        self.counts: dict[str, Indexed] = {}


class Rows:
    def __init__(self, inboxes: Inboxes, clock: Clock) -> None:
        self._inboxes = inboxes
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
            late.last_seq, late.last_ms, late.preview = last_seq, last_ms, preview
            late.user_ids, late.counts = roster.members, indexed

    async def write_now(self, roster: Roster, head: Head) -> None:
        """The last message itself changed: its rows must not keep the old text."""
        self._late.pop(head.conversation_id, None)
        await self._inboxes.touch(
            [
                Touch(
                    user_id=user_id,
                    conversation_id=head.conversation_id,
                    last_seq=head.last_seq,
                    last_ms=head.last_ms,
                    preview=head.preview,
                )
                for user_id in roster.members
            ]
        )

    async def flush(self) -> None:
        """Write everything that waits, now: on drain."""
        await self._write(list(self._late))

    def _start(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_late(), name="rows")

    async def _write_late(self) -> None:
        while self._late:
            await asyncio.sleep(ROW_WRITE_S / 4)
            now_s = self._clock.monotonic_s()
            try:
                await self._write([id_ for id_, late in self._late.items() if late.due_s <= now_s])
            except StoreError as error:
                log.warning("rows are written later: %s", error)

    async def _write(self, conversation_ids: list[str]) -> None:
        touches: list[Touch] = []
        for conversation_id in conversation_ids:
            late = self._late.pop(conversation_id)
            for user_id in late.user_ids:
                indexed = late.counts.get(user_id)
                touches.append(
                    Touch(
                        user_id=user_id,
                        conversation_id=conversation_id,
                        last_seq=late.last_seq,
                        last_ms=late.last_ms,
                        preview=late.preview,
                        unread_count=indexed.unread_count if indexed else None,
                    )
                )
        if touches:
            await self._inboxes.touch(touches)
