"""Receipts: how far each member's devices have received and read. They only go forward.

A receipt is the word of a client; that an entry was routed is none. message_status holds the marks. Reading moves both
marks (unread.py stores them with the cursor and calls `read`); `message.delivered` moves the delivered mark alone. Both
are coalesced: the last value per member and conversation is written, then pushed as `receipt` to the senders that it
concerns. A receipt that a store refuses for the moment waits. A client is answered when its receipts are written: one
without an answer sends them again, so the death of a node loses none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from tidings.bounds import PAGE_MAX, RECEIPT_ENTRIES_MAX, RECEIPT_WRITE_S, RESUME_ENTRIES_MAX
from tidings.clock import Clock
from tidings.errors import NotFound, StoreError, Throttled
from tidings.messaging.access import Access, MemberList
from tidings.messaging.reading.receipt_marks import Moved, Raise, ReceiptMarks
from tidings.messaging.reading.receipt_summaries import ReceiptSummaries, is_large
from tidings.messaging.reading.waiting_receipts import Answer, Taken, Waiting, WaitingReceipts
from tidings.messaging.unread.unread import Unread
from tidings.model import Entry, Status
from tidings.pushes import Receipt
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Call
from tidings.stores.tables.ports import Conversations, Messages, Statuses
from tidings.tasks import Listeners, attempt, cancel

log = logging.getLogger("tidings.receipts")
_TOGETHER = 500  # receipts written in one go


class Times(NamedTuple):
    """When a member's marks came to the message or beyond it, at the latest. None: not yet, or not known."""

    delivered_ms: int | None
    read_ms: int | None


class MessageReceipts(NamedTuple):
    read: list[str]
    delivered: list[str]
    pending: list[str]
    times: dict[str, Times]
    next_cursor: str | None = None  # the last user_id of the page, where more members follow


