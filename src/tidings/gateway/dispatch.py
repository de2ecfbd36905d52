"""Dispatch: a decoded frame becomes a call of a use case, and its result or refusal becomes the answer's bytes.

The limiter is asked here, by class and cost; only `message.send` asks it in its batch. Every exception of a use case
ends as a row of errors.TABLE. Of an unexpected exception only the type and the place reach the log, and the client gets
a reference to that line.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from tidings.bounds import ACKS_PER_SLOT, PAGE_MAX, PAGES_PER_USER_MAX, UNREAD_ROWS_PER_SLOT
from tidings.clock import Clock
from tidings.errors import Close, Internal, Problem, StoreError, StoreUnavailable, cause_of
from tidings.gateway.encode import begun_of, encode_error, encode_ok, history_of, inbox_of, reacted_of, sent_of
from tidings.gateway.fairness import PagesAtOnce, Refusals
from tidings.gateway.folded_acks import Acknowledging, Batch, Marking, Outcome, ReadMoment, Reads
from tidings.messaging.conversations.directory import Directory
from tidings.messaging.lifecycle.expiry import expiring
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.limits.overrides import Overrides
from tidings.messaging.moderation.rules import RuleChanges
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.people.consent import Consent
from tidings.messaging.people.find import FindPeople
from tidings.messaging.presence.live_status import LiveStatus
from tidings.messaging.push.worker import PushWorker
from tidings.messaging.reactions.reactions import ReactionSends
from tidings.messaging.reactions.reactors import Reactors
from tidings.messaging.reading.flags import Flags
from tidings.messaging.reading.history import History
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.reading.resume import Resume
from tidings.messaging.search.search import Search
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.edit import Rewrites
from tidings.messaging.send.lanes import Sends
from tidings.messaging.streaming.streams import Began, Streams
from tidings.messaging.threads.threads import Threads
from tidings.messaging.unread.read_together import ReadTogether
from tidings.model import Content, File, ReadState, Sent
from tidings.operators.active_users import ActiveUsers
from tidings.operators.audit.events import Audit
from tidings.protocol import client_frames as protocol
from tidings.protocol.bodies import Written
from tidings.routing.hub import Connection, Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router

Body = msgspec.Struct | None
Answer = Callable[[bytes | None], None]
PAGES = (protocol.Inbox, protocol.History)

log = logging.getLogger("tidings.gateway")


def problem_of(error: Exception, clock: Clock) -> Problem:
    """The problem that the client gets as an answer. An error that is not the client's is logged."""
    if isinstance(error, Problem | StoreError):
        error.__traceback__ = None  # it holds frames that hold the error: only the garbage collector would free them
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreError):
        log.warning("store unavailable", extra=cause_of(error))
        return StoreUnavailable()
    reference = clock.random_id(6)
    place = [f"{at.filename}:{at.lineno} {at.name}" for at in traceback.extract_tb(error.__traceback__)]
    log.error("unexpected error", extra={"reference": reference, "error": type(error).__name__, "place": place})
    return Internal(f"our mistake; try again, and report reference {reference} if it stays")


@dataclass(frozen=True, slots=True)
class UseCases:
    """The parts of a node that a frame or a request can reach."""

    hub: Hub
    registry: Registry
    router: Router
    sends: Sends
    rewrites: Rewrites
    reactions: ReactionSends
    reactors: Reactors
    directory: Directory
    rules: RuleChanges
    blocks: Blocks
    consent: Consent
    people: FindPeople
    search: Search
    unread: ReadTogether
    threads: Threads
    inbox: Inbox
    flags: Flags
    history: History
    streams: Streams
    receipts: Receipts
    resume: Resume
    live_status: LiveStatus
    notify: PushWorker
    limiter: Limiter
    overrides: Overrides
    audit: Audit
    activity: ActiveUsers


