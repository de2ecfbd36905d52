"""Receipts, folded together: a burst of deliveries is one frame, a row of reads is one request.

Marks are watermarks, so the highest says all of them; each is repeated until it is answered. Reads and unreads of one
conversation go one after another, in the order they were asked for. client.py calls it.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from tidings.bounds import ACKS_MAX, CLIENT_ACK_S
from tidings.errors import Problem
from tidings.gateway.protocol import Delivered, Read, Unread
from tidings.sdk import wire
from tidings.sdk.session import Nothing, Session
from tidings.sdk.values import ReadState


class Acks:
    """What this device has: said CLIENT_ACK_S after the first entry of a burst."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, conversation_id: str, seq: int) -> None:
        self._waiting[conversation_id] = max(seq, self._waiting.get(conversation_id, 0))
        if self._task is None:
            self._task = asyncio.create_task(self._say_later(), name="tidings-acks")

    def flush(self) -> None:
        """Says it at once, if there is a connection, without waiting for the answer: the client leaves."""
        if self._waiting:
            self._session.tell(Delivered(acks=self._some()))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _say_later(self) -> None:
        while self._waiting:
            await asyncio.sleep(CLIENT_ACK_S)
            await self._say()
        self._task = None

    async def _say(self) -> None:
        acks = self._some()
        try:
            await self._session.insist(Delivered(acks=acks), Nothing)
        except Problem:
            pass  # the next one says it too; at worst a tick is late
        for conversation_id, seq in acks.items():
            if self._waiting.get(conversation_id) == seq:
                del self._waiting[conversation_id]

    def _some(self) -> dict[str, int]:
        return dict(list(self._waiting.items())[:ACKS_MAX])


class Mark:
    """A read that waits in line, with those that joined it."""

    def __init__(self) -> None:
        self.wanted: list[int] = []
        self.state: ReadState | None = None


class Marks:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._last: dict[str, Mark] = {}  # the read at the end of a conversation's line: another may join it

    def _lock(self, conversation_id: str) -> asyncio.Lock:
        return self._locks.setdefault(conversation_id, asyncio.Lock())

    async def read(self, conversation_id: str, up_to_seq: int) -> ReadState:
        """Callers that wait one behind another share a request, which names the highest of them."""
        wire.check(Read(conversation_id=conversation_id, up_to_seq=up_to_seq))
        mark = self._last.setdefault(conversation_id, Mark())
        mark.wanted.append(up_to_seq)
        try:
            async with self._lock(conversation_id):
                if mark.state is None:
                    self._close(conversation_id, mark)
                    frame = Read(conversation_id=conversation_id, up_to_seq=max(mark.wanted))
                    mark.state = await self._session.insist(frame, ReadState)
                return mark.state
        finally:
            mark.wanted.remove(up_to_seq)  # who was cancelled in line reads nothing
            if not mark.wanted:
                self._close(conversation_id, mark)

    def _close(self, conversation_id: str, mark: Mark) -> None:
        """Nobody joins it any more."""
        if self._last.get(conversation_id) is mark:
            del self._last[conversation_id]

    async def read_seqs(self, conversation_id: str, seqs: list[int]) -> ReadState:
        return await self._alone(Read(conversation_id=conversation_id, seqs=seqs))

    async def unread(self, conversation_id: str, from_seq: int) -> ReadState:
        return await self._alone(Unread(conversation_id=conversation_id, from_seq=from_seq))

    async def _alone(self, frame: Read | Unread) -> ReadState:
        """In its turn: a read that comes after it joins none that came before."""
        self._last.pop(frame.conversation_id, None)
        async with self._lock(frame.conversation_id):
            return await self._session.insist(frame, ReadState)
