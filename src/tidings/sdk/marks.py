"""Receipts, folded together: a burst of deliveries is one frame, a row of reads is one request.

Marks are watermarks, so the highest says all of them; each is repeated until it is answered. Reads and unreads of one
conversation go one after another. client.py calls it.
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


class Marks:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._wanted: dict[str, int] = {}
        self._states: dict[str, ReadState] = {}  # of the request that took several callers' marks along

    def _lock(self, conversation_id: str) -> asyncio.Lock:
        return self._locks.setdefault(conversation_id, asyncio.Lock())

    async def read(self, conversation_id: str, up_to_seq: int) -> ReadState:
        """Callers that wait meanwhile share the next request, which names the highest of them."""
        wire.check(Read(conversation_id=conversation_id, up_to_seq=up_to_seq))
        self._wanted[conversation_id] = max(up_to_seq, self._wanted.get(conversation_id, 0))
        async with self._lock(conversation_id):
            wanted = self._wanted.pop(conversation_id, None)
            if wanted is None:
                return self._states[conversation_id]
            try:
                frame = Read(conversation_id=conversation_id, up_to_seq=wanted)
                state = await self._session.insist(frame, ReadState)
            except BaseException:
                self._wanted[conversation_id] = max(wanted, self._wanted.get(conversation_id, 0))
                raise
            self._states[conversation_id] = state
            return state

    async def read_seqs(self, conversation_id: str, seqs: list[int]) -> ReadState:
        async with self._lock(conversation_id):
            return await self._session.insist(Read(conversation_id=conversation_id, seqs=seqs), ReadState)

    async def unread(self, conversation_id: str, from_seq: int) -> ReadState:
        async with self._lock(conversation_id):
            self._wanted.pop(conversation_id, None)
            return await self._session.insist(Unread(conversation_id=conversation_id, from_seq=from_seq), ReadState)