class Dispatch:
    """Carries out the frames of connected users. It has no state of a connection: each call names one."""

    def __init__(self, cases: UseCases, clock: Clock, refusals: Refusals) -> None:
        self._cases = cases
        self.refusals, self._clock = refusals, clock
        self.pages = PagesAtOnce(PAGES_PER_USER_MAX)
        self._rows: dict[type, tuple[str, Callable[[Connection, Any], Coroutine[Any, Any, Body]]]] = {
            protocol.Read: ("read", self._read),
            protocol.Unread: ("read", self._unread),
            protocol.Inbox: ("read", self._inbox),
            protocol.History: ("read", self._history),
            protocol.Reaction: ("reaction", self._reaction),
            protocol.End: ("read", self._end),
            protocol.Typing: ("typing", self._typing),
            protocol.Watch: ("typing", self._watch),
        }

    def send(self, connection: Connection, frame: protocol.Send, answer: Answer) -> None:
        """Put the send into its lane at once, in the order of arrival: no task, no await."""
        if self._cases.sends.is_overfull(connection.connection_id):
            connection.close(Close.TOO_MANY_REQUESTS)
            answer(None)
            return
        draft = _draft_of(connection, frame)
        draft.reply = partial(self._answer_send, answer, connection.user_id, frame.id)
        self._cases.sends.submit(draft)

    def begin(self, connection: Connection, frame: protocol.Begin) -> Coroutine[Any, Any, bytes | None]:
        """Put the begin of a streamed message into its lane at once. Returns the wait for its answer."""
        return self._answer_begin(connection, frame.id, self._cases.streams.begin(_draft_of(connection, frame)))

    def append(self, connection: Connection, frame: protocol.Append) -> bytes | None:
        """Add a piece to a streamed message. It waits for nothing, so pieces keep their order."""
        key = (frame.conversation_id, connection.user_id, frame.message_id)
        try:
            self._cases.streams.append(key, frame.offset, frame.text)
        except Problem as problem:
            self.refusals.note(connection.user_id, problem)
            return _error(frame.id, problem)
        return _ok(frame.id, None)

    async def _answer_begin(
        self, connection: Connection, frame_id: int | None, began: Awaitable[Began]
    ) -> bytes | None:
        try:
            sent, offset = await began
        except Exception as error:
            self.refusals.note(connection.user_id, error)
            return _error(frame_id, problem_of(error, self._clock))
        return _ok(frame_id, begun_of(sent, offset))

    async def _end(self, connection: Connection, frame: protocol.End) -> Body:
        key = (frame.conversation_id, connection.user_id, frame.message_id)
        return sent_of(await self._cases.streams.end(key, frame.text))

    def abandon(self, connection: Connection, frame: protocol.Abandon) -> None:
        """Give up a held send at once: the sends behind it must find the hold gone."""
        self._cases.sends.abandon(connection.connection_id, frame.conversation_id, frame.message_id)

    async def charge_abandon(self, connection: Connection, frame: protocol.Abandon) -> bytes | None:
        """Charge an abandon that is done. A user without budget is read slowly, and gets the answer all the same."""
        try:
            await self._cases.limiter.admit("read", connection.user_id)
        except Exception as error:
            self.refusals.note(connection.user_id, problem_of(error, self._clock))
        return _ok(frame.id, None)

    async def deliver(self, connections: Sequence[Acknowledging]) -> None:
        """Record the acknowledgements that wait in these connections. They ask the limiter together."""
        taken = [(connection, connection.take_acks()) for connection in connections]
        try:
            costs = [(connection.user_id, batch.cost) for connection, batch in taken]
            refused: Sequence[Problem | None] = await self._cases.limiter.admit_each("read", costs)
        except Exception as error:  # the clients send them again
            refused = [problem_of(error, self._clock)] * len(taken)
        for (connection, batch), problem in zip(taken, refused, strict=True):
            try:
                if problem is None:
                    self.deliver_paid(connection, batch)
            except Exception as error:  # ours: nobody else waits for it
                problem = problem_of(error, self._clock)
            if problem is not None:
                self._refuse_acks(connection, batch.frame_ids, problem)
            connection.acks_charged(batch.left_over if problem is None else 0)

    def deliver_paid(self, connection: Acknowledging, batch: Batch) -> None:
        """Record acknowledgements that are paid for. A frame with an id is answered when they are written."""
        asked = [frame_id for frame_id in batch.frame_ids if frame_id is not None]
        tell = partial(self._answer_acks, connection, asked) if asked else None
        self.record_acks(connection, batch.seqs, tell)
        connection.finish(*[None] * (len(batch.frame_ids) - len(asked)))

    def record_acks(
        self, connection: Connection, seqs: dict[str, int], tell: Callable[[bool], None] | None = None
    ) -> None:
        self._cases.notify.acknowledged(connection.user_id, connection.device, seqs)
        self._cases.receipts.delivered(connection.user_id, seqs, tell)

    def _answer_acks(self, connection: Acknowledging, frame_ids: list[int], is_written: bool) -> None:
        if is_written:
            connection.finish(*(_ok(frame_id, None) for frame_id in frame_ids))
        else:
            self._refuse_acks(connection, frame_ids, StoreUnavailable("not written yet: send it again"))

    def _refuse_acks(self, connection: Acknowledging, frame_ids: Sequence[int | None], problem: Problem) -> None:
        for _ in frame_ids:
            self.refusals.note(connection.user_id, problem)
        connection.finish(*(_error(frame_id, problem) for frame_id in frame_ids))

    async def read_together(self, connections: Sequence[Marking]) -> None:
        """Carry out the read marks that wait in these connections. They ask the limiter together."""
        moment = ReadMoment(connections, self._finish_reads)
        try:
            granted = await self._cases.limiter.admit_first("read", moment.wanted)
            await self._cases.unread.mark_each(moment.admit(granted), moment.ended)
        except Exception as error:
            moment.fail(error)

    def _finish_reads(self, connection: Marking, outcomes: Sequence[tuple[Reads, Outcome]]) -> None:
        connection.finish_reads([bytes_ for one in outcomes for bytes_ in self._answer_reads(connection, *one)])

    def _answer_reads(self, connection: Connection, reads: Reads, outcome: Outcome) -> list[bytes | None]:
        if isinstance(outcome, ReadState):
            body = msgspec.json.encode(outcome)  # once for all
            return [None if read.id is None else encode_ok(read.id, body) for read in reads]
        problem = problem_of(outcome or Internal(), self._clock)
        for _ in reads:
            self.refusals.note(connection.user_id, problem)
        return [_error(read.id, problem) for read in reads]

    async def answer(self, connection: Connection, frame: protocol.ClientFrame) -> bytes | None:
        """The answer's bytes; None when the client wants none."""
        class_name, run = self._rows[type(frame)]
        in_flight = self._cases.limiter.in_flight
        try:
            in_flight.begin(class_name, connection.user_id)
        except Problem as problem:
            self.refusals.note(connection.user_id, problem)
            return _error(frame.id, problem)
        try:
            if isinstance(frame, PAGES):
                async with self._cases.limiter.admitted(class_name, connection.user_id):
                    page = await run(connection, frame)
                return _ok(frame.id, page)
            await self._cases.limiter.admit(class_name, connection.user_id, _cost_of(frame))
            return _ok(frame.id, await run(connection, frame))
        except Exception as error:
            self.refusals.note(connection.user_id, error)
            return _error(frame.id, problem_of(error, self._clock))
        finally:
            in_flight.end(connection.user_id)

    def _answer_send(self, answer: Answer, user_id: str, frame_id: int | None, result: Sent | Problem) -> None:
        if isinstance(result, Sent):
            answer(encode_ok(frame_id, sent_of(result)) if frame_id is not None else None)
        else:
            self.refusals.note(user_id, result)
            answer(_error(frame_id, result))

    async def _read(self, connection: Connection, frame: protocol.Read) -> Body:
        user_id, origin = connection.user_id, connection.connection_id
        up_to_seq, up_to_ts, seqs = frame.up_to_seq, frame.up_to_ts, frame.seqs
        if frame.thread_seq is not None:
            return await self._cases.threads.mark_read(
                user_id,
                frame.conversation_id,
                frame.thread_seq,
                up_to_seq=up_to_seq,
                up_to_ts=up_to_ts,
                seqs=seqs,
                origin=origin,
            )
        return await self._cases.unread.mark_read(
            user_id, frame.conversation_id, up_to_seq=up_to_seq, up_to_ts=up_to_ts, seqs=seqs, origin=origin
        )

    async def _unread(self, connection: Connection, frame: protocol.Unread) -> Body:
        user_id, origin = connection.user_id, connection.connection_id
        pay, from_seq = payment(self._cases.limiter, user_id), frame.from_seq
        if frame.thread_seq is not None:
            place = user_id, frame.conversation_id, frame.thread_seq
            return await self._cases.threads.mark_unread(*place, from_seq=from_seq, origin=origin, pay=pay)
        mark_unread = self._cases.unread.mark_unread
        return await mark_unread(user_id, frame.conversation_id, from_seq=from_seq, origin=origin, pay=pay)

    async def _inbox(self, connection: Connection, frame: protocol.Inbox) -> Body:
        limit = min(frame.limit, PAGE_MAX)
        page = await self._cases.inbox.page(
            connection.user_id, limit=limit, cursor=frame.cursor, filter_name=frame.filter, kind=frame.kind
        )
        return inbox_of(page)

    async def _history(self, connection: Connection, frame: protocol.History) -> Body:
        if frame.thread_seq is not None:
            replies = await self._cases.threads.replies(
                connection.user_id,
                frame.conversation_id,
                frame.thread_seq,
                before_seq=frame.before_seq,
                after_seq=frame.after_seq,
                limit=frame.limit,
            )
            return history_of(replies)
        page = await self._cases.history.page(
            connection.user_id,
            frame.conversation_id,
            before_seq=frame.before_seq,
            after_seq=frame.after_seq,
            around_seq=frame.around_seq,
            anchor=frame.anchor,
            limit=min(frame.limit, PAGE_MAX),
        )
        return history_of(page)

    async def _reaction(self, connection: Connection, frame: protocol.Reaction) -> Body:
        beside = await self._cases.reactions.react(
            connection.user_id, frame.conversation_id, frame.seq, frame.key, is_on=frame.on
        )
        return reacted_of(frame.conversation_id, frame.seq, beside)

    async def _typing(self, connection: Connection, frame: protocol.Typing) -> Body:
        await self._cases.live_status.typing(
            connection.user_id, frame.conversation_id, frame.typing, connection.connection_id
        )
        return None

    async def _watch(self, connection: Connection, frame: protocol.Watch) -> Body:
        await self._cases.live_status.watch(connection, frame.conversation_ids)
        return None


