"""Receipts and read marks, folded together: a burst of deliveries is one frame, a row of reads is one request.

A mark is a watermark, so the highest includes all lower ones. Each is repeated until it is answered. Reads and unreads
of one conversation go one after another, in the order in which the program asked for them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from weakref import WeakValueDictionary

from tidings_client.bounds import ACK_S, ACKS_MAX
from tidings_client.clock import Clock
from tidings_client.connection.decoding import answer_of
from tidings_client.connection.session import Backoff, Session
from tidings_client.errors import Disconnected, Problem, Stopped
from tidings_client.forms import Delivered, Read, Unread, check
from tidings_client.values import Nothing, ReadState


class Acks:
    """Delivery receipts of this device. They go out ACK_S after the first entry of a burst.

    An answer says that a receipt is written, and comes a moment later. Newer receipts do not wait for it. A receipt
    without an answer, or refused for now, goes again."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._backoff = Backoff(clock)
        self._waiting: dict[str, int] = {}
        self._pause_s = ACK_S
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def record(self, conversation_id: str, seq: int) -> None:
        self._waiting[conversation_id] = max(seq, self._waiting.get(conversation_id, 0))
        if self._task is None and not self._is_over:
            self._task = asyncio.create_task(self._send_later(), name="tidings-acks")

    def flush(self) -> None:
        """Send them at once if there is a connection, without waiting for the answer: the client leaves."""
        if self._waiting:
            self._session.send(Delivered(acks=self._take()))

    async def stop(self) -> None:
        self._is_over = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _send_later(self) -> None:
        with suppress(Disconnected, Stopped):  # the session is over
            while self._waiting:
                await asyncio.sleep(self._pause_s)
                await self._session.up()
                acks = self._take()
                self._session.ask(Delivered(acks=acks), partial(self._answered, acks))
        self._task = None

    def _answered(self, acks: dict[str, int], answer: bytes | Disconnected) -> None:
        self._pause_s = ACK_S
        try:
            if not isinstance(answer, Disconnected):
                answer_of(answer, Nothing)
                self._backoff.reset()
                return
        except Problem as problem:
            if not problem.is_temporary:
                return
            self._pause_s = self._backoff.next_s(problem.retry_after_ms)
        for conversation_id, seq in acks.items():
            self.record(conversation_id, seq)

    def _take(self) -> dict[str, int]:
        return {id_: self._waiting.pop(id_) for id_ in list(self._waiting)[:ACKS_MAX]}


class QueuedRead:
    """A read that waits in line, with the callers that joined it."""

    def __init__(self) -> None:
        self.wanted: list[int] = []
        self.state: ReadState | None = None


class Marks:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._last: dict[str, QueuedRead] = {}  # the read at the end of a conversation's line: callers may join it

    def _lock(self, conversation_id: str) -> asyncio.Lock:
        return self._locks.setdefault(conversation_id, asyncio.Lock())

    async def read(self, conversation_id: str, up_to_seq: int) -> ReadState:
        """Mark as read. Callers that wait one behind another share a request, which names the highest seq."""
        check(Read(conversation_id=conversation_id, up_to_seq=up_to_seq))
        queued = self._last.setdefault(conversation_id, QueuedRead())
        queued.wanted.append(up_to_seq)
        try:
            async with self._lock(conversation_id):
                if queued.state is None:
                    self._close(conversation_id, queued)
                    frame = Read(conversation_id=conversation_id, up_to_seq=max(queued.wanted))
                    queued.state = await self._session.request(frame, ReadState)
                return queued.state
        finally:
            queued.wanted.remove(up_to_seq)  # a caller that was cancelled in line reads nothing
            if not queued.wanted:
                self._close(conversation_id, queued)

    def _close(self, conversation_id: str, queued: QueuedRead) -> None:
        """Let no other caller join it."""
        if self._last.get(conversation_id) is queued:
            del self._last[conversation_id]

    async def read_seqs(self, conversation_id: str, seqs: list[int]) -> ReadState:
        return await self._alone(Read(conversation_id=conversation_id, seqs=seqs))

    async def unread(self, conversation_id: str, from_seq: int) -> ReadState:
        return await self._alone(Unread(conversation_id=conversation_id, from_seq=from_seq))

    async def _alone(self, frame: Read | Unread) -> ReadState:
        """Make the request in its turn. A later read does not join an earlier one across it."""
        self._last.pop(frame.conversation_id, None)
        async with self._lock(frame.conversation_id):
            return await self._session.request(frame, ReadState)
