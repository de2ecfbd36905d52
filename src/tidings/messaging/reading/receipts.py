"""Receipts: how far each member's devices have received and read. They only go forward.

A receipt is the word of a client; that an entry was routed is none. message_status holds the marks. Reading moves both
marks (unread.py stores them with the cursor and calls `read`); `message.delivered` moves the delivered mark alone. Both
are coalesced: the last value per member and conversation is written, then pushed as `receipt` to the senders that it
concerns. A receipt that a store refuses for the moment waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from tidings.bounds import (
    PAGE_MAX,
    RECEIPT_ENTRIES_MAX,
    RECEIPT_WRITE_S,
    RESUME_ENTRIES_MAX,
)
from tidings.errors import NotFound, StoreError
from tidings.messaging.access import Access, MemberList
from tidings.messaging.reading.receipt_marks import Moved, Raise, ReceiptMarks
from tidings.messaging.reading.receipt_summaries import ReceiptSummaries, is_large
from tidings.messaging.reading.waiting_receipts import Waiting, WaitingReceipts
from tidings.messaging.unread.unread import Unread
from tidings.model import Entry
from tidings.pushes import Receipt
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Call
from tidings.stores.tables.ports import Conversations, Messages, Statuses
from tidings.tasks import Listeners

log = logging.getLogger("tidings.receipts")
_TOGETHER = 500  # receipts written in one go


class Receipts:
    def __init__(
        self,
        *,
        access: Access,
        messages: Messages,
        statuses: Statuses,
        conversations: Conversations,
        unread: Unread,
        receipt_marks: ReceiptMarks,
        router: Router,
        receipts_stored: Listeners[[Sequence[Raise]]],
    ) -> None:
        self._access = access
        self._messages = messages
        self._statuses = statuses
        self._conversations = conversations
        self._unread = unread
        self._receipt_marks = receipt_marks
        self._router = router
        self._receipts_stored = receipts_stored
        self._summaries = ReceiptSummaries(messages, receipt_marks, router)
        self._waiting = WaitingReceipts()
        self._untold: set[tuple[str, str]] = set()  # of these: perhaps raised, and no receipt was pushed
        self._writing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def delivered(self, user_id: str, acks: dict[str, int], origin: str) -> None:
        """Record that a device has everything up to these numbers. Never blocks; a foreign conversation is ignored."""
        for conversation_id, seq_no in acks.items():
            self._record(conversation_id, user_id, seq_no, 0)
        self._start()

    def read(self, user_id: str, conversation_id: str, seq_no: int) -> None:
        """Record that the member has read up to here. The table holds it already. Reading implies delivery."""
        self._record(conversation_id, user_id, seq_no, seq_no)
        self._start()

    async def flush(self, *, is_all: bool = True) -> None:
        """Write and push the receipts that wait, now. On a StoreError they wait on."""
        async with self._turn:  # a flush that is under way is finished first: when this one returns, all is written
            while some := self._waiting.take(_TOGETHER, is_all=is_all):
                try:
                    await self._write(some)
                except StoreError:
                    for key, marks in some.items():
                        self._waiting.put(key, *marks)
                    self._untold |= {key for key in some if key in self._waiting}
                    raise
                self._untold -= some.keys()

    def look(self, member_list: MemberList, *, but: str) -> Call[tuple[int, int] | None]:
        """`lowest` as a call to be run beside others. None: COLD, ask `lowest`."""
        return self._receipt_marks.look(member_list, but=but)

    async def lowest(self, member_list: MemberList, *, but: str) -> tuple[int, int]:
        """(delivered, read): what all members other than `but` have."""
        return (0, 0) if member_list.is_unanswered(but) else await self._receipt_marks.lowest(member_list, but=but)

    async def standing(self, member_list: MemberList, user_id: str, read_seq: int) -> tuple[int, int]:
        """Return `lowest` for a member who comes back, having read up to here.

        A read mark is in the table before it becomes a receipt, and the node may have died between the two. So the
        marks are raised again when the member comes back.
        """
        if read_seq > 0:
            conversation_id = member_list.head.conversation_id
            raises = [(conversation_id, user_id, read_seq, read_seq)]
            if is_large(member_list):
                await self._receipt_marks.raise_many(member_list, raises)
                return await self.lowest(member_list, but=user_id)
            moved = await self._receipt_marks.raise_all(raises, {conversation_id: member_list})
            if moved[0].before is not None:  # otherwise the marks were built from the tables, and nothing is new
                await self._push(raises, moved, {conversation_id: member_list})
        return await self.lowest(member_list, but=user_id)

    async def of_message(
        self, user_id: str, conversation_id: str, seq_no: int
    ) -> tuple[list[str], list[str], list[str]]:
        """Return (read, delivered, pending): each member but the sender once, at the furthest state."""
        member_list = await self._access.authorize(user_id, conversation_id, "read")
        if seq_no <= member_list.visible_after(user_id):
            raise NotFound("no such message")
        sender_id = await self._sender(conversation_id, seq_no)
        marks = await self._receipt_marks.marks(member_list)
        if member_list.is_unanswered(user_id):
            marks = dict.fromkeys(marks, (0, 0))
        states: tuple[list[str], list[str], list[str]] = ([], [], [])
        for member_id in sorted(member_list.members):
            if member_id != sender_id:
                delivered, read = marks[member_id]
                states[0 if read >= seq_no else 1 if delivered >= seq_no else 2].append(member_id)
        return states

    # --- writing ------------------------------------------------------------------------------------

    def _record(self, conversation_id: str, user_id: str, delivered: int, read: int) -> None:
        """Queue a receipt. The list in memory decides the queue, and drops the receipts of strangers."""
        key, member_list = (conversation_id, user_id), self._access.cached(conversation_id)
        if member_list is None:
            self._waiting.put_unknown(key, delivered, read)
        elif user_id not in member_list.members:
            return
        elif is_large(member_list):
            self._waiting.put_large(key, delivered, read)
        else:
            self._waiting.put(key, delivered, read)

    def _start(self) -> None:
        if self._waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write_later(), name="receipts")

    async def _write_later(self) -> None:
        while self._waiting:
            await asyncio.sleep(RECEIPT_WRITE_S)
            self._waiting.begin_pass()
            try:
                await self.flush(is_all=False)
            except StoreError as error:
                log.info("receipts wait", extra={"op": "receipts", "cause": str(error)})

    async def _write(self, waiting: Waiting) -> None:
        member_lists = await self._member_lists({conversation_id for conversation_id, _ in waiting})
        heads = await self._conversations.heads(member_lists)
        raises = [
            (id_, user_id, min(delivered, heads[id_].head), min(read, heads[id_].head))
            for (id_, user_id), (delivered, read) in waiting.items()
            if id_ in heads and user_id in member_lists[id_].members and min(delivered, heads[id_].head) > 0
        ]
        large = {id_: member_list for id_, member_list in member_lists.items() if is_large(member_list)}
        for id_, member_list in large.items():
            await self._write_large(member_list, [one for one in raises if one[0] == id_])
        await self._write_small([one for one in raises if one[0] not in large], member_lists)

    async def _write_large(self, member_list: MemberList, raises: list[Raise]) -> None:
        """Store the marks of a large conversation. A read mark is in the table with its cursor already."""
        if not raises:
            return
        unstored = [(id_, user_id, delivered) for id_, user_id, delivered, read in raises if delivered > read]
        await self._statuses.deliver(unstored)
        self._receipts_stored(raises)
        await self._uncount(raises)
        await self._summaries.push(member_list, raises)

    async def _uncount(self, raises: Sequence[Raise]) -> None:
        await self._unread.delivered([(id_, user_id, delivered) for id_, user_id, delivered, _ in raises])

    async def _write_small(self, raises: list[Raise], member_lists: Mapping[str, MemberList]) -> None:
        if not raises:
            return
        fresh = await self._statuses.deliver([(id_, user_id, delivered) for id_, user_id, delivered, _ in raises])
        self._receipts_stored(raises)
        await self._uncount(raises)
        moved = zip(raises, await self._receipt_marks.raise_all(raises, member_lists), strict=True)
        await self._push(raises, [self._news(one, now, one[:2] in fresh) for one, now in moved], member_lists)

    def _news(self, one: Raise, now: Moved, is_fresh: bool) -> Moved:
        """Return the move that was not pushed yet. The mark was in the tables before it became a receipt, so a build of
        the marks meanwhile took it from there and pushed nothing. `is_fresh`: the delivered mark moved in the
        tables; a read mark always did."""
        conversation_id, user_id, delivered, read = one
        if now.before is None or one[:2] in self._untold:
            return now._replace(before=None)
        if self._router.has_pushed(Receipt(conversation_id, user_id, now.delivered, now.read)):
            return now
        before_delivered, before_read = now.before
        if is_fresh and before_delivered >= delivered:
            before_delivered = 0
        if 0 < read <= before_read:
            before_read = 0
        return now._replace(before=(before_delivered, before_read))

    async def _member_lists(self, conversation_ids: set[str]) -> dict[str, MemberList]:
        """Return the current member lists of those that exist."""
        found = await asyncio.gather(*(self._access.fresh(id_) for id_ in conversation_ids))
        return {
            id_: member_list
            for id_, member_list in zip(conversation_ids, found, strict=True)
            if member_list is not None
        }

    # --- pushing ------------------------------------------------------------------------------------

    async def _push(
        self, raises: Sequence[Raise], moved: Sequence[Moved], member_lists: Mapping[str, MemberList]
    ) -> None:
        """Push receipts to the senders of newly delivered or read messages, reading the log once per conversation.

        A sender who was removed gets nothing."""
        news: dict[str, dict[str, Moved]] = {}
        for (conversation_id, user_id, _, _), now in zip(raises, moved, strict=True):
            if now.before != (now.delivered, now.read):
                news.setdefault(conversation_id, {})[user_id] = now
        for conversation_id, members in news.items():
            entries = await self._concerned(conversation_id, members)
            present = member_lists[conversation_id].members
            for user_id, now in members.items():
                if present[user_id].is_requested:
                    continue  # a stranger learns nothing
                senders = {
                    entry.sender_id
                    for after, up_to in _stretches(now)
                    for entry in entries
                    if after < entry.seq_no <= up_to and entry.sender_id in present
                }
                for sender_id in senders - {user_id, None}:
                    assert sender_id is not None
                    self._router.push(sender_id, Receipt(conversation_id, user_id, now.delivered, now.read))

    async def _concerned(self, conversation_id: str, members: Mapping[str, Moved]) -> list[Entry]:
        """Return the messages in the stretches that marks went over; of a long stretch the latest."""
        entries: list[Entry] = []
        for after, up_to in _merged([stretch for now in members.values() for stretch in _stretches(now)]):
            before = up_to + 1
            while before > after + 1 and len(entries) < RECEIPT_ENTRIES_MAX:
                page = await self._messages.page(
                    conversation_id, after=after, before=before, limit=PAGE_MAX, newest_first=True
                )
                entries += page
                before = page[-1].seq_no if len(page) == PAGE_MAX else 0
        return [entry for entry in entries if entry.bumps]

    async def _sender(self, conversation_id: str, seq_no: int) -> str | None:
        entries = await self._messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        if not entries:
            raise NotFound("no such message")
        return entries[0].sender_id


def _stretches(now: Moved) -> list[tuple[int, int]]:
    """Return (after, up to) of each mark that moved. Where the earlier marks are not known, all is pushed again."""
    before = now.before or (0, 0)
    return [(old, new) for old, new in zip(before, (now.delivered, now.read), strict=True) if new > old]


def _merged(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the latest part of each stretch, the newest first, and nothing twice."""
    merged: list[tuple[int, int]] = []
    latest = [(max(old, new - RESUME_ENTRIES_MAX), new) for old, new in stretches]
    for after, up_to in sorted(latest, key=itemgetter(1), reverse=True):
        if merged and up_to >= merged[-1][0]:
            after, up_to = min(after, merged[-1][0]), max(up_to, merged.pop()[1])
        merged.append((after, up_to))
    return merged
