"""Who has not acknowledged within the grace time: from a send to a pending row and a push, whatever dies meanwhile.

Before a send is acknowledged its conversation is recorded as due (`Due.calls`, in the round trip of the index). When it
is due any node looks: entries older than the grace time that a member's devices have not acknowledged become one row in
pending_deliveries and, for devices that do not have them, a push job. The record is taken off only when nothing newer
is left, and only if no send asked again meanwhile. A receipt clears the row (`Due.received`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Problem, StoreError
from tidings.messaging.access import Access, Roster
from tidings.messaging.rebuild import is_in
from tidings.model import Entry, Member, Status
from tidings.model_push import Waiting
from tidings.stores.calls import Call, Keyspace, each_alone
from tidings.stores.ports import Messages, Statuses
from tidings.stores.ports_push import Pending
from tidings.stores.scripts_push import Claimed, PushScripts, due_shard

log = logging.getLogger("tidings.pending")


class Tables(Messages, Statuses, Protocol):
    """What is read to find who has not acknowledged."""


class Tells(Protocol):
    async def tell(self, conversation_id: str, newest: Mapping[str, int]) -> None: ...


class Due:
    def __init__(
        self,
        *,
        keyspace: Keyspace,
        scripts: PushScripts,
        access: Access,
        tables: Tables,
        pending: Pending,
        notify: Tells,
        clock: Clock,
        grace_s: float,
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._access = access
        self._tables = tables
        self._pending = pending
        self._notify = notify
        self._clock = clock
        self._grace_ms = int(grace_s * 1000)
        self._recorded: dict[str, int] = {}  # conversation -> sent_ms of the message it was last recorded for
        self._recent: dict[str, int] = {}  # conversation -> when we last had to do with it, ms
        self._examined: dict[str, int] = {}  # conversation -> everything up to this seq was looked at
        self._births: dict[int, str] = {}  # shard -> the life of its set that we know
        self._lost: set[str] = set()  # conversations to record again
        self._received: dict[tuple[str, str], int] = {}  # (conversation, user) -> delivered, not yet cleared
        self._task: asyncio.Task[None] | None = None

    # --- what the send path and receipts call -----------------------------------------------------

    def calls(self, sent: Iterable[tuple[str, int]]) -> list[Call[object]]:
        """What records (conversation_id, sent_ms) as due: to be run before the acknowledgement, after the store.

        Nothing is taken off before a message in it is older than the grace time. So within half of that, by a
        generous guess at how far clocks differ, one record serves for all messages of a conversation.
        """
        now_ms, half_ms = self._clock.now_ms(), self._grace_ms // 2
        by_shard: dict[int, list[tuple[int, str]]] = {}
        for conversation_id, sent_ms in sent:
            self._note(conversation_id, now_ms)
            if now_ms - self._recorded.get(conversation_id, 0) >= half_ms:
                pair = (sent_ms + self._grace_ms, conversation_id)
                by_shard.setdefault(due_shard(conversation_id), []).append(pair)
        return [self._record(shard, pairs) for shard, pairs in by_shard.items()]

    def received(self, raises: Iterable[tuple[str, str, int, int]]) -> None:
        """(conversation_id, user_id, delivered, read), after they were stored: nothing up to them waits any more.

        Never blocks. What is forgotten here (a crash, too many) is found by the next expiry.
        """
        for conversation_id, user_id, delivered, read in raises:
            key = (conversation_id, user_id)
            if key in self._received or len(self._received) < bounds.RECEIPTS_WAITING_MAX:
                self._received[key] = max(delivered, read, self._received.get(key, 0))

    async def flush(self) -> None:
        """Clear what was received, now."""
        received, self._received = self._received, {}
        if received:
            await self._pending.clear_waiting([(*key, seq_no) for key, seq_no in received.items()])

    def epoch_changed(self, old: str, new: str) -> None:
        """The keyspace may have lost its latest: what we had to do with lately is recorded again."""
        self._lose(list(self._recent))

    def _record(self, shard: int, pairs: Sequence[tuple[int, str]]) -> Call[object]:
        def recorded(reply: object) -> None:
            # Only now that the server has answered may later messages rely on it.
            for due_ms, conversation_id in pairs:
                self._recorded[conversation_id] = due_ms - self._grace_ms

        return self._scripts.due_add(shard, pairs, recorded)

    def _note(self, conversation_id: str, now_ms: int) -> None:
        self._recent.pop(conversation_id, None)
        self._recent[conversation_id] = now_ms
        if len(self._recent) > bounds.DUE_RECENT_MAX:
            del self._recent[next(iter(self._recent))]

    def _lose(self, conversation_ids: Sequence[str]) -> None:
        self._lost.update(conversation_ids)
        for conversation_id in conversation_ids:
            self._recorded.pop(conversation_id, None)
            self._examined.pop(conversation_id, None)

    # --- the look ---------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="due")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self.flush()
        except StoreError as error:
            log.info("pending rows are cleared by the next expiry: %s", error)

    async def look(self) -> int:
        """Everything that is due now, some of each shard; how many conversations it were."""
        await self._record_lost()
        hold_ms = int(bounds.DUE_HOLD_S * 1000) + self._grace_ms  # later than any record made while we hold it
        claim = self._scripts.due_claim
        shards = range(bounds.DUE_SHARDS)
        calls = [claim(shard, limit=bounds.DUE_CLAIM_MAX, hold_ms=hold_ms) for shard in shards]
        found = await each_alone(self._keyspace, calls)
        gate, claimed_s = asyncio.Semaphore(bounds.DUE_PASSES_MAX), self._clock.monotonic_s()
        works = []
        for shard, claimed in found.items():
            self._check_birth(shard, claimed.birth)
            works += [self._pass(gate, claimed_s, shard, claimed, id_) for id_ in claimed.conversation_ids]
        await asyncio.gather(*works)
        return len(works)

    async def _run(self) -> None:
        expire_s = self._clock.monotonic_s()
        while True:
            try:
                await self.flush()
                busy = await self.look()
                if self._clock.monotonic_s() >= expire_s:
                    await self._pending.expire_waiting(self._clock.now_ms())
                    expire_s = self._clock.monotonic_s() + bounds.WAITING_EXPIRE_S
                    self._forget_old()
                if busy >= bounds.DUE_CLAIM_MAX:
                    continue
            except StoreError as error:
                log.info("what is due waits for the stores: %s", error)
            except Exception:
                log.exception("looking at what is due failed")  # and is tried again: nobody else would start it
            await asyncio.sleep(bounds.DUE_LOOK_S)

    def _check_birth(self, shard: int, birth: str) -> None:
        """Another life of the set than the one we know: it was lost, and with it what we recorded."""
        if self._births.setdefault(shard, birth) != birth:
            self._births[shard] = birth
            self._lose([id_ for id_ in self._recent if due_shard(id_) == shard])

    async def _record_lost(self) -> None:
        lost, self._lost = self._lost, set()
        if not lost:
            return
        old_ms = self._clock.now_ms() - self._grace_ms  # due at once; the pass itself sees what is newer
        try:
            await self._keyspace.run(self.calls((id_, old_ms) for id_ in lost))
        except StoreError:
            self._lost |= lost
            raise

    def _forget_old(self) -> None:
        after_ms = self._clock.now_ms() - 2 * self._grace_ms
        self._recent = {id_: at_ms for id_, at_ms in self._recent.items() if at_ms >= after_ms}
        self._recorded = {id_: sent_ms for id_, sent_ms in self._recorded.items() if sent_ms >= after_ms}

    # --- one conversation -------------------------------------------------------------------------

    async def _pass(
        self, gate: asyncio.Semaphore, claimed_s: float, shard: int, claimed: Claimed, conversation_id: str
    ) -> None:
        """A pass that fails leaves the conversation held: it is due again a little later, for any node."""
        try:
            async with gate, asyncio.timeout(bounds.DUE_PASS_S):
                if self._clock.monotonic_s() - claimed_s > bounds.DUE_HOLD_S - bounds.DUE_PASS_S:
                    return  # it might not end while we hold it, and a record made after that would be taken off
                next_ms = await self._examine(conversation_id, claimed.now_ms)
                settle = self._scripts.due_settle(shard, conversation_id, until_ms=claimed.until_ms, next_ms=next_ms)
                await self._keyspace.one(settle)
        except (StoreError, Problem, TimeoutError) as error:
            log.warning("a conversation that is due is looked at later: %s", error or "out of time")
        except Exception:
            log.exception("looking at a conversation that is due failed")

    async def _examine(self, conversation_id: str, now_ms: int) -> int:
        """Find who lacks what; answers when to look again, 0 when everything there was looked at."""
        roster = await self._access.fresh(conversation_id)
        if roster is None:
            return 0
        tables = self._tables
        top, old_seq = await asyncio.gather(
            tables.top(conversation_id), tables.seq_at(conversation_id, now_ms - self._grace_ms)
        )
        floor = self._examined.get(conversation_id, old_seq - bounds.DUE_ENTRIES_MAX)
        messages = await self._newest_messages(conversation_id, floor, old_seq)
        if messages:
            self._note(conversation_id, now_ms)
            await self._find_late(roster, messages, now_ms)
        self._set_examined(conversation_id, old_seq)
        return 0 if top.seq_no <= old_seq else top.sent_ms + self._grace_ms

    async def _newest_messages(self, conversation_id: str, floor: int, up_to_seq: int) -> list[Entry]:
        """The newest message and the newest of another sender: for each member one of them is the newest of others."""
        found: list[Entry] = []
        before = up_to_seq + 1
        while len(found) < 2 and before > max(floor, 0) + 1:
            entries = await self._tables.page(
                conversation_id, after=max(floor, 0), before=before, limit=bounds.PAGE_DEFAULT, newest_first=True
            )
            for entry in entries:
                is_told = entry.kind == "message" and not entry.is_deleted
                if is_told and len(found) < 2 and entry.sender_id not in {one.sender_id for one in found}:
                    found.append(entry)
            before = entries[-1].seq_no if entries else 0
        return found

    async def _find_late(self, roster: Roster, messages: Sequence[Entry], now_ms: int) -> None:
        conversation_id = roster.head.conversation_id
        statuses = {one.user_id: one for one in await self._tables.of_conversation(conversation_id)}
        newest: dict[str, int] = {}
        for user_id, member in roster.members.items():
            entry = next((one for one in messages if one.sender_id != user_id), None)
            if entry is not None and entry.seq_no > max(member.joined_seq, roster.visible_after(user_id)):
                newest[user_id] = entry.seq_no
        marks = {user_id: _delivered(roster.members[user_id], statuses.get(user_id)) for user_id in newest}
        late = {user_id: seq_no for user_id, seq_no in newest.items() if seq_no > marks[user_id]}
        unread = {
            user_id: seq_no
            for user_id, seq_no in newest.items()
            if not _is_read(roster.members[user_id], statuses.get(user_id), seq_no)
        }
        # The job first: if we die between the two, the next pass finds no row and queues it again.
        await self._notify.tell(conversation_id, unread)
        await self._put_late(conversation_id, late, marks, now_ms)

    async def _put_late(
        self, conversation_id: str, late: Mapping[str, int], marks: Mapping[str, int], now_ms: int
    ) -> None:
        if not late:
            return
        known = await self._pending.waiting(conversation_id, late)
        rows = [
            Waiting(
                user_id=user_id,
                conversation_id=conversation_id,
                first_seq=marks[user_id] + 1,
                last_seq=seq_no,
                since_ms=now_ms,
                expires=now_ms // 1000 + bounds.WAITING_TTL_S,
            )
            for user_id, seq_no in late.items()
            if user_id not in known or known[user_id].last_seq < seq_no
        ]
        if rows:
            await self._pending.put_waiting(rows)
            await self._clear_delivered(conversation_id, {row.user_id for row in rows})

    async def _clear_delivered(self, conversation_id: str, user_ids: set[str]) -> None:
        """A receipt that came between our look and our rows found nothing to clear: so it is done for it here."""
        statuses = await self._tables.of_conversation(conversation_id)
        marks = [
            (conversation_id, one.user_id, max(one.delivered_seq, one.read_seq))
            for one in statuses
            if one.user_id in user_ids
        ]
        await self._pending.clear_waiting(marks)

    def _set_examined(self, conversation_id: str, seq_no: int) -> None:
        self._examined.pop(conversation_id, None)
        self._examined[conversation_id] = seq_no
        if len(self._examined) > bounds.CONVERSATIONS_CACHED_MAX:
            del self._examined[next(iter(self._examined))]


def _delivered(member: Member, status: Status | None) -> int:
    """What the member's devices have, together."""
    if status is None:
        return member.joined_seq
    return max(member.joined_seq, status.delivered_seq, status.read_seq)


def _is_read(member: Member, status: Status | None, seq_no: int) -> bool:
    """The status of an earlier membership says nothing about this one."""
    if status is None or status.since_seq < member.joined_seq:
        return seq_no <= member.joined_seq
    return status.cursor_seq >= seq_no or is_in(status.ranges, seq_no)
