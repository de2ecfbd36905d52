"""Due conversations: finds members who did not acknowledge within the grace time, whatever process dies meanwhile.

Before a send is acknowledged, its conversation is recorded as due (`calls`, in the round trip of the index). When the
grace time is over any node checks it: entries that the devices of a member have not acknowledged become one row in
pending_deliveries and, for devices that do not have them, a push job. The record is removed only when no newer entry is
left, and only if no send recorded it again meanwhile. A receipt clears the row (`received`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Problem, StoreError, cause_of
from tidings.messaging.access import Access, MemberList
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.push.due_threads import DueThreads
from tidings.messaging.push.worker import PushWorker
from tidings.messaging.threads.records import is_thread_id
from tidings.messaging.unread.line import LOUD
from tidings.messaging.unread.ranges import is_in
from tidings.model import EVERYBODY, Entry, Member, Status
from tidings.stores.keyspace.call import Call, Keyspace, each_alone
from tidings.stores.keyspace.scripts.push import Claimed, PushScripts, due_shard
from tidings.stores.tables.ports import Pending, Tables
from tidings.stores.tables.records import of_conversation
from tidings.stores.tables.values import Waiting
from tidings.tasks import Loop, Recent

log = logging.getLogger("tidings.pending")
_CALLED_AT_ONCE = 1_000  # members who are looked at in one turn of the event loop: about a millisecond


@dataclass(eq=False, repr=False, kw_only=True)
class DueConversations:
    keyspace: Keyspace
    scripts: PushScripts
    access: Access
    blocks: Blocks
    tables: Tables
    pending: Pending
    worker: PushWorker
    clock: Clock
    grace_s: float

    def __post_init__(self) -> None:
        self._grace_ms = int(self.grace_s * 1000)
        self._recorded: dict[str, int] = {}  # conversation -> sent_ms of the message it was last recorded for
        self._recent = Recent[str, int](bounds.DUE_RECENT_MAX)  # conversation -> time of the last activity here, ms
        self._examined = Recent[str, int](bounds.CONVERSATIONS_CACHED_MAX)  # conversation -> checked up to this seq
        self._births: dict[int, str] = {}  # shard -> the birth of its set that we know
        self._lost: set[str] = set()  # conversations to record again
        self._received: dict[tuple[str, str], int] = {}  # (conversation, user) -> delivered seq, not cleared yet
        self._threads = DueThreads(self.access, self.blocks, self.tables, self.worker, self._grace_ms)
        self._expires_s = 0.0  # the next deletion of old pending rows
        self.loop = Loop("due", lambda: bounds.DUE_LOOK_S, self._step, is_eager=True, at_end=self.flush)

    # --- recording, for sends and receipts --------------------------------------------------------

    def calls(self, sent: Iterable[tuple[str, int]]) -> list[Call[object]]:
        """The calls that record (conversation_id, sent_ms) as due, between the store and the acknowledgement.

        No record is removed before a message of it is older than the grace time. So within half of that time, which
        generously allows for differences between clocks, one record serves all messages of a conversation.
        """
        now_ms, half_ms = self.clock.now_ms(), self._grace_ms // 2
        by_shard: dict[int, list[tuple[int, str]]] = {}
        for conversation_id, sent_ms in sent:
            self._recent.put(conversation_id, now_ms)
            if now_ms - self._recorded.get(conversation_id, 0) >= half_ms:
                pair = (sent_ms + self._grace_ms, conversation_id)
                by_shard.setdefault(due_shard(conversation_id), []).append(pair)
        return [self._record(shard, pairs) for shard, pairs in by_shard.items()]

    def received(self, raises: Iterable[tuple[str, str, int, int]]) -> None:
        """Note stored receipts (conversation_id, user_id, delivered, read): nothing up to them is pending any more.

        Never blocks. The next expiry finds those that a crash or the bound forgets.
        """
        for conversation_id, user_id, delivered, read in raises:
            key = (conversation_id, user_id)
            if key in self._received or len(self._received) < bounds.RECEIPTS_WAITING_MAX:
                self._received[key] = max(delivered, read, self._received.get(key, 0))

    async def flush(self) -> None:
        """Clear the pending rows of the noted receipts."""
        received, self._received = self._received, {}
        if received:
            await self.pending.clear([(*key, seq_no) for key, seq_no in received.items()])

    def epoch_changed(self, old: str, new: str) -> None:
        """The keyspace may have lost its latest writes: record the recently active conversations again."""
        self._lose(list(self._recent))

    def _record(self, shard: int, pairs: Sequence[tuple[int, str]]) -> Call[object]:
        def recorded(reply: object) -> None:
            # Later messages may rely on the record only now that the server has answered.
            for due_ms, conversation_id in pairs:
                self._recorded[conversation_id] = due_ms - self._grace_ms

        return self.scripts.due_add(shard, pairs, recorded)

    def _lose(self, conversation_ids: Sequence[str]) -> None:
        self._lost.update(conversation_ids)
        for conversation_id in conversation_ids:
            self._recorded.pop(conversation_id, None)
            self._examined.pop(conversation_id, None)

    # --- the check --------------------------------------------------------------------------------

    async def check(self) -> int:
        """Check due conversations, some of each shard; returns their number."""
        await self._record_lost()
        hold_ms = int(bounds.DUE_HOLD_S * 1000) + self._grace_ms  # later than any record made while this node holds it
        claim = self.scripts.due_claim
        shards = range(bounds.DUE_SHARDS)
        calls = [claim(shard, limit=bounds.DUE_CLAIM_MAX, hold_ms=hold_ms) for shard in shards]
        found = await each_alone(self.keyspace, calls)
        gate, claimed_s = asyncio.Semaphore(bounds.DUE_PASSES_MAX), self.clock.monotonic_s()
        works = []
        for shard, claimed in found.items():
            self._check_birth(shard, claimed.birth)
            works += [self._pass(gate, claimed_s, shard, claimed, id_) for id_ in claimed.conversation_ids]
        await asyncio.gather(*works)
        return len(works)

    async def _step(self) -> bool:
        await self.flush()  # the next expiry clears rows that this cannot clear
        busy = await self.check()
        if self.clock.monotonic_s() >= self._expires_s:
            await self.pending.expire(self.clock.now_ms())
            self._expires_s = self.clock.monotonic_s() + bounds.WAITING_EXPIRE_S
            self._forget_old()
        return busy >= bounds.DUE_CLAIM_MAX

    def _check_birth(self, shard: int, birth: str) -> None:
        """A set with another birth is a new set: the old one was lost, and with it the records of this node."""
        if self._births.setdefault(shard, birth) != birth:
            self._births[shard] = birth
            self._lose([id_ for id_ in self._recent if due_shard(id_) == shard])

    async def _record_lost(self) -> None:
        lost, self._lost = self._lost, set()
        if not lost:
            return
        old_ms = self.clock.now_ms() - self._grace_ms  # due at once; the pass itself finds newer entries
        try:
            await self.keyspace.run(self.calls((id_, old_ms) for id_ in lost))
        except StoreError:
            self._lost |= lost
            raise

    def _forget_old(self) -> None:
        after_ms = self.clock.now_ms() - 2 * self._grace_ms
        for conversation_id in [id_ for id_, at_ms in self._recent.items() if at_ms < after_ms]:
            del self._recent[conversation_id]
        self._recorded = {id_: sent_ms for id_, sent_ms in self._recorded.items() if sent_ms >= after_ms}

    # --- one conversation -------------------------------------------------------------------------

    async def _pass(
        self, gate: asyncio.Semaphore, claimed_s: float, shard: int, claimed: Claimed, conversation_id: str
    ) -> None:
        """Check one conversation. After a failure it stays held, and is due again a little later for any node."""
        try:
            async with gate, asyncio.timeout(bounds.DUE_PASS_S):
                if self.clock.monotonic_s() - claimed_s > bounds.DUE_HOLD_S - bounds.DUE_PASS_S:
                    return  # it might outlast the hold, and then remove a record that was made after the hold
                next_ms = await self._examine(conversation_id, claimed.now_ms)
                settle = self.scripts.due_settle(shard, conversation_id, until_ms=claimed.until_ms, next_ms=next_ms)
                await self.keyspace.one(settle)
        except (StoreError, Problem, TimeoutError) as error:
            log.warning("due conversation put off", extra=cause_of(error, conversation_id=conversation_id))
        except Exception:
            log.exception("due conversation failed", extra={"conversation_id": conversation_id})

    async def _examine(self, conversation_id: str, now_ms: int) -> int:
        """Find members without an acknowledgement. Returns the time of the next check; 0: every entry was checked.

        The id may be that of a thread: a reply that is in its thread alone is recorded under it.
        """
        if is_thread_id(conversation_id):
            self._recent.put(conversation_id, now_ms)
            return await self._threads.examine(conversation_id, now_ms)
        member_list = await self.access.fresh(conversation_id)
        if member_list is None:
            return 0
        tables = self.tables
        top, old_seq = await asyncio.gather(
            tables.log.top(conversation_id), tables.log.seq_at(conversation_id, now_ms - self._grace_ms)
        )
        floor = self._examined.get(conversation_id, old_seq - bounds.DUE_ENTRIES_MAX)
        if member_list.head.large_ms:
            await self._find_called(member_list, max(floor, 0), old_seq, now_ms)
            self._examined.put(conversation_id, old_seq)
            return 0 if top.seq_no <= old_seq else top.sent_ms + self._grace_ms
        messages = await self._newest_messages(conversation_id, floor, old_seq)
        if messages:
            self._recent.put(conversation_id, now_ms)
            await self._find_late(member_list, messages, now_ms)
        self._examined.put(conversation_id, old_seq)
        return 0 if top.seq_no <= old_seq else top.sent_ms + self._grace_ms

    async def _newest_messages(self, conversation_id: str, floor: int, up_to_seq: int) -> list[Entry]:
        """The newest message and the newest of another sender: one of them is the newest that a member did not send."""
        found: list[Entry] = []
        before, wanted = up_to_seq + 1, 2
        while len(found) < wanted and before > max(floor, 0) + 1:
            entries = await self.tables.log.page(
                conversation_id, after=max(floor, 0), before=before, limit=bounds.PAGE_DEFAULT, newest_first=True
            )
            for entry in entries:
                if entry.counts and len(found) < wanted and entry.sender_id not in {one.sender_id for one in found}:
                    found.append(entry)
                    await self.blocks.load([entry.sender_id])
                    wanted += bool(self.blocks.blockers(entry.sender_id))  # for some members it does not count
            before = entries[-1].seq_no if entries else 0
        return found

    async def _find_called(self, member_list: MemberList, floor: int, up_to_seq: int, now_ms: int) -> None:
        """In a large conversation: members whom a message mentions, and those who want to hear of every message."""
        conversation_id, newest = member_list.head.conversation_id, dict[str, int]()
        posts: dict[str | None, Entry] = {}  # sender -> their newest message
        to_all: dict[str | None, Entry] = {}  # the same of messages to all
        while entries := await self.tables.log.page(
            conversation_id, after=floor, before=up_to_seq + 1, limit=bounds.PAGE_MAX, newest_first=False
        ):
            floor = entries[-1].seq_no
            await self.blocks.load(entry.sender_id for entry in entries)
            for entry in [entry for entry in entries if entry.counts]:
                posts[entry.sender_id] = entry
                if entry.mentions == (EVERYBODY,):
                    to_all[entry.sender_id] = entry
                else:
                    await self._note_called(member_list, entry.mentions, [entry], newest)
        await self.blocks.load(posts)
        await self._note_called(member_list, list(member_list.members) if to_all else (), to_all.values(), newest)
        await self._note_called(member_list, await self._loud(conversation_id), posts.values(), newest)
        if newest:
            self._recent.put(conversation_id, now_ms)
            await self._queue_late(member_list, newest, now_ms)

    async def _note_called(
        self, member_list: MemberList, user_ids: Iterable[str], entries: Collection[Entry], newest: dict[str, int]
    ) -> None:
        """Note for each of the users who is a member the newest of the entries that is for them."""
        latest = sorted(entries, key=lambda entry: entry.seq_no, reverse=True)
        for count, user_id in enumerate(user_ids, 1):
            if count % _CALLED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if (member := member_list.members.get(user_id)) is None:
                continue
            seq_no = next((entry.seq_no for entry in latest if self._is_for(entry, user_id)), 0)
            if seq_no > max(member.joined_seq, member_list.visible_after(user_id), newest.get(user_id, 0)):
                newest[user_id] = seq_no

    async def _loud(self, conversation_id: str) -> set[str]:
        """The members of a large conversation who asked for every message (reading/flags.py)."""
        owner, after, loud = of_conversation(conversation_id), "", set[str]()
        while found := await self.tables.records.page(owner, LOUD, limit=bounds.PAGE_MAX, after=after):
            loud |= {record.name for record in found}
            after = found[-1].name
        return loud

    async def _statuses(self, conversation_id: str, user_ids: Collection[str]) -> dict[str, Status]:
        """The statuses of these members. Of a few they are read one by one: a conversation may have very many."""
        if len(user_ids) > bounds.PAGE_MAX:
            return {one.user_id: one for one in await self.tables.statuses.of_conversation(conversation_id)}
        get = self.tables.statuses.get
        found = await asyncio.gather(*(get(user_id, [conversation_id]) for user_id in user_ids))
        return {one[conversation_id].user_id: one[conversation_id] for one in found if one}

    async def _find_late(self, member_list: MemberList, messages: Sequence[Entry], now_ms: int) -> None:
        newest: dict[str, int] = {}
        for user_id, member in member_list.members.items():
            entry = next((one for one in messages if self._is_for(one, user_id)), None)
            if member.is_requested:
                continue  # a stranger does not ring a phone
            if entry is not None and entry.seq_no > max(member.joined_seq, member_list.visible_after(user_id)):
                newest[user_id] = entry.seq_no
        await self._queue_late(member_list, newest, now_ms)

    async def _queue_late(self, member_list: MemberList, newest: Mapping[str, int], now_ms: int) -> None:
        """Queue a push for each member who has not read their newest message, and note those who do not have it."""
        conversation_id = member_list.head.conversation_id
        statuses = await self._statuses(conversation_id, newest)
        delivered = {user_id: _delivered(member_list.members[user_id], statuses.get(user_id)) for user_id in newest}
        late = {user_id: seq_no for user_id, seq_no in newest.items() if seq_no > delivered[user_id]}
        unread = {
            user_id: seq_no
            for user_id, seq_no in newest.items()
            if not _is_read(member_list.members[user_id], statuses.get(user_id), seq_no)
        }
        # The job comes first: after a crash between the two, the next pass finds no row and queues the job again.
        await self.worker.queue(conversation_id, unread)
        await self._put_late(conversation_id, late, delivered, now_ms)

    def _is_for(self, entry: Entry, user_id: str) -> bool:
        return entry.sender_id != user_id and user_id not in self.blocks.blockers(entry.sender_id)

    async def _put_late(
        self, conversation_id: str, late: Mapping[str, int], delivered: Mapping[str, int], now_ms: int
    ) -> None:
        if not late:
            return
        known = await self.pending.of_conversation(conversation_id, late)
        rows = [
            Waiting(
                user_id=user_id,
                conversation_id=conversation_id,
                first_seq=delivered[user_id] + 1,
                last_seq=seq_no,
                since_ms=now_ms,
                expires=now_ms // 1000 + bounds.WAITING_TTL_S,
            )
            for user_id, seq_no in late.items()
            if user_id not in known or known[user_id].last_seq < seq_no
        ]
        if rows:
            await self.pending.put(rows)
            await self._clear_delivered(conversation_id, {row.user_id for row in rows})

    async def _clear_delivered(self, conversation_id: str, user_ids: set[str]) -> None:
        """A receipt that came between the read and the rows found nothing to clear, so clear its row here."""
        statuses = await self._statuses(conversation_id, user_ids)
        received = [
            (conversation_id, one.user_id, max(one.delivered_seq, one.read_seq))
            for one in statuses.values()
            if one.user_id in user_ids
        ]
        await self.pending.clear(received)


def _delivered(member: Member, status: Status | None) -> int:
    """The seq up to which some device of the member has everything."""
    if status is None:
        return member.joined_seq
    return max(member.joined_seq, status.delivered_seq, status.read_seq)


def _is_read(member: Member, status: Status | None, seq_no: int) -> bool:
    """True: the member has read the entry. The status of an earlier membership does not count."""
    if status is None or status.since_seq < member.joined_seq:
        return seq_no <= member.joined_seq
    return status.cursor_seq >= seq_no or is_in(status.ranges, seq_no)
