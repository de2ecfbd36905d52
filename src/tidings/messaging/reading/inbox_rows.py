"""Inbox rows: written late, the last value per row about once a second.

So a busy channel does not cost a row per member and message. A row gets the text of the head at the time of the write.
It is written once more if that text changed meanwhile, so an edited or deleted text never comes back, on whichever node
it was changed. The rows of a large conversation have no text, because nobody writes them when it changes: they say that
it is at the head (unread/line.py). A crash loses nothing: a row that is behind is repaired when it is read (inbox.py),
and counts come from the keyspace. A changed or deleted last message is written at once, because nothing else would show
the change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from tidings.bounds import ROW_WRITE_BIG_MEMBERS, ROW_WRITE_BIG_S, ROW_WRITE_S
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.messaging.access import MemberList
from tidings.messaging.unread.line import sees_last, touch_of
from tidings.model import Head, Member
from tidings.stores.keyspace.scripts.answers import Indexed
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Touch
from tidings.tasks import cancel

log = logging.getLogger("tidings.rows")


class _Late:
    """The members whose rows of one conversation are behind, and the counts to put beside."""

    __slots__ = ("counts", "due_s", "last_seq", "members", "members_seq")

    def __init__(self, due_s: float) -> None:
        self.due_s = due_s
        self.last_seq = 0
        self.members: Mapping[str, Member] = {}
        self.members_seq = 0
        self.counts: Mapping[str, Indexed] = {}


class InboxRows:
    def __init__(self, tables: Tables, clock: Clock, *, has_counts: bool) -> None:
        """`has_counts`: rows get unread counts. Where a delivery changes them too, they would not stay exact."""
        self._has_counts = has_counts
        self._tables = tables
        self._clock = clock
        self._late: dict[str, _Late] = {}
        self._writing: asyncio.Task[None] | None = None

    def record(self, member_list: MemberList, last_seq: int, counts: Mapping[str, Indexed]) -> None:
        """Record that the rows are behind this entry, and write them soon, from the head. Never blocks.

        `counts` are as of this entry.
        """
        late = self._late.get(member_list.head.conversation_id)
        if late is None:
            wait_s = ROW_WRITE_BIG_S if len(member_list.members) > ROW_WRITE_BIG_MEMBERS else ROW_WRITE_S
            late = self._late[member_list.head.conversation_id] = _Late(self._clock.monotonic_s() + wait_s)
            self._start()
        if last_seq >= late.last_seq:
            late.last_seq, late.members = last_seq, member_list.members
            late.counts = counts if self._has_counts else {}
            late.members_seq = member_list.members_seq

    async def write_now(self, member_list: MemberList, head: Head) -> None:
        """Write the rows of a conversation whose last message changed: they must not keep the old text."""
        late = self._late.pop(head.conversation_id, None) or _Late(0.0)
        late.members, late.members_seq = member_list.members, member_list.members_seq
        await self._write({head.conversation_id: late})

    async def flush(self) -> None:
        """Write everything that waits, now: on drain."""
        late, self._late = self._late, {}
        await self._write(late)

    async def close(self) -> None:
        """End the task that writes. A row that stays behind is brought up by the next message."""
        await cancel(self._writing)

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
                log.warning("inbox rows stay behind", extra={"store": "tables", "op": "touch", "cause": str(error)})

    async def _write(self, late: dict[str, _Late]) -> None:
        heads = await self._tables.conversations.heads(late) if late else {}
        while heads:
            await self._know_members(heads, late)
            touches = [touch for id_, head in heads.items() for touch in _touches(head, late[id_])]
            heads = await write_rows(self._tables, heads, touches)

    async def _know_members(self, heads: dict[str, Head], late: dict[str, _Late]) -> None:
        """Read a member list again that is older than the head. A member who left and came back has a row again, but
        must not see what was said in between."""
        for id_, head in heads.items():
            if late[id_].members_seq < head.members_seq:
                late[id_].members = {member.user_id: member for member in await self._tables.conversations.members(id_)}
                late[id_].members_seq = head.members_seq


async def write_rows(tables: Tables, heads: Mapping[str, Head], touches: Sequence[Touch]) -> dict[str, Head]:
    """Write the texts of the heads. Returns the heads whose text changed meanwhile: their rows are written again."""
    await tables.inboxes.touch(touches)
    again = await tables.conversations.heads(heads)
    return {id_: head for id_, head in again.items() if _is_other_text(head, heads[id_])}


def _touches(head: Head, late: _Late) -> list[Touch]:
    return [
        touch_of(user_id, head, **_count_of(late.counts.get(user_id), is_known=head.last_seq <= late.last_seq))
        for user_id, member in late.members.items()
        if sees_last(member, head)
    ]


def _count_of(counted: Indexed | None, *, is_known: bool) -> dict[str, int]:
    """The count of a touch. A count from before the last message, or a capped one, is not exact, and is left out."""
    if counted is None or counted.unread_count is None or counted.unread_capped or not is_known:
        return {}
    return {"unread_count": counted.unread_count, "version": counted.version}


def _is_other_text(now: Head, then: Head) -> bool:
    """Whether the message shown was edited or deleted, or the line was crossed. A newer message does not count: its
    node writes its rows, and in a busy conversation there would be no end."""
    if bool(now.large_ms) != bool(then.large_ms):
        return True
    return now.last_seq == then.last_seq and (now.preview, now.last_message) != (then.preview, then.last_message)