def content_of(asked: protocol.Send | Written) -> Content:
    """All that the sender wrote. Of a file only the id is known here."""
    files = tuple(map(File, asked.files)) if asked.files else ()
    mentions = tuple(dict.fromkeys(asked.mentions)) if asked.mentions else ()
    return Content(
        asked.text or "",
        asked.data,
        asked.silent or False,
        asked.reply_to,
        files,
        asked.ttl_s,
        mentions,
        asked.mention,
        thread_seq=asked.thread_seq,
        also_here=asked.also_here or False,
    )


def _draft_of(connection: Connection, frame: protocol.Send) -> Draft:
    content, of_message = content_of(frame), (frame.conversation_id, connection.user_id, frame.message_id)
    return Draft(
        sender_id=connection.user_id,
        conversation_id=frame.conversation_id,
        message_id=frame.message_id,
        content=content,
        companion=None if frame.ttl_s is None else expiring(content, *of_message),
        timestamp=frame.ts,
        origin=connection.connection_id,
    )


def payment(limiter: Limiter, user_id: str) -> Callable[[int], Awaitable[object]]:
    """A function that charges the user for the rows of a mark, beyond those that the request itself pays for."""

    async def pay(rows: int) -> None:
        slots = rows // UNREAD_ROWS_PER_SLOT
        if slots:
            await limiter.admit("read", user_id, slots)

    return pay


def _cost_of(frame: protocol.ClientFrame) -> int:
    return -(-len(frame.conversation_ids) // ACKS_PER_SLOT) or 1 if type(frame) is protocol.Watch else 1


def _error(frame_id: int | None, problem: Problem) -> bytes | None:
    return encode_error(frame_id, problem) if frame_id is not None else None


def _ok(frame_id: int | None, body: Body) -> bytes | None:
    return encode_ok(frame_id, body) if frame_id is not None else None
