"""A decoded frame becomes a call of a use case, and its result or refusal becomes the answer's bytes.

Here the limiter is asked, once per request and by class; `message.send` asks it itself, in its batch. Whatever a use
case raises ends as a row of errors.TABLE: nothing of an unexpected exception reaches the client or the log but its
type and place, under a reference both can name. connection.py calls this for each frame, http.py shares `problem_of`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
import structlog

from tidings.bounds import PAGE_MAX
from tidings.clock import Clock
from tidings.errors import Close, Internal, Problem, RateLimited, StoreError, StoreUnavailable
from tidings.gateway import protocol
from tidings.gateway.bodies import history_of, inbox_of, read_state_of, sent_of
from tidings.gateway.frames import encode_error, encode_ok
from tidings.gateway.refusals import Refusals
from tidings.gateway.usecases import UseCases
from tidings.messaging.drafts import Draft
from tidings.model import Sent
from tidings.routing.hub import Outbound

Body = msgspec.Struct | None
Answer = Callable[[bytes | None], None]
_PAGES = (protocol.Inbox, protocol.History)

log = structlog.get_logger("tidings.gateway")


def problem_of(error: Exception, clock: Clock) -> Problem:
    """What the client is told about it."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreError):
        log.warning("store_failed", error=type(error).__name__)
        return StoreUnavailable()
    reference = clock.random_id(6)
    place = [f"{at.filename}:{at.lineno} {at.name}" for at in traceback.extract_tb(error.__traceback__)]
    log.error("unexpected", reference=reference, error=type(error).__name__, place=place)
    return Internal(f"our mistake; reference {reference}")


class Dispatch:
    """Frames of connected users. Stateless: who asks is an argument."""

    def __init__(self, cases: UseCases, clock: Clock, refusals: Refusals | None = None) -> None:
        self._cases = cases
        self.refusals = refusals or Refusals(cases.audit)
        self._clock = clock
        self._rows: dict[type, tuple[str, Callable[[Outbound, Any], Coroutine[Any, Any, Body]]]] = {
            protocol.Read: ("read", self._read),
            protocol.Unread: ("read", self._unread),
            protocol.Inbox: ("read", self._inbox),
            protocol.History: ("read", self._history),
            protocol.Typing: ("typing", self._typing),
            protocol.Watch: ("typing", self._watch),
        }

    def send(self, outbound: Outbound, frame: protocol.Send, answer: Answer) -> None:
        """Into the lane at once, in the order of arrival: no task, no await."""
        if self._cases.sends.is_overfull(outbound.connection_id):
            outbound.close(Close.TOO_MANY_REQUESTS)
            answer(None)
            return
        self._cases.sends.submit(
            Draft(
                sender_id=outbound.user_id,
                conversation_id=frame.conversation_id,
                message_id=frame.message_id,
                text=frame.text,
                timestamp=frame.ts,
                origin=outbound.connection_id,
                reply=partial(self._answer_send, answer, outbound.user_id, frame.id),
            )
        )

    def abandon(self, outbound: Outbound, frame: protocol.Abandon) -> bytes | None:
        self._cases.sends.abandon(outbound.connection_id, frame.conversation_id, frame.message_id)
        return _ok(frame.id, None)

    async def deliver(self, outbound: Outbound, acks: dict[str, int]) -> None:
        """Acknowledgements of one or several frames, folded together by the connection."""
        try:
            await self._cases.limiter.admit("read", outbound.user_id)
        except RateLimited as problem:
            self.refusals.note(outbound.user_id, problem)
            raise
        self._cases.receipts.delivered(outbound.user_id, acks, outbound.connection_id)
        if self._cases.notify is not None:
            self._cases.notify.acknowledged(outbound.user_id, outbound.device, acks)

    async def answer(self, outbound: Outbound, frame: protocol.ClientFrame) -> bytes | None:
        """The answer's bytes; None when none is wanted."""
        class_name, run = self._rows[type(frame)]
        try:
            if isinstance(frame, _PAGES):
                read = run(outbound, frame)
                return _ok(frame.id, await self._cases.limiter.admit_beside(class_name, outbound.user_id, read))
            await self._cases.limiter.admit(class_name, outbound.user_id)
            return _ok(frame.id, await run(outbound, frame))
        except Exception as error:
            self.refusals.note(outbound.user_id, error)
            return self.refuse(frame.id, error)

    def refuse(self, frame_id: int | None, error: Exception) -> bytes | None:
        problem = problem_of(error, self._clock)
        return encode_error(frame_id, problem) if frame_id is not None else None

    def _answer_send(self, answer: Answer, user_id: str, frame_id: int | None, result: Sent | Problem) -> None:
        if isinstance(result, Sent):
            answer(encode_ok(frame_id, sent_of(result)) if frame_id is not None else None)
        else:
            self.refusals.note(user_id, result)
            answer(encode_error(frame_id, result) if frame_id is not None else None)

    async def _read(self, outbound: Outbound, frame: protocol.Read) -> Body:
        state = await self._cases.unread.mark_read(
            outbound.user_id,
            frame.conversation_id,
            up_to_seq=frame.up_to_seq,
            up_to_ts=frame.up_to_ts,
            seqs=frame.seqs,
            origin=outbound.connection_id,
        )
        return read_state_of(state)

    async def _unread(self, outbound: Outbound, frame: protocol.Unread) -> Body:
        state = await self._cases.unread.mark_unread(
            outbound.user_id, frame.conversation_id, from_seq=frame.from_seq, origin=outbound.connection_id
        )
        return read_state_of(state)

    async def _inbox(self, outbound: Outbound, frame: protocol.Inbox) -> Body:
        limit = min(frame.limit, PAGE_MAX)
        return inbox_of(await self._cases.inbox.page(outbound.user_id, limit=limit, cursor=frame.cursor))

    async def _history(self, outbound: Outbound, frame: protocol.History) -> Body:
        page = await self._cases.history.page(
            outbound.user_id,
            frame.conversation_id,
            before_seq=frame.before_seq,
            after_seq=frame.after_seq,
            around_seq=frame.around_seq,
            anchor=frame.anchor,
            limit=min(frame.limit, PAGE_MAX),
        )
        return history_of(page)

    async def _typing(self, outbound: Outbound, frame: protocol.Typing) -> Body:
        if self._cases.signals is not None:
            await self._cases.signals.typing(
                outbound.user_id, frame.conversation_id, frame.typing, outbound.connection_id
            )
        return None

    async def _watch(self, outbound: Outbound, frame: protocol.Watch) -> Body:
        if self._cases.signals is not None:
            await self._cases.signals.watch(outbound, frame.conversation_ids)
        return None


def _ok(frame_id: int | None, body: Body) -> bytes | None:
    return encode_ok(frame_id, body) if frame_id is not None else None
