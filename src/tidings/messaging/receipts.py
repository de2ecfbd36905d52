"""Ticks: how far each member's devices have received and read. Forward only; a client's receipt, never "routed".

message_status holds the marks. Reading moves both (unread.py puts them with the cursor and tells `read`);
`message.delivered` moves the delivered mark alone. Both are coalesced: the last value per member and conversation is
written, then pushed as `receipt` to those whose messages it concerns. What a store refuses for the moment waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter

from tidings.bounds import (
    PAGE_MAX,
    RECEIPT_WRITE_S,
    RECEIPTS_WAITING_MAX,
    RESUME_ENTRIES_MAX,
    TICKS_ENTRIES_MAX,
)
from tidings.errors import NotFound, StoreError
from tidings.messaging.access import Access, Roster
from tidings.messaging.ticks import Moved, Raise, Ticks
from tidings.messaging.unread import Unread
from tidings.model import Entry, Receipt
from tidings.routing.router import Router
from tidings.stores.calls import Call
from tidings.stores.ports import Conversations, Messages, Statuses

log = logging.getLogger("tidings.receipts")
_TOGETHER = 500  # receipts written in one go
Waiting = dict[tuple[str, str], tuple[int, int]]  # conversation_id, user_id -> delivered, read


class Receipts:
    def __init__(
        self,
        *,
        access: Access,
        messages: Messages,
        statuses: Statuses,
        conversations: Conversations,
        unread: Unread,
        ticks: Ticks,
        router: Router,
        on_delivered: Callable[[Sequence[Raise]], None] = lambda raises: None,
    ) -> None:
        self._access = access
        self._messages = messages
        self._statuses = statuses
        self._conversations = conversations
        self._unread = unread
        self._ticks = ticks
        self._router = router
        self._on_delivered = on_delivered
        self._waiting: Waiting = {}
        self._untold: set[tuple[str, str]] = set()  # of these: raised perhaps, and nobody was told
        self._writing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def delivered(self, user_id: str, acks: dict[str, int], origin: str) -> None:
        """A device has everything up to these. Never blocks; a foreign conversation is ignored in silence."""
        for conversation_id, seq_no in acks.items():
            self._note(conversation_id, user_id, seq_no, 0)

    def read(self, user_id: str, conversation_id: str, seq_no: int) -> None:
        """The member has read up to here; the table says so already. Reading implies delivery."""
        self._note(conversation_id, user_id, seq_no, seq_no)

    async def flush(self) -> None:
        """Write and tell what waits, now. Raises StoreError: then it waits on."""
        async with self._turn:  # a flush that is under way is finished first: when this one returns, all is written
            while self._waiting:
                some = dict(islice(self._waiting.items(), _TOGETHER))
                for key in some:
                    del self._waiting[key]
                try:
                    await self._write(some)
                except StoreError:
                    for key, marks in some.items():
                        self._keep(key, *marks)
                    self._untold |= some.keys() & self._waiting.keys()
                    raise
                self._untold -= some.keys()

    def look(self, roster: Roster, *, but: str) -> Call[tuple[int, int] | None]:
        """`lowest` as a call to be run beside others. None: COLD, ask `lowest`."""
        return self._ticks.look(roster, but=but)

    async def lowest(self, roster: Roster, *, but: str) -> tuple[int, int]:
        """(delivered, read): what all members other than `but` have."""
        return await self._ticks.lowest(roster, but=but)

    async def standing(self, roster: Roster, user_id: str, read_seq: int) -> tuple[int, int]:
        """`lowest` for a member who comes back, having read up to here.

        What a member read is in the table before it becomes a tick. The node may have died between the two; whoever
        comes back makes up for it.
        """
        if read_seq > 0:
            conversation_id = roster.head.conversation_id
            raises = [(conversation_id, user_id, read_seq, read_seq)]
            moved = await self._ticks.raise_all(raises, {conversation_id: roster})
            if moved[0].before is not None:  # else the marks were built from the tables, and nothing is news
                await self._tell(raises, moved)
        return await self.lowest(roster, but=user_id)

    async def of_message(
        self, user_id: str, conversation_id: str, seq_no: int
    ) -> tuple[list[str], list[str], list[str]]:
        """(read, delivered, pending): each member but the sender once, at the furthest state."""
        roster = await self._access.authorize(user_id, conversation_id, "read")
        if seq_no <= roster.visible_after(user_id):
            raise NotFound("no such message")
        sender_id = await self._sender(conversation_id, seq_no)
        marks = await self._ticks.marks(roster)
        states: tuple[list[str], list[str], list[str]] = ([], [], [])
        for member_id in sorted(roster.members):
            if member_id != sender_id:
                delivered, read = marks[member_id]
                states[0 if read >= seq_no else 1 if delivered >= seq_no else 2].append(member_id)
        return states

    # --- writing ------------------------------------------------------------------------------------

    def _note(self, conversation_id: str, user_id: str, delivered: int, read: int) -> None:
        self._keep((conversation_id, user_id), delivered, read)
        if self._waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write_later(), name="receipts")

    def _keep(self, key: tuple[str, str], delivered: int, read: int) -> None:
        if key not in self._waiting and len(self._waiting) >= RECEIPTS_WAITING_MAX:
            return  # a lost receipt is sent again with the next
        earlier = self._waiting.get(key, (0, 0))
        self._waiting[key] = (max(delivered, earlier[0]), max(read, earlier[1]))

    async def _write_later(self) -> None:
        while self._waiting:
            await asyncio.sleep(RECEIPT_WRITE_S)
            try:
                await self.flush()
            except StoreError as error:
                log.info("receipts wait for the stores: %s", error)

    async def _write(self, waiting: Waiting) -> None:
        rosters = await self._rosters({conversation_id for conversation_id, _ in waiting})
        heads = await self._conversations.heads(rosters)
        raises = [
            (id_, user_id, min(delivered, heads[id_].head), min(read, heads[id_].head))
            for (id_, user_id), (delivered, read) in waiting.items()
            if id_ in heads and user_id in rosters[id_].members and min(delivered, heads[id_].head) > 0
        ]
        if not raises:
            return
        fresh = await self._statuses.deliver([(id_, user_id, delivered) for id_, user_id, delivered, _ in raises])
        self._on_delivered(raises)
        for conversation_id, user_id, delivered, _ in raises:
            await self._unread.delivered(user_id, conversation_id, delivered)
        moved = zip(raises, await self._ticks.raise_all(raises, rosters), strict=True)
        await self._tell(raises, [self._news(one, now, one[:2] in fresh) for one, now in moved])

    def _news(self, one: Raise, now: Moved, is_fresh: bool) -> Moved:
        """What nobody was told of yet. It was in the tables before it became a tick: whoever built the marks meanwhile
        took it over from there, and told nobody. `is_fresh`: the delivered mark moved there; a read mark always did."""
        conversation_id, user_id, delivered, read = one
        if now.before is None or one[:2] in self._untold:
            return now._replace(before=None)
        if self._router.has_told(Receipt(conversation_id, user_id, now.delivered, now.read)):
            return now
        before_delivered, before_read = now.before
        if is_fresh and before_delivered >= delivered:
            before_delivered = 0
        if 0 < read <= before_read:
            before_read = 0
        return now._replace(before=(before_delivered, before_read))

    async def _rosters(self, conversation_ids: set[str]) -> dict[str, Roster]:
        """Those that exist, with their members as of now."""
        found = await asyncio.gather(*(self._access.fresh(id_) for id_ in conversation_ids))
        return {id_: roster for id_, roster in zip(conversation_ids, found, strict=True) if roster is not None}

    # --- telling ------------------------------------------------------------------------------------

    async def _tell(self, raises: Sequence[Raise], moved: Sequence[Moved]) -> None:
        """To the senders of what is newly delivered or read; one look at the log per conversation."""
        news: dict[str, dict[str, Moved]] = {}
        for (conversation_id, user_id, _, _), now in zip(raises, moved, strict=True):
            if now.before != (now.delivered, now.read):
                news.setdefault(conversation_id, {})[user_id] = now
        for conversation_id, members in news.items():
            entries = await self._concerned(conversation_id, members)
            for user_id, now in members.items():
                senders = {
                    entry.sender_id
                    for after, up_to in _stretches(now)
                    for entry in entries
                    if after < entry.seq_no <= up_to
                }
                for sender_id in senders - {user_id, None}:
                    assert sender_id is not None
                    self._router.push(sender_id, Receipt(conversation_id, user_id, now.delivered, now.read))

    async def _concerned(self, conversation_id: str, members: Mapping[str, Moved]) -> list[Entry]:
        """Messages in the stretches that marks went over; of long ones the latest."""
        entries: list[Entry] = []
        for after, up_to in _merged([stretch for now in members.values() for stretch in _stretches(now)]):
            before = up_to + 1
            while before > after + 1 and len(entries) < TICKS_ENTRIES_MAX:
                page = await self._messages.page(
                    conversation_id, after=after, before=before, limit=PAGE_MAX, newest_first=True
                )
                entries += page
                before = page[-1].seq_no if len(page) == PAGE_MAX else 0
        return [entry for entry in entries if entry.kind == "message"]

    async def _sender(self, conversation_id: str, seq_no: int) -> str | None:
        entries = await self._messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        if not entries:
            raise NotFound("no such message")
        return entries[0].sender_id


def _stretches(now: Moved) -> list[tuple[int, int]]:
    """(after, up to) of each mark that moved. Where the earlier marks are not known, all of it is told again."""
    before = now.before or (0, 0)
    return [(old, new) for old, new in zip(before, (now.delivered, now.read), strict=True) if new > old]


def _merged(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The latest part of each, the newest first, and nothing twice."""
    merged: list[tuple[int, int]] = []
    latest = [(max(old, new - RESUME_ENTRIES_MAX), new) for old, new in stretches]
    for after, up_to in sorted(latest, key=itemgetter(1), reverse=True):
        if merged and up_to >= merged[-1][0]:
            after, up_to = min(after, merged[-1][0]), max(up_to, merged.pop()[1])
        merged.append((after, up_to))
    return merged