@dataclass(eq=False, repr=False, kw_only=True)
class Receipts:
    access: Access
    messages: Messages
    statuses: Statuses
    conversations: Conversations
    unread: Unread
    receipt_marks: ReceiptMarks
    router: Router
    receipts_stored: Listeners[[Sequence[Raise]]]
    clock: Clock

    def __post_init__(self) -> None:
        self._summaries = ReceiptSummaries(self.messages, self.receipt_marks, self.router)
        self._waiting = WaitingReceipts()
        self._untold: set[tuple[str, str]] = set()  # of these: perhaps raised, and no receipt was pushed
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False
        self._turn = asyncio.Lock()

    def delivered(self, user_id: str, acks: dict[str, int], tell: Callable[[bool], None] | None = None) -> None:
        """Record that a device has everything up to these numbers. Never blocks; a foreign conversation is ignored.

        `tell` is called once: with True when all are written and pushed, with False when a store refused or too many
        wait."""
        answer = Answer(len(acks), tell) if tell is not None and acks else None
        for conversation_id, seq_no in acks.items():
            self._record(conversation_id, user_id, seq_no, 0, answer)
        self._start()
        if tell is not None and not acks:
            tell(True)

    def read(self, user_id: str, conversation_id: str, seq_no: int) -> None:
        """Record that the member has read up to here. The table holds it already. Reading implies delivery."""
        self._record(conversation_id, user_id, seq_no, seq_no)
        self._start()

    async def flush(self, *, is_all: bool = True) -> None:
        """Write and push the receipts that wait, now. On a StoreError they wait on."""
        async with self._turn:  # a flush that is under way is finished first: when this one returns, all is written
            while (taken := self._waiting.take(_TOGETHER, is_all=is_all)).marks:
                await self._write_taken(taken)

    async def close(self) -> None:
        """End the task that writes. A client whose receipts were not written sends them again, to another node."""
        self._is_closed = True
        await cancel(self._writing)

    async def _write_taken(self, taken: Taken) -> None:
        """Write receipts that were taken, or put them back. A conversation that is throttled holds up no other.

        A mistake of ours would come again with the same receipts, so they are refused: the client sends them again."""
        try:
            await self._write(taken.marks)
        except StoreError as error:
            self._untold |= taken.marks.keys()
            if isinstance(error, Throttled) and len(parts := taken.apart()) > 1:
                await self._write_apart(parts)
                return
            for key, marks in taken.marks.items():
                self._waiting.put(key, *marks)
            self._untold -= {key for key in taken.marks if key not in self._waiting}
            taken.settle(False)
            raise
        except Exception:
            if len(parts := taken.apart()) > 1:
                await self._write_apart(parts)
                return
            log.exception("receipts failed", extra={"op": "receipts", "conversation_id": next(iter(taken.marks))[0]})
            self._untold -= taken.marks.keys()
            taken.settle(False)
            return
        self._untold -= taken.marks.keys()
        taken.settle(True)

    async def _write_apart(self, parts: Sequence[Taken]) -> None:
        outcomes = await asyncio.gather(*(attempt(self._write_taken(part)) for part in parts))
        for error in outcomes:
            if error is not None:
                raise error

    def look(self, member_list: MemberList, *, but: str) -> Call[tuple[int, int] | None]:
        """`lowest` as a call to be run beside others. None: COLD, ask `lowest`."""
        return self.receipt_marks.look(member_list, but=but)

    async def lowest(self, member_list: MemberList, *, but: str) -> tuple[int, int]:
        """(delivered, read): what all members other than `but` have."""
        if member_list.head.large_ms or member_list.is_unanswered(but):
            return 0, 0  # nobody waits until all of a large conversation have read
        return await self.receipt_marks.lowest(member_list, but=but)

    async def standing(self, member_list: MemberList, user_id: str, read_seq: int) -> tuple[int, int]:
        """Return `lowest` for a member who comes back, having read up to here.

        A read mark is in the table before it becomes a receipt, and the node may have died between the two. So the
        marks are raised again when the member comes back.
        """
        if read_seq > 0 and not member_list.head.large_ms:
            conversation_id = member_list.head.conversation_id
            raises = [(conversation_id, user_id, read_seq, read_seq)]
            if is_large(member_list):
                await self.receipt_marks.raise_many(member_list, raises)
                return await self.lowest(member_list, but=user_id)
            moved = await self.receipt_marks.raise_all(raises, {conversation_id: member_list})
            if moved[0].before is not None:  # otherwise the marks were built from the tables, and nothing is new
                await self._push(raises, moved, {conversation_id: member_list})
        return await self.lowest(member_list, but=user_id)

    async def of_message(
        self, user_id: str, conversation_id: str, seq_no: int, *, after_id: str = "", limit: int | None = None
    ) -> MessageReceipts:
        """Return each member but the sender once, at the furthest state.

        Of a large conversation, or with a place or a limit, it is a page of the members by user_id."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        if seq_no <= member_list.visible_after(user_id):
            raise NotFound("no such message")
        sender_id = await self._sender(conversation_id, seq_no)
        if member_list.is_unanswered(user_id):
            return MessageReceipts([], [], sorted(member_list.members.keys() - {sender_id}), {})
        next_cursor: str | None = None
        if member_list.head.large_ms or after_id or limit is not None:
            count = min(limit or PAGE_MAX, PAGE_MAX)
            found = await self.conversations.members_after(conversation_id, after_id=after_id, limit=count + 1)
            statuses = await self.receipt_marks.statuses_of(conversation_id, found[:count])
            next_cursor = found[count - 1].user_id if len(found) > count else None
        else:
            statuses = await self.receipt_marks.statuses(member_list)
        return _receipts(statuses, sender_id, seq_no)._replace(next_cursor=next_cursor)

    # --- writing ------------------------------------------------------------------------------------

    def _record(
        self, conversation_id: str, user_id: str, delivered: int, read: int, answer: Answer | None = None
    ) -> None:
        """Queue a receipt. The list in memory decides the queue; it may be too old to know the member."""
        key, member_list = (conversation_id, user_id), self.access.cached(conversation_id)
        if member_list is None or user_id not in member_list.members:
            self._waiting.put_unknown(key, delivered, read, answer)
        elif is_large(member_list):
            self._waiting.put_large(key, delivered, read, answer)
        else:
            self._waiting.put(key, delivered, read, answer)

    def _start(self) -> None:
        if (self._writing is None or self._writing.done()) and self._waiting and not self._is_closed:
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
        heads = await self.conversations.heads(member_lists)
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
        await self.statuses.deliver(unstored, self.clock.now_ms())
        self.receipts_stored(raises)
        await self._uncount(raises)
        if not member_list.head.large_ms:
            await self._summaries.push(member_list, raises)

    async def _uncount(self, raises: Sequence[Raise]) -> None:
        """Make the counts follow. Those of a read mark have followed it already."""
        acks = [(id_, user_id, delivered) for id_, user_id, delivered, read in raises if delivered > read]
        if acks:
            await self.unread.delivered(acks)

    async def _write_small(self, raises: list[Raise], member_lists: Mapping[str, MemberList]) -> None:
        if not raises:
            return
        marks = [(id_, user_id, delivered) for id_, user_id, delivered, _ in raises]
        fresh = await self.statuses.deliver(marks, self.clock.now_ms())
        self.receipts_stored(raises)
        # Both ask the keyspace, and share its round trip.
        raised, _ = await asyncio.gather(self.receipt_marks.raise_all(raises, member_lists), self._uncount(raises))
        moved = zip(raises, raised, strict=True)
        await self._push(raises, [self._news(one, now, one[:2] in fresh) for one, now in moved], member_lists)

    def _news(self, one: Raise, now: Moved, is_fresh: bool) -> Moved:
        """Return the move that was not pushed yet. The mark was in the tables before it became a receipt, so a build of
        the marks meanwhile took it from there and pushed nothing. `is_fresh`: the delivered mark moved in the
        tables; a read mark always did."""
        conversation_id, user_id, delivered, read = one
        if now.before is None or one[:2] in self._untold:
            return now._replace(before=None)
        if self.router.has_pushed(Receipt(conversation_id, user_id, now.delivered, now.read)):
            return now
        before_delivered, before_read = now.before
        if is_fresh and before_delivered >= delivered:
            before_delivered = 0
        if 0 < read <= before_read:
            before_read = 0
        return now._replace(before=(before_delivered, before_read))

    async def _member_lists(self, conversation_ids: set[str]) -> dict[str, MemberList]:
        """Return the current member lists of those that exist."""
        found = await asyncio.gather(*(self.access.fresh(id_) for id_ in conversation_ids))
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
                for sender_id in _senders(now, entries, present) - {user_id}:
                    self.router.push(sender_id, Receipt(conversation_id, user_id, now.delivered, now.read))

    async def _concerned(self, conversation_id: str, members: Mapping[str, Moved]) -> list[Entry]:
        """Return the messages in the stretches that marks went over; of a long stretch the latest."""
        entries: list[Entry] = []
        for after, up_to in _merged([stretch for now in members.values() for stretch in _stretches(now)]):
            before = up_to + 1
            while before > after + 1 and len(entries) < RECEIPT_ENTRIES_MAX:
                page = await self.messages.page(
                    conversation_id, after=after, before=before, limit=PAGE_MAX, newest_first=True
                )
                entries += page
                before = page[-1].seq_no if len(page) == PAGE_MAX else 0
        return [entry for entry in entries if entry.bumps]

    async def _sender(self, conversation_id: str, seq_no: int) -> str | None:
        entries = await self.messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        if not entries:
            raise NotFound("no such message")
        return entries[0].sender_id


def _receipts(statuses: Mapping[str, Status], sender_id: str | None, seq_no: int) -> MessageReceipts:
    found = MessageReceipts([], [], [], {})
    for member_id, status in sorted(statuses.items()):
        if member_id != sender_id:
            is_read, is_delivered = status.read_seq >= seq_no, status.delivered_seq >= seq_no
            (found.read if is_read else found.delivered if is_delivered else found.pending).append(member_id)
            if (known := _times(status, seq_no)) != (None, None):
                found.times[member_id] = known
    return found


def _times(status: Status, seq_no: int) -> Times:
    """Return the times of a message: the earliest known of each mark. A message is delivered before it is read."""
    places = (*status.read_before, (status.read_seq, status.read_ms))
    read_ms = next((at_ms for mark, at_ms in places if mark >= seq_no and at_ms), None)
    delivered_ms = (status.delivered_ms or None) if status.delivered_seq >= seq_no else None
    return Times(min(delivered_ms, read_ms) if delivered_ms and read_ms else delivered_ms, read_ms)


def _stretches(now: Moved) -> list[tuple[int, int]]:
    """Return (after, up to) of each mark that moved. Where the earlier marks are not known, all is pushed again."""
    before = now.before or (0, 0)
    return [(old, new) for old, new in zip(before, (now.delivered, now.read), strict=True) if new > old]


def _senders(now: Moved, entries: Sequence[Entry], present: Collection[str]) -> set[str]:
    """Return the members whom a move concerns. Of a long stretch not all entries are known: then it is everybody."""
    stretches = _stretches(now)
    if any(up_to - after > RESUME_ENTRIES_MAX for after, up_to in stretches):
        return set(present)
    return {
        entry.sender_id
        for after, up_to in stretches
        for entry in entries
        if after < entry.seq_no <= up_to and entry.sender_id is not None and entry.sender_id in present
    }


def _merged(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the latest part of each stretch, the newest first, and nothing twice."""
    merged: list[tuple[int, int]] = []
    latest = [(max(old, new - RESUME_ENTRIES_MAX), new) for old, new in stretches]
    for after, up_to in sorted(latest, key=itemgetter(1), reverse=True):
        if merged and up_to >= merged[-1][0]:
            after, up_to = min(after, merged[-1][0]), max(up_to, merged.pop()[1])
        merged.append((after, up_to))
    return merged
