"""Fairness: a storm of upgrades, connects or refused requests costs the users who are connected nothing.

`Pace` starts few upgrades in one turn of the event loop, `Intake` takes few frames in one. `Permits` bounds how many
connects and resumes are under way. `PagesAtOnce` bounds the pages that one user reads at a time. `Bucket` bounds reads
that a stranger can cause. `PerUser` and `Owner` bound the HTTP connections of one user, because each may hold an answer
that nobody reads. `UnderWay` bounds the answers that are streamed. `Refusals` counts every refusal once. A user with
too many of them is read and answered slowly. Nobody is closed for it, and every answer comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from tidings.bounds import REFUSALS_PER_PERIOD_MAX, REFUSALS_PERIOD_S, REFUSED_WAITING_MAX
from tidings.clock import Clock
from tidings.errors import Held, Problem, RateLimited, StoreUnavailable
from tidings.operators.audit.events import Audit

FRAMES_AT_ONCE = 32  # of all sockets in one turn of the loop, and one more of each: about half a millisecond
_EVERYBODY = ""  # no user id


class Pace:
    """Runs so much work in one turn of the event loop, and the rest in the turns that follow, in its order.

    Without it the upgrades of many clients that reconnect would fill one turn, and every connected client would wait.
    """

    __slots__ = ("_is_counting", "_left", "_per_turn", "_waiting")

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._left = per_turn
        self._is_counting = False  # some work has begun in this turn
        self._waiting: deque[Callable[[], None]] = deque()

    def go(self, work: Callable[[], None]) -> bool:
        """Run the work at once where this turn has room, else later. False: later."""
        if self._waiting or not self._left:
            self._waiting.append(work)
            return False
        self._left -= 1
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        work()
        return True

    def _next_turn(self) -> None:
        loop = asyncio.get_running_loop()
        ready = [self._waiting.popleft() for _ in range(min(self._per_turn, len(self._waiting)))]
        self._left = self._per_turn - len(ready)
        self._is_counting = bool(ready)
        for work in ready:
            loop.call_soon(work)  # not called here: a failure must not take the others with it
        if ready:
            loop.call_soon(self._next_turn)


class Bucket:
    """Allows `most` in a row, and then one every `every_s`: for work that strangers can ask for."""

    def __init__(self, clock: Clock, most: int, every_s: float) -> None:
        self._clock = clock
        self._most = most
        self._every_s = every_s
        self._left = float(most)
        self._counted_s = clock.monotonic_s()

    def take(self) -> bool:
        now_s = self._clock.monotonic_s()
        left = min(self._left + (now_s - self._counted_s) / self._every_s, self._most)
        self._counted_s = now_s
        self._left = left - 1 if left >= 1 else left
        return left >= 1


class Late(Protocol):
    """A socket with frames that wait for a later turn."""

    def take_late(self) -> bool:
        """Take one of them. True: more of them wait."""
        ...


class Intake:
    """Bounds how many frames all sockets take in one turn of the event loop.

    The first frame of a socket in a turn never waits. Past FRAMES_AT_ONCE others wait for a later turn, in which the
    sockets take one frame each, one after another. So a burst of many sockets holds up nobody who says little.
    """

    __slots__ = ("_is_due", "_line", "_taken", "turn")

    def __init__(self) -> None:
        self.turn = 0
        self._taken = 0
        self._is_due = False  # the next turn is on its way
        self._line: deque[Late] = deque()

    def has_room(self) -> bool:
        """Count a frame. False: this turn has taken enough."""
        self._taken += 1
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)
        return self._taken <= FRAMES_AT_ONCE

    def wait(self, socket: Late) -> None:
        """Give the socket a place in the line."""
        self._line.append(socket)

    def _begin(self) -> None:
        self.turn, self._taken, self._is_due = self.turn + 1, 0, False
        while self._line and self.has_room():
            socket = self._line.popleft()
            if socket.take_late():
                self._line.append(socket)


class Permits:
    """Bounds how many connects and resumes are under way, and how many of them wait for a slow reader.

    Work that waits for a reader gives its permit back meanwhile, or a few slow readers would keep everybody else out.
    The number of those is bounded too, because each holds the entries that it has read.
    """

    def __init__(self, most: int, lent_max: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._lent_max = lent_max
        self._lent = 0

    def permit(self) -> Permit:
        """`async with permits.permit() as permit`"""
        return Permit(self)


class Permit:
    __slots__ = ("_is_held", "_is_lent", "_permits")

    def __init__(self, permits: Permits) -> None:
        self._permits = permits
        self._is_held = False
        self._is_lent = False

    async def __aenter__(self) -> Permit:
        await self._take()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._end_lending()
        if self._is_held:
            self._release()

    def give_back(self) -> bool:
        """Lend the permit until `take_again` has it back. False: too many are lent, and this one is kept."""
        permits = self._permits
        if permits._lent >= permits._lent_max:
            return False
        permits._lent += 1
        self._is_lent = True
        self._release()
        return True

    async def take_again(self) -> None:
        if not self._is_held:
            await self._take()
        self._end_lending()

    async def _take(self) -> None:
        await self._permits._free.acquire()
        self._is_held = True

    def _release(self) -> None:
        self._is_held = False
        self._permits._free.release()

    def _end_lending(self) -> None:
        if self._is_lent:
            self._is_lent = False
            self._permits._lent -= 1


class PagesAtOnce:
    """Bounds the pages of one user that are made at the same time; the next wait for their turn.

    Readers of the same page share one read and go on in the same turn of the loop. Without the bound, hundreds of pages
    of one user would be encoded in that turn, and everybody else would wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._users: dict[str, tuple[asyncio.Semaphore, list[None]]] = {}  # who is there, with a place for each page

    @asynccontextmanager
    async def of(self, user_id: str) -> AsyncIterator[None]:
        """`async with pages.of(user_id)`"""
        free, there = self._users.setdefault(user_id, (asyncio.Semaphore(self._most), []))
        there.append(None)
        try:
            async with free:
                yield
        finally:
            there.pop()
            if not there:
                del self._users[user_id]


