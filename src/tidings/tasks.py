"""Tasks: the few patterns that every part shares for background work, for waiting and for bounded memory.

`Loop` repeats a step until the part stops. `TaskSet` runs small work that may be lost, such as presence and typing.
`KeyedWork` runs work that must not be lost, for a bounded number of keys at a time. `SingleFlight` shares one run of
work that costs, and `KeyedLock` admits one caller of each key at a time. `Recent` is a bounded dict, and `Weighed` is
bounded by the weight of its values. `Listeners` connects the source of an event with the parts that care. Every task
that is started here is kept, and ends with the part that started it. `Ending` ends several parts one after the other,
within one time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, Generic, ParamSpec, TypeVar, TypeVarTuple

from tidings.errors import Problem, StoreError, StoreUnavailable

_BEAT_S = 0.25
_CANCEL_AGAIN_S = 5.0  # a task that swallowed its cancellation is cancelled again after this long
_END_S_MIN = 0.1  # a part may still end within this time when the time of all parts is used up
_EARLY_S = 0.005  # a timer may end this much early, and must not end a second time on the same beat

log = logging.getLogger("tidings.tasks")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
Ks = TypeVarTuple("Ks")


class Loop:
    """A step in the background, repeated every `every_s` until `stop`.

    A store error and a mistake of ours each cost one step: they are logged, and the loop goes on. A step that returns
    True has more to do, and is repeated at once.
    """

    def __init__(
        self,
        name: str,
        every_s: float | Callable[[], float],
        step: Callable[[], Awaitable[object]],
        *,
        is_eager: bool = False,
        at_end: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`is_eager`: a step comes before the first pause. `at_end`: the last work, after the loop was stopped."""
        self.name = name
        self._every_s = every_s if callable(every_s) else lambda: every_s
        self._step = step
        self._is_eager = is_eager
        self._at_end = at_end
        self._is_failing = False
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """Cancel the step that is under way, then do the last work. A store error there is logged."""
        await cancel(self._task)
        try:
            if self._at_end is not None:
                await self._at_end()
        except StoreError as error:
            log.warning("background task lost its last work", extra={"task": self.name, "cause": str(error)})

    def nudge(self) -> None:
        """Begin the next step at once, or right after the step that is under way."""
        self._nudged.set()

    async def _run(self) -> None:
        if not self._is_eager:
            await self._pause()
        while True:
            self._nudged.clear()
            if not await self._try():
                await self._pause()

    async def _pause(self) -> None:
        await wait_at_most(self._nudged, self._every_s())

    async def _try(self) -> bool:
        try:
            is_more = await self._step()
        except (StoreError, Problem) as error:
            # An outage is one line of the log for each loop, however long it lasts.
            level = logging.DEBUG if self._is_failing else logging.INFO
            log.log(level, "background task waits for a store", extra={"task": self.name, "cause": str(error)})
            self._is_failing = True
        except Exception:
            log.exception("background task failed", extra={"task": self.name})
        else:
            self._is_failing = False
            return is_more is True
        return False


def to_beat_s(most_s: float) -> float:
    """The time until the last beat within `most_s`. Timers that end on a beat end together, so a node at rest wakes up
    a few times a second and not once for each of its parts."""
    if most_s < _BEAT_S:
        return most_s
    now_s = asyncio.get_running_loop().time()
    return (now_s + most_s + _EARLY_S) // _BEAT_S * _BEAT_S - now_s


