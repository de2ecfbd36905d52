"""Events on their way to the program: each stream gets all of them, in order, from the moment it is made.

A stream that nobody holds any more is gone with its queue. One that nobody reads from asks, by `is_full`, that the
socket be read no further: the server then keeps what is new, and tells it when the client comes back. `on_room` is
called when that may have changed, from any thread where a stream was dropped. client.py makes them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakSet, finalize

from tidings.bounds import CLIENT_EVENTS_MAX, CLIENT_EVENTS_PAUSE
from tidings.sdk.events import Event
from tidings.sdk.refusals import Lagging

T = TypeVar("T")


class Stream(Generic[T]):
    """`async for` over what `pick` makes of each event; None is left out."""

    def __init__(self, pick: Callable[[Event], T | None], on_room: Callable[[], None]) -> None:
        self._pick = pick
        self._on_room = on_room
        self._waiting: deque[T] = deque()
        self._came = asyncio.Event()
        self._end: BaseException | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        while not self._waiting:
            if self._end is not None:
                raise self._end
            self._came.clear()
            await self._came.wait()
        item = self._waiting.popleft()
        if len(self._waiting) == CLIENT_EVENTS_PAUSE // 2:
            self._on_room()
        return item

    def put(self, event: Event) -> None:
        picked = self._pick(event)
        if picked is None or self._end is not None:
            return
        if len(self._waiting) >= CLIENT_EVENTS_MAX:
            self.end(Lagging(f"{CLIENT_EVENTS_MAX} events wait; the history has what comes after them"))
            return
        self._waiting.append(picked)
        self._came.set()

    def end(self, error: BaseException) -> None:
        """What waits is still handed out, then the error is raised."""
        self._end = self._end or error
        self._came.set()


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
        return any(len(stream) >= CLIENT_EVENTS_PAUSE for stream in self._open)

    def tell(self, event: Event) -> None:
        for stream in list(self._open):
            stream.put(event)

    def end(self, error: BaseException) -> None:
        self._end = error
        for stream in list(self._open):
            stream.end(error)
