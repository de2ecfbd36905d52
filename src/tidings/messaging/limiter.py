"""The exact sliding window, one per user and class, so that reads and receipts never eat the send budget.

The window lives in the keyspace and uses its clock, so all nodes see one. A user who is refused until t is refused from
memory until t: exact, because no slot frees earlier, and it makes a flood free for the keyspace. While the keyspace is
down, classes other than `send` are counted on this node alone. Asked by admitting.py for sends, by the gateway for the
rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tidings.clock import Clock
from tidings.errors import RateLimited, Unavailable
from tidings.messaging.limits import Limit, Limits
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.scripts import Admitted, Scripts

T = TypeVar("T")
_ROOMY = 4  # a user with a quarter of a window left, and who wants no more than that, is expected to be admitted
_LOCAL_USERS_MAX = 100_000  # users remembered as refused, or counted while the keyspace is down


class Budget(msgspec.Struct, frozen=True, gc=False):
    limit: int
    remaining: int
    reset_ms: int


class Limiter:
    """Asked once per request, or once per user and batch."""

    def __init__(self, keyspace: Keyspace, scripts: Scripts, clock: Clock, limits: Limits) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._clock = clock
        self.limits = limits
        self._refused_until_s: dict[tuple[str, str], float] = {}
        self._tight_until_s: dict[tuple[str, str], float] = {}
        self._bets: dict[tuple[str, str], int] = {}  # requests under way that are expected to be admitted
        self._local: dict[tuple[str, str], deque[float]] = {}
        self._token = clock.random_id(6)
        self._calls = 0
        self._changes = 0  # of limits

    def count_max(self, class_name: str, user_id: str) -> int:
        """Requests of the user in a window; 0: the class is off."""
        limit = self.limits.of(class_name, user_id)
        return limit.count if limit else 0

    def know(self, user_id: str, role: str | None) -> None:
        """A token of the user was verified: this is the role it names."""
        self.limits.know(user_id, role)

    def payer(self, key_id: str, key_name: str, role: str, user_id: str | None) -> str:
        """Whose budget a request with an API key is on."""
        return self.limits.payer(key_id, key_name, role, user_id)

    def forget(self) -> None:
        """Somebody's limit is another one now: who was refused under the old one is asked for again."""
        self._changes += 1
        self._refused_until_s.clear()
        self._tight_until_s.clear()

    async def admit(self, class_name: str, user_id: str) -> Budget:
        """One request. Raises RateLimited."""
        question = self.ask(class_name, [(user_id, 1)])
        return await self._admit(question, self._replies(question))

    async def admit_beside(self, class_name: str, user_id: str, read: Coroutine[Any, Any, T]) -> T:
        """One request that changes nothing: it is read while the keyspace is asked, unless a refusal is to be expected.
        Raises RateLimited, whatever the reading came to."""
        question = self.ask(class_name, [(user_id, 1)])
        if question.is_tight:
            try:
                await self._admit(question, self._replies(question))
            except BaseException:
                read.close()
                raise
            return await read
        replies = self._keyspace.begin(question.calls) if question.calls else self._replies(question)
        try:
            return await read
        finally:
            await self._admit(question, replies)

    async def admit_many(self, class_name: str, wanted: Sequence[tuple[str, int]]) -> list[Admission]:
        """(user_id, how many) each, in one round trip. Raises Unavailable."""
        question = self.ask(class_name, wanted)
        return self.answered(question, await self._replies(question))

    def ask(self, class_name: str, wanted: Sequence[tuple[str, int]]) -> Question:
        """The calls to make, by whoever has more to ask in the same round trip; `answered` takes their replies."""
        question = Question(class_name, wanted, self._changes, self._clock.monotonic_s())
        for user_id, count in wanted:
            limit = self.limits.of(class_name, user_id)
            question.limits.append(limit)
            if limit is None:
                question.answers.append(Admission(count, count, 0, 0, ""))
                continue
            refused = self._refused_locally(class_name, user_id)
            question.answers.append(refused)
            if refused is None:
                question.tokens.append(self._next_token())
                question.calls.append(
                    self._scripts.limiter_admit(
                        user_id,
                        class_name,
                        window_us=limit.window_s * 1_000_000,
                        limit=limit.count,
                        wanted=count,
                        token=question.tokens[-1],
                    )
                )
            question.is_tight |= refused is not None or self._is_tight(class_name, user_id, count, limit)
        return question

    def bet(self, question: Question, sign: int) -> None:
        """1: all of these are expected to be admitted, and something is done on it; -1: that is over."""
        for user_id, count in question.wanted:
            key = (question.class_name, user_id)
            self._bets[key] = self._bets.get(key, 0) + sign * count
            if not self._bets[key]:
                del self._bets[key]

    def answered(self, question: Question, replies: Sequence[Admitted]) -> list[Admission]:
        complete: list[Admission] = []
        fresh = zip(question.tokens, replies, strict=True)
        asked = zip(question.wanted, question.limits, question.answers, strict=True)
        for (user_id, count), limit, answer in asked:
            if answer is None:
                assert limit is not None
                token, reply = next(fresh)
                if question.changes == self._changes:
                    self._remember(question, user_id, count, limit, reply)
                answer = Admission(reply.admitted, reply.remaining, reply.retry_after_us, reply.reset_us, token)
            complete.append(answer)
        return complete

    async def give_back(self, class_name: str, slots: Mapping[str, Sequence[str]]) -> None:
        """user_id -> slots that turned out to be for messages stored before: a resend is free."""
        calls = []
        for user_id, names in slots.items():
            key = self._scripts.keys.rate(user_id, class_name)
            calls.append(plain(key, b"ZREM", key, *names))
        if calls:
            await self._keyspace.run(calls)
        for user_id in slots:
            self._refused_until_s.pop((class_name, user_id), None)

    async def budgets(self, user_id: str) -> dict[str, Budget]:
        """What is left of each class, without using any of it."""
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

    async def _replies(self, question: Question) -> Sequence[Admitted]:
        return await self._keyspace.run(question.calls) if question.calls else ()

    async def _admit(self, question: Question, replies: Awaitable[Sequence[Admitted]]) -> Budget:
        """A question about one request. Raises RateLimited."""
        class_name, ((user_id, _),), (limit,) = question.class_name, question.wanted, question.limits
        try:
            (answer,) = self.answered(question, await replies)
        except Unavailable:
            answer = self._admit_locally(class_name, user_id)
        count = limit.count if limit else 0
        if not answer.admitted:
            raise RateLimited(retry_after_ms=_ms(answer.retry_after_us), limit=count, class_name=class_name)
        return Budget(count, answer.remaining, _ms(answer.reset_us))

    def _next_token(self) -> str:
        self._calls += 1
        return f"{self._token}{self._calls:x}"

    def _is_tight(self, class_name: str, user_id: str, count: int, limit: Limit) -> bool:
        """Whether a refusal is to be expected: more is wanted than a part, or no more than a part was left lately."""
        if (count + self._bets.get((class_name, user_id), 0)) * _ROOMY > limit.count:
            return True
        until_s = self._tight_until_s.get((class_name, user_id))
        return until_s is not None and until_s > self._clock.monotonic_s()

    def _refused_locally(self, class_name: str, user_id: str) -> Admission | None:
        until_s = self._refused_until_s.get((class_name, user_id))
        if until_s is None:
            return None
        left_s = until_s - self._clock.monotonic_s()
        if left_s <= 0:
            del self._refused_until_s[class_name, user_id]
            return None
        return Admission(0, 0, int(left_s * 1e6) + 1, 0, "", is_local=True)

    def _remember(self, question: Question, user_id: str, wanted: int, limit: Limit, reply: Admitted) -> None:
        """From when it was asked: the answer may have been looked at late, and no slot frees earlier than it said."""
        key, asked_s = (question.class_name, user_id), question.asked_s
        if reply.remaining * _ROOMY < limit.count:
            if len(self._tight_until_s) >= _LOCAL_USERS_MAX:
                self._tight_until_s.clear()  # only costs numbers that are given up
            self._tight_until_s[key] = asked_s + limit.window_s
        if reply.admitted < wanted and reply.retry_after_us > 0:
            if len(self._refused_until_s) >= _LOCAL_USERS_MAX:
                self._refused_until_s.clear()  # only costs a question to the keyspace
            self._refused_until_s[key] = asked_s + reply.retry_after_us / 1e6

    def _admit_locally(self, class_name: str, user_id: str) -> Admission:
        limit = self.limits.of(class_name, user_id)
        if limit is None:
            return Admission(1, 1, 0, 0, "")
        now_s = self._clock.monotonic_s()
        if len(self._local) >= _LOCAL_USERS_MAX:
            self._local.clear()
        recent = self._local.setdefault((class_name, user_id), deque())
        while recent and recent[0] <= now_s - limit.window_s:
            recent.popleft()
        if len(recent) >= limit.count:
            oldest_s = recent[0] if recent else now_s
            return Admission(0, 0, int((oldest_s + limit.window_s - now_s) * 1e6) + 1, 0, "")
        recent.append(now_s)
        return Admission(1, limit.count - len(recent), 0, limit.window_s * 1_000_000, "")


class Question:
    """How many of each user's requests may pass? What is known at once, and the calls that ask for the rest."""

    __slots__ = ("answers", "asked_s", "calls", "changes", "class_name", "is_tight", "limits", "tokens", "wanted")

    def __init__(self, class_name: str, wanted: Sequence[tuple[str, int]], changes: int, asked_s: float) -> None:
        self.class_name = class_name
        self.wanted = wanted
        self.changes = changes  # of limits, when it was asked
        self.asked_s = asked_s
        self.limits: list[Limit | None] = []  # of each one
        self.answers: list[Admission | None] = []  # None: asked for
        self.calls: list[Call[Admitted]] = []
        self.tokens: list[str] = []
        self.is_tight = False  # somebody is likely to be refused


class Admission(msgspec.Struct, frozen=True, gc=False):
    """How many of the wanted requests may pass, the first ones first."""

    admitted: int
    remaining: int
    retry_after_us: int
    reset_us: int
    token: str  # the slots are token:1, token:2, …, for give_back; empty: there are none
    is_local: bool = False  # refused from memory


def _ms(us: int) -> int:
    return -(-us // 1000)