async def wait_at_most(event: asyncio.Event, most_s: float) -> None:
    """Wait for the event. A timer sets it after `most_s`: that costs a fraction of `asyncio.timeout`."""
    timer = asyncio.get_running_loop().call_later(to_beat_s(most_s), event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel the tasks, and wait until they have ended. Their errors are theirs."""
    waiting = {task for task in tasks if task is not None and not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=_CANCEL_AGAIN_S)


class Ending:
    """The end of several parts, one after the other, within `most_s` for all of them.

    A part that fails, or does not end in time, is named in one line of the log. The other parts end all the same.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._until_s = asyncio.get_running_loop().time() + most_s

    async def __call__(self, part: str, end: Callable[[], Awaitable[object]]) -> None:
        """Await `end`. Never raises, except for a cancellation of the caller."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(_finish(end()), name=f"end of {part}")
        try:
            await asyncio.wait({task}, timeout=max(_END_S_MIN, self._until_s - loop.time()))
        finally:
            is_ended = task.done()
            task.cancel()
        if not is_ended:
            log.error("part did not end", extra={"part": part, "cause": f"not within {self._most_s:g} s"})
        elif not task.cancelled() and (error := task.exception()) is not None:
            log.error("part failed at its end", extra={"part": part, "cause": str(error)}, exc_info=error)


async def _finish(end: Awaitable[object]) -> None:
    await end


async def attempt(work: Awaitable[T]) -> T | StoreError:
    """Do the work. A store error is an answer: the work of others, which is done beside it, goes on."""
    try:
        return await work
    except StoreError as error:
        return error


class TaskSet:
    """Small work that no caller waits for: kept, bounded, and quiet when a store does not answer.

    Past the bound new work is dropped. A store error is a line of the debug log; any other error is our mistake.
    """

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None], name: str) -> bool:
        """Start the work. Never blocks, never raises. False: the set is full, and the work was dropped."""
        if len(self._tasks) >= self._at_most:
            work.close()
            return False
        task = asyncio.get_running_loop().create_task(self._quietly(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # a task that is cancelled before its first step never began it
        return True

    async def close(self) -> None:
        await cancel(*self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    async def _quietly(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except (StoreError, Problem) as error:
            log.debug("background work was dropped", extra={"task": name, "cause": str(error)})
        except Exception:
            log.exception("background work failed", extra={"task": name})


class KeyedWork(Generic[K]):
    """Work for keys, the key that waits longest first, `at_most` of them at a time. Only a key waits, without a task.

    A key that is added while its work is under way is done once more. `start` gets a task going and keeps it.
    """

    def __init__(
        self, at_most: int, work: Callable[[K], Awaitable[object]], start: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        self._at_most, self._work, self._start = at_most, work, start
        self._waiting: dict[K, None] = {}
        self._under_way: set[K] = set()
        self._tasks = 0

    def add(self, key: K) -> None:
        """Never blocks."""
        self._waiting[key] = None
        if key not in self._under_way and self._tasks < self._at_most:
            self._tasks += 1
            self._start(self._run())

    def __contains__(self, key: K) -> bool:
        return key in self._waiting or key in self._under_way

    def __len__(self) -> int:
        return len(self._waiting.keys() | self._under_way)

    async def _run(self) -> None:
        try:
            while (key := next((key for key in self._waiting if key not in self._under_way), None)) is not None:
                del self._waiting[key]
                self._under_way.add(key)
                try:
                    await self._work(key)
                except Exception:
                    log.exception("background work failed", extra={"task": "keyed work"})
                finally:
                    self._under_way.remove(key)
        finally:
            self._tasks -= 1


class SingleFlight(Generic[T, *Ks]):
    """One run at a time for each key of work that costs. Callers that come meanwhile get the answer of that run.

    The arguments of the call are the key. A caller that gives up does not end the run for the others.
    """

    def __init__(self, run: Callable[[*Ks], Awaitable[T]], most_s: float | None = None) -> None:
        self._run = run
        self._most_s = most_s
        self._runs: dict[tuple[*Ks], asyncio.Task[T]] = {}

    async def __call__(self, *key: *Ks) -> T:
        """Raises what the run raises, and StoreUnavailable when the run takes longer than `most_s`."""
        task = self._runs.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._bounded(key), name="single flight")
            self._runs[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Returns when no run is under way."""
        while self._runs:
            await asyncio.wait(list(self._runs.values()))

    async def close(self) -> None:
        """Cancel every run that is under way."""
        await cancel(*self._runs.values())

    async def _bounded(self, key: tuple[*Ks]) -> T:
        try:
            async with asyncio.timeout(self._most_s):
                return await self._run(*key)
        except TimeoutError:
            if self._most_s is None:
                raise
            raise StoreUnavailable(f"not finished within {self._most_s:g} s") from None

    def _ended(self, key: tuple[*Ks], task: asyncio.Task[T]) -> None:
        del self._runs[key]
        if not task.cancelled():
            task.exception()  # each caller gets the error; asyncio would complain if every caller had given up


class KeyedLock(Generic[K]):
    """A lock for each key, kept only while a caller holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[K, tuple[asyncio.Lock, int]] = {}  # and how many callers hold it or wait for it

    @asynccontextmanager
    async def __call__(self, key: K) -> AsyncIterator[None]:
        lock, callers = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, callers + 1)
        try:
            async with lock:
                yield
        finally:
            lock, callers = self._locks.pop(key)
            if callers > 1:
                self._locks[key] = (lock, callers - 1)


class Recent(dict[K, V]):
    """A dict of `at_most` keys: those that were put last. Every other operation costs what a dict's costs.

    At the bound the oldest sixteenth goes at once, because a dict finds its oldest key slowly once many before it are
    gone. A write with `[]` or `setdefault` is neither counted nor made the newest: use `put`.
    """

    __slots__ = ("_at_most",)

    def __init__(self, at_most: int) -> None:
        super().__init__()
        self._at_most = at_most

    def put(self, key: K, value: V) -> None:
        self.pop(key, None)
        self[key] = value
        if len(self) > self._at_most:
            for oldest in list(islice(self, 1 + self._at_most // 16)):
                del self[oldest]


class Weighed(Generic[K, V]):
    """A dict that is bounded by the weight of its values: past it, those that were used least recently go."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        self.pop(key)
        self._kept[key] = (value, weight)
        self.weight += weight
        while self.weight > self._at_most and len(self._kept) > 1:
            _, (_, gone) = self._kept.popitem(last=False)
            self.weight -= gone

    def pop(self, key: K) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self.weight -= found[1]

    def values(self) -> list[V]:
        return [value for value, _ in self._kept.values()]

    def __len__(self) -> int:
        return len(self._kept)


class Listeners(Generic[P]):
    """One kind of event: its source calls the object, and every part that was added hears of it, in order of adding."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: tuple[Callable[P, object], ...] = ()

    def add(self, listener: Callable[P, object]) -> None:
        self._listeners = (*self._listeners, listener)

    def remove(self, listener: Callable[P, object]) -> None:
        self._listeners = tuple(one for one in self._listeners if one != listener)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self._listeners:
            listener(*args, **kwargs)


class AwaitedListeners(Generic[P]):
    """The same for listeners that the source waits for, one after the other. An error of theirs is the source's."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: tuple[Callable[P, Awaitable[object]], ...] = ()

    def add(self, listener: Callable[P, Awaitable[object]]) -> None:
        self._listeners = (*self._listeners, listener)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self._listeners:
            await listener(*args, **kwargs)