class PerUser:
    """Counts the HTTP connections of each user."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[str, int] = {}

    def enter(self, user_id: str) -> bool:
        """Count one more. False: the user has too many."""
        count = self._counts.get(user_id, 0)
        if count < self._most:
            self._counts[user_id] = count + 1
        return count < self._most

    def leave(self, user_id: str) -> None:
        self._counts[user_id] -= 1
        if not self._counts[user_id]:
            del self._counts[user_id]


class UnderWay:
    """Bounds the answers that a node streams at the same time: those of one user, and all together."""

    def __init__(self, what: str, per_user_max: int, all_max: int) -> None:
        self._what = what
        self._per_user = PerUser(per_user_max)
        self._all = PerUser(all_max)

    def enter(self, user_id: str) -> None:
        """Count one more until `leave`. Raises StoreUnavailable."""
        if not self._per_user.enter(user_id):
            raise StoreUnavailable(f"too many {self._what} of this user are under way: wait for one of them")
        if not self._all.enter(_EVERYBODY):
            self._per_user.leave(user_id)
            raise StoreUnavailable(f"too many {self._what} are under way on this node")

    def leave(self, user_id: str) -> None:
        self._per_user.leave(user_id)
        self._all.leave(_EVERYBODY)

    async def until_end(self, user_id: str, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """The chunks. The answer leaves with the last one, or when the reader goes."""
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self.leave(user_id)


class Owner:
    """The user of an HTTP connection's last request. A request refers to its owner and not to the connection, or the
    two would refer to each other and be freed late."""

    __slots__ = ("_per_user", "_user_id", "is_gone", "is_streaming")

    def __init__(self, per_user: PerUser) -> None:
        self.is_streaming = False  # a large body is being read: it may take its time, as long as bytes come
        self._per_user = per_user
        self._user_id: str | None = None
        self.is_gone = False

    def become(self, user_id: str) -> bool:
        """Belong to this user from now on. False: the user has too many connections."""
        if user_id == self._user_id or self.is_gone:
            return True
        if not self._per_user.enter(user_id):
            return False
        self._leave()
        self._user_id = user_id
        return True

    async def streaming(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks of a large body. The time for a request begins anew with each of them."""
        self.is_streaming = True
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self.is_streaming = False

    def go(self) -> None:
        """The connection is gone, or it is a WebSocket now."""
        self._leave()
        self.is_gone = True

    def _leave(self) -> None:
        if self._user_id is not None:
            self._per_user.leave(self._user_id)
            self._user_id = None


class Refusals:
    """Counts refusals, and slows down users who are refused more than REFUSALS_PER_PERIOD_MAX times in a period.

    Frames of such a user are read no further until the next period. The flood waits in the sender's own buffers.
    """

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._counts: dict[str, int] = {}  # user -> refusals in this period
        self._over: set[str] = set()  # users who have used up this period
        # Users who have used up this period or the one before: of these, one request at a time is enough.
        self.hot: set[str] = set()
        self._waiting: dict[str, deque[Callable[[], None]]] = {}  # by user, the first first
        self._slow = 0  # answers that wait
        self._timer: asyncio.TimerHandle | None = None

    def note(self, user_id: str, problem: object) -> None:
        """Count the answer to a request, if a limit refuses it."""
        if isinstance(problem, RateLimited):
            self._count(user_id, problem.class_name)
        elif isinstance(problem, Held):
            self._count(user_id, problem.code)

    def _count(self, user_id: str, class_name: str) -> None:
        self._audit.rejected(class_name, user_id)
        count = self._counts[user_id] = self._counts.get(user_id, 0) + 1
        if count >= REFUSALS_PER_PERIOD_MAX:
            self._over.add(user_id)
            self.hot.add(user_id)
        if self._timer is None:
            self._begin_period()

    def sign_in_failed(self, way: str) -> None:
        """Count a failed sign-in by `ws` or `http`. `operator`: the token or key is good, but not for this request."""
        self._audit.sign_in_failed(way)

    def is_over(self, user_id: str) -> bool:
        """Whether the user has to wait for the next period."""
        return user_id in self._over

    def at_next_period(self, user_id: str, go_on: Callable[[], None]) -> None:
        """Call `go_on` in the next period with room: a period takes the same number however many connections wait."""
        self._waiting.setdefault(user_id, deque()).append(go_on)

    async def answer_slowly(self, user_id: str, problem: Problem) -> None:
        """Count the refusal. Returns when it is time to answer."""
        self.note(user_id, problem)
        if self.is_over(user_id) and self._slow < REFUSED_WAITING_MAX:
            is_time = asyncio.Event()
            self.at_next_period(user_id, is_time.set)
            self._slow += 1
            try:
                await is_time.wait()
            finally:
                self._slow -= 1

    def _begin_period(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(REFUSALS_PERIOD_S, self._end_period)

    def _end_period(self) -> None:
        """Periods follow each other while somebody is refused; then the timer rests."""
        self.hot, self._over = self._over | self._waiting.keys(), set()
        self._counts.clear()
        self._timer = None
        if self.hot:
            self._begin_period()
        loop = asyncio.get_running_loop()
        for user_id, waiting in list(self._waiting.items()):
            for _ in range(min(len(waiting), REFUSALS_PER_PERIOD_MAX)):
                loop.call_soon(waiting.popleft())  # not called here: a failure must not take the others with it
            if not waiting:
                del self._waiting[user_id]
