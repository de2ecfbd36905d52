"""Receipts and read marks, folded together: a burst of deliveries is one frame, a row of reads is one request.

A mark is a watermark, so the highest includes all lower ones. Each is repeated until it is answered. Reads and unreads
of one conversation go one after another, in the order in which the program asked for them.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from tidings_client.bounds import ACK_S, ACKS_MAX
from tidings_client.connection.session import Session
from tidings_client.errors import Problem
from tidings_client.forms import Delivered, Read, Unread, check
from tidings_client.values import Nothing, ReadState


class Acks:
    """Delivery receipts of this device. They go out ACK_S after the first entry of a burst."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    def record(self, conversation_id: str, seq: int) -> None:
        self._waiting[conversation_id] = max(seq, self._waiting.get(conversation_id, 0))
        if self._task is None:
            self._task = asyncio.create_task(self._send_later(), name="tidings-acks")

    def flush(self) -> None:
        """Send them at once if there is a connection, without waiting for the answer: the client leaves."""
        if self._waiting:
            self._session.send(Delivered(acks=self._batch()))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _send_later(self) -> None:
        while self._waiting:
            await asyncio.sleep(ACK_S)
            await self._send()
        self._task = None

    async def _send(self) -> None:
        acks = self._batch()
        try:
            await self._session.request(Delivered(acks=acks), Nothing)
        except Problem:
            pass  # the next one includes it; at worst a receipt is late
        for conversation_id, seq in acks.items():
            if self._waiting.get(conversation_id) == seq:
                del self._waiting[conversation_id]

    def _batch(self) -> dict[str, int]:
        return dict(list(self._waiting.items())[:ACKS_MAX])


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
