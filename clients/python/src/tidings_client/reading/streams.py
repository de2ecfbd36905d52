"""Events on their way to the program: each stream gets all of them, in order, from the moment it is opened.

A stream that nothing refers to any more is dropped with its queue. While a stream is full, `is_full` asks the session
to stop reading the socket: the server then keeps new entries, and sends them when the client resumes. `on_room` is
called when that may have changed, from any thread in which a stream is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakSet, finalize

from tidings_client.bounds import EVENTS_MAX, EVENTS_PAUSE
from tidings_client.errors import Lagging
from tidings_client.values import Event

T = TypeVar("T")


class Stream(Generic[T]):
    """`async for` over the result of `pick` for each event. A result that is None is left out."""

    def __init__(self, pick: Callable[[Event], T | None], on_room: Callable[[], None]) -> None:
        self._pick = pick
        self._on_room = on_room
        self._waiting: deque[T] = deque()
        self._arrived = asyncio.Event()
        self._end: BaseException | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        while not self._waiting:
            if self._end is not None:
                raise self._end
            self._arrived.clear()
            await self._arrived.wait()
        item = self._waiting.popleft()
        if len(self._waiting) == EVENTS_PAUSE // 2:
            self._on_room()
        return item

    def put(self, event: Event) -> None:
        picked = self._pick(event)
        if picked is None or self._end is not None:
            return
        if len(self._waiting) >= EVENTS_MAX:
            self.end(Lagging(f"{EVENTS_MAX} events wait; the history has the entries after them"))
            return
        self._waiting.append(picked)
        self._arrived.set()

    def end(self, error: BaseException) -> None:
        """End the stream: it still hands out the events that wait, then it raises the error."""
        self._end = self._end or error
        self._arrived.set()


class Streams:
    """All streams of a client."""

    def __init__(self, on_room: Callable[[], None]) -> None:
        self._on_room = on_room
        self._open: WeakSet[Stream[Event]] = WeakSet()
        self._end: BaseException | None = None

    def open(self, pick: Callable[[Event], T | None]) -> Stream[T]:
        stream = Stream(pick, self._on_room)
        if self._end is not None:
            stream.end(self._end)
        finalize(stream, self._on_room).atexit = False
        self._open.add(stream)  # type: ignore[arg-type]  # only put and end are used, which do not depend on T
        return stream

    @property
    def is_full(self) -> bool:
        return any(len(stream) >= EVENTS_PAUSE for stream in self._open)

    def put(self, event: Event) -> None:
        for stream in list(self._open):
            stream.put(event)

    def end(self, error: BaseException) -> None:
        self._end = error
        for stream in list(self._open):
            stream.end(error)
