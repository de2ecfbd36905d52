"""The limiter: an exact sliding window for each user and class, so that reads and receipts never use the send budget.

The window lives in the keyspace and uses its clock, so all nodes share it. A user who is refused until t is refused
from memory until t. That is exact, because no slot frees earlier, and a flood then costs the keyspace nothing. While
the keyspace is down, classes other than `send` are counted on this node alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from tidings.bounds import Limit
from tidings.clock import Clock
from tidings.errors import RateLimited, Unavailable
from tidings.messaging.limits.in_flight import InFlight
from tidings.messaging.limits.policy import Limits
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.scripts.answers import Admitted
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.tasks import Recent

_ROOMY = 4  # a user who wants at most the free quarter of a window is expected to be admitted
_LOCAL_USERS_MAX = 100_000  # users remembered as refused, or counted while the keyspace is down


class Budget(msgspec.Struct, frozen=True, gc=False):
    limit: int
    remaining: int
    reset_ms: int


class Limiter:
    """Admits one request, or all requests of a user in a batch."""

    def __init__(self, keyspace: Keyspace, scripts: Scripts, clock: Clock, limits: Limits) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._clock = clock
        self.limits = limits
        self.in_flight = InFlight()
        # until when, and the least cost that is refused: a dear request may be refused where a cheap one passes
        self._refused_until_s = Recent[tuple[str, str], tuple[float, int]](_LOCAL_USERS_MAX)
        self._near_limit_until_s = Recent[tuple[str, str], float](_LOCAL_USERS_MAX)
        self._reserved: dict[tuple[str, str], int] = {}  # requests under way that are expected to be admitted
        self._local = Recent[tuple[str, str], deque[float]](_LOCAL_USERS_MAX)
        self._token = clock.random_id(6)
        self._calls = 0
        self._changes = 0  # how often limits changed

    def count_max(self, class_name: str, user_id: str) -> int:
        """The most requests of the user in a window; 0: the class is off."""
        limit = self.limits.of(class_name, user_id)
        return limit.count if limit else 0

    def server_of(self, class_name: str, user_id: str) -> str:
        """The server that has the user's budget: requests of users on others need not wait for it."""
        return self._keyspace.server_of(self._scripts.keys.rate(user_id, class_name))

    def know(self, user_id: str, role: str | None) -> None:
        """Remember the role that the last verified token of the user names."""
        self.limits.know(user_id, role)

    def payer(self, key_id: str, key_name: str, role: str, user_id: str | None) -> str:
        """The id whose budget a request with an API key uses."""
        return self.limits.payer(key_id, key_name, role, user_id)

    def forget(self) -> None:
        """Some limit changed: forget the users who were refused, so that the keyspace is asked again."""
        self._changes += 1
        self._refused_until_s.clear()
        self._near_limit_until_s.clear()

    async def admit(self, class_name: str, user_id: str, cost: int = 1) -> Budget:
        """Admit one request that takes `cost` slots, or refuse it and take none. Raises RateLimited.

        A request that costs more than the limit takes a whole window.
        """
        check = self.prepare(class_name, [(user_id, self._payable(class_name, user_id, cost))], is_whole=True)
        return await self._admit(check, self._replies(check))

    async def admit_each(self, class_name: str, wanted: Sequence[tuple[str, int]]) -> list[RateLimited | None]:
        """Admit one request of each user (user_id, cost) in one round trip. Returns the refusals; None: admitted."""
        wanted = [(user_id, self._payable(class_name, user_id, cost)) for user_id, cost in wanted]
        return [refusal for _, refusal in await self._granted(class_name, wanted, is_whole=True)]

    async def admit_first(
        self, class_name: str, wanted: Sequence[tuple[str, int]]
    ) -> list[tuple[int, RateLimited | None]]:
        """Admit the first requests of each user (user_id, count), as many as the budget has, in one round trip.

        Returns how many pass, and the refusal of those behind them; None: all pass."""
        return await self._granted(class_name, wanted, is_whole=False)

    async def _granted(
        self, class_name: str, wanted: Sequence[tuple[str, int]], *, is_whole: bool
    ) -> list[tuple[int, RateLimited | None]]:
        check = self.prepare(class_name, wanted, is_whole=is_whole)
        try:
            answers = self.decide(check, await self._replies(check))
        except Unavailable:
            answers = [self._admit_locally(class_name, user_id, cost, is_whole) for user_id, cost in wanted]
        asked = zip(wanted, check.limits, answers, strict=True)
        return [
            (answer.admitted, _refusal(class_name, limit, answer) if answer.admitted < cost else None)
            for (_, cost), limit, answer in asked
        ]

    @asynccontextmanager
    async def admitted(self, class_name: str, user_id: str, cost: int = 1) -> AsyncIterator[None]:
        """`async with limiter.admitted(...)`: one request that changes nothing, such as a page.

        The block runs while the keyspace is asked, unless a refusal is likely: then the block waits for the answer.
        Raises RateLimited at the end of the block, whatever the block came to."""
        check = self.prepare(class_name, [(user_id, self._payable(class_name, user_id, cost))], is_whole=True)
        if check.is_refusal_likely:
            await self._admit(check, self._replies(check))
            yield
            return
        replies = self._keyspace.begin(check.calls) if check.calls else self._replies(check)
        try:
            yield
        finally:
            await self._admit(check, replies)

    async def admit_many(
        self, class_name: str, wanted: Sequence[tuple[str, int]], *, is_whole: bool = False
    ) -> list[Admission]:
        """Admit (user_id, count) pairs in one round trip; `is_whole`: all requests of a user or none.

        Raises Unavailable.
        """
        check = self.prepare(class_name, wanted, is_whole=is_whole)
        return self.decide(check, await self._replies(check))

    def prepare(self, class_name: str, wanted: Sequence[tuple[str, int]], *, is_whole: bool = False) -> LimitCheck:
        """The check and its calls, for a caller with more to ask in the same round trip. `decide` takes the replies."""
        check = LimitCheck(class_name, wanted, self._changes, self._clock.monotonic_s(), is_whole)
        for user_id, count in wanted:
            limit = self.limits.of(class_name, user_id)
            check.limits.append(limit)
            if limit is None:
                check.answers.append(Admission(count, count, 0, 0, ""))
                continue
            refused = self._refused_locally(class_name, user_id, count if is_whole else 1)
            check.answers.append(refused)
            if refused is None:
                check.tokens.append(self._next_token())
                check.calls.append(
                    self._scripts.limiter_admit(
                        user_id,
                        class_name,
                        window_us=limit.window_s * 1_000_000,
                        limit=limit.count,
                        wanted=count,
                        token=check.tokens[-1],
                        is_whole=is_whole,
                    )
                )
            check.is_refusal_likely |= refused is not None or self._is_refusal_likely(class_name, user_id, count, limit)
        return check

    def reserve(self, check: LimitCheck) -> None:
        """Count these requests as admitted while the keyspace is asked about them, until `release`."""
        for user_id, count in check.wanted:
            key = (check.class_name, user_id)
            self._reserved[key] = self._reserved.get(key, 0) + count

    def release(self, check: LimitCheck) -> None:
        for user_id, count in check.wanted:
            key = (check.class_name, user_id)
            self._reserved[key] -= count
            if not self._reserved[key]:
                del self._reserved[key]

    def decide(self, check: LimitCheck, replies: Sequence[Admitted]) -> list[Admission]:
        complete: list[Admission] = []
        fresh = zip(check.tokens, replies, strict=True)
        asked = zip(check.wanted, check.limits, check.answers, strict=True)
        for (user_id, count), limit, answer in asked:
            if answer is None:
                assert limit is not None
                token, reply = next(fresh)
                if check.changes == self._changes:
                    self._remember(check, user_id, count, limit, reply)
                answer = Admission(reply.admitted, reply.remaining, reply.retry_after_us, reply.reset_us, token)
            complete.append(answer)
        return complete

    async def give_back(self, class_name: str, slots: Mapping[str, Sequence[str]]) -> None:
        """Free slots (user_id -> slots) of messages that were stored before: a resend costs nothing."""
        calls = []
        for user_id, names in slots.items():
            key = self._scripts.keys.rate(user_id, class_name)
            calls.append(plain(key, b"ZREM", key, *names))
        if calls:
            await self._keyspace.run(calls)
        for user_id in slots:
            self._refused_until_s.pop((class_name, user_id), None)

    async def budgets(self, user_id: str) -> dict[str, Budget]:
        """The remaining budget of each class. It uses nothing up."""
        classes = [(name, self.limits.of(name, user_id)) for name in self.limits.classes_of(user_id)]
        named = [(name, limit) for name, limit in classes if limit is not None]
        calls = [
            self._scripts.limiter_admit(
                user_id, name, window_us=limit.window_s * 1_000_000, limit=limit.count, wanted=0, token="-"
            )
            for name, limit in named
        ]
        replies = await self._keyspace.run(calls)
        return {
            name: Budget(limit.count, reply.remaining, _ms(reply.retry_after_us))
            for (name, limit), reply in zip(named, replies, strict=True)
        }

    async def _replies(self, check: LimitCheck) -> Sequence[Admitted]:
        return await self._keyspace.run(check.calls) if check.calls else ()

    async def _admit(self, check: LimitCheck, replies: Awaitable[Sequence[Admitted]]) -> Budget:
        """The check of one request. Raises RateLimited."""
        class_name, ((user_id, cost),), (limit,) = check.class_name, check.wanted, check.limits
        try:
            (answer,) = self.decide(check, await replies)
        except Unavailable:
            answer = self._admit_locally(class_name, user_id, cost)
        if answer.admitted < cost:
            raise _refusal(class_name, limit, answer)
        return Budget(limit.count if limit else 0, answer.remaining, _ms(answer.reset_us))

    def _payable(self, class_name: str, user_id: str, cost: int) -> int:
        """The cost, or the whole limit where that is less: an expensive request must be able to pass."""
        limit = self.limits.of(class_name, user_id)
        return cost if limit is None else min(cost, max(1, limit.count))

    def _next_token(self) -> str:
        self._calls += 1
        return f"{self._token}{self._calls:x}"

    def _is_refusal_likely(self, class_name: str, user_id: str, count: int, limit: Limit) -> bool:
        """True: a refusal is likely, because much is wanted, or because little was left a moment ago."""
        if (count + self._reserved.get((class_name, user_id), 0)) * _ROOMY > limit.count:
            return True
        until_s = self._near_limit_until_s.get((class_name, user_id))
        return until_s is not None and until_s > self._clock.monotonic_s()

    def _refused_locally(self, class_name: str, user_id: str, cost: int) -> Admission | None:
        until_s, refused_cost = self._refused_until_s.get((class_name, user_id), (0.0, 0))
        if cost < refused_cost or not refused_cost:
            return None
        left_s = until_s - self._clock.monotonic_s()
        if left_s <= 0:
            del self._refused_until_s[class_name, user_id]
            return None
        return Admission(0, 0, int(left_s * 1e6) + 1, 0, "", is_local=True)

    def _remember(self, check: LimitCheck, user_id: str, wanted: int, limit: Limit, reply: Admitted) -> None:
        """Count from the time of the question: the answer may be read late, and no slot frees earlier than it says."""
        key, asked_s = (check.class_name, user_id), check.asked_s
        if reply.remaining * _ROOMY < limit.count:
            self._near_limit_until_s.put(key, asked_s + limit.window_s)  # forgotten: numbers may be given up
        if reply.admitted < wanted and reply.retry_after_us > 0:
            cost = wanted if check.is_whole else 1
            # If this is forgotten, the keyspace is asked.
            self._refused_until_s.put(key, (asked_s + reply.retry_after_us / 1e6, cost))

    def _admit_locally(self, class_name: str, user_id: str, cost: int, is_whole: bool = True) -> Admission:
        limit = self.limits.of(class_name, user_id)
        if limit is None:
            return Admission(cost, cost, 0, 0, "")
        now_s = self._clock.monotonic_s()
        recent = self._local.get((class_name, user_id)) or deque()
        self._local.put((class_name, user_id), recent)
        while recent and recent[0] <= now_s - limit.window_s:
            recent.popleft()
        free = max(0, limit.count - len(recent))
        admitted = cost if cost <= free else 0 if is_whole else free
        recent.extend([now_s] * admitted)
        if admitted == cost:
            return Admission(cost, free - cost, 0, limit.window_s * 1_000_000, "")
        over = len(recent) + (cost if is_whole else 1) - limit.count
        last_out_s = recent[min(over, len(recent)) - 1] if recent else now_s
        return Admission(admitted, 0, int((last_out_s + limit.window_s - now_s) * 1e6) + 1, 0, "")


@dataclass(slots=True)
class LimitCheck:
    """One question to the limiter: how many of each user's requests may pass? `calls` ask what memory cannot answer."""

    class_name: str
    wanted: Sequence[tuple[str, int]]
    changes: int  # changes of limits before the question
    asked_s: float
    is_whole: bool  # all requests of a user pass, or none
    limits: list[Limit | None] = field(default_factory=list)  # one for each user
    answers: list[Admission | None] = field(default_factory=list)  # None: the keyspace is asked
    calls: list[Call[Admitted]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    is_refusal_likely: bool = False  # of at least one user


class Admission(msgspec.Struct, frozen=True, gc=False):
    """The number of wanted requests that may pass, in their order."""

    admitted: int
    remaining: int
    retry_after_us: int
    reset_us: int
    token: str  # the slots are token:1, token:2, …, for give_back; empty: no slot was used
    is_local: bool = False  # refused from memory


def _refusal(class_name: str, limit: Limit | None, answer: Admission) -> RateLimited:
    count = limit.count if limit else 0
    return RateLimited(retry_after_ms=_ms(answer.retry_after_us), limit=count, class_name=class_name)


def _ms(us: int) -> int:
    return -(-us // 1000)
