"""The rate limiter on its own, for any program: an exact sliding window on a Valkey or Redis that many processes share.

    async with Limiter("redis://localhost:6379", "100/60s") as limiter:
        if await limiter.admit("alice"): ...

It is the limiter of the server, with the same script: who is refused until t is refused from memory until t. When the
keyspace does not answer, `admit` raises `Unavailable`: whether to let people in then is the caller's decision.
"""

from __future__ import annotations

from types import TracebackType

import msgspec

from tidings.bounds import Limit
from tidings.clock import Clock
from tidings.config import values as config_values
from tidings.errors import Unavailable
from tidings.messaging.limits.limiter import Limiter as Window
from tidings.messaging.limits.policy import Limits
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.open import AnyKeyspace, open_any
from tidings.stores.keyspace.scripts.messaging import SOURCES, Scripts
from tidings.stores.keyspace.wire import without_prefix
from tidings.tasks import SingleFlight

__all__ = ["Limiter", "Unavailable", "Verdict"]

_CLASS = "alone"  # part of the key: never that of a server's own classes
_KEY_CHARS_MAX = 512


class Verdict(msgspec.Struct, frozen=True):
    """True when the request may pass."""

    is_admitted: bool
    limit: int
    remaining: int
    retry_after_ms: int  # until a request may pass; 0: now

    def __bool__(self) -> bool:
        return self.is_admitted


class Limiter:
    """`limit` is N/SECONDSs, as in the settings of a server. Opened by `async with`, or by the first question."""

    def __init__(self, url: str, limit: str, *, clock: Clock | None = None) -> None:
        """Raises ValueError."""
        self._url, prefix = without_prefix(url)
        self._limit = _limit(limit)
        self._clock = clock or Clock()
        self._scripts = Scripts(Keys(prefix), unread_cap=1, unread_ttl_s=1)
        self._keyspace: AnyKeyspace | None = None
        self._window: Window | None = None
        self._opening = SingleFlight(self._open)  # the first questions may come all at once: they share it

    async def __aenter__(self) -> Limiter:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Window:
        """Connected. Raises Unavailable."""
        return self._window if self._window is not None else await self._opening()

    async def _open(self) -> Window:
        self._keyspace = await open_any(self._url, [SOURCES["limiter_admit"]], self._clock)
        self._window = Window(self._keyspace, self._scripts, self._clock, Limits({_CLASS: self._limit}))
        return self._window

    async def close(self) -> None:
        await self._opening.settle()  # an attempt ends by itself, within its own time limit
        keyspace, self._keyspace, self._window = self._keyspace, None, None
        if keyspace is not None:
            await keyspace.close()

    async def admit(self, key: str, count: int = 1) -> Verdict:
        """May `count` requests of `key` (a user, an address, anything) pass now? All of them, or none.

        Raises Unavailable, and ValueError for a key that cannot be one, or more requests than can ever pass together.
        """
        if not 1 <= count <= self._limit.count:
            raise ValueError(f"1 to {self._limit.count} requests may pass together, not {count}")
        window = await self.open()
        [answer] = await window.admit_many(_CLASS, [(_checked(key), count)], is_whole=True)
        is_admitted = answer.admitted == count
        wait_ms = 0 if is_admitted else -(-answer.retry_after_us // 1000)
        return Verdict(is_admitted, self._limit.count, answer.remaining, wait_ms)

    async def peek(self, key: str) -> Verdict:
        """Return the answer that `admit` would give, and use nothing up."""
        window = await self.open()
        budget = (await window.budgets(_checked(key)))[_CLASS]
        return Verdict(budget.remaining > 0, budget.limit, budget.remaining, budget.reset_ms)


def _limit(text: str) -> Limit:
    try:
        limit = config_values.limit(text)
    except config_values.SettingsError as error:
        raise ValueError(str(error)) from None
    if limit is None:
        raise ValueError("a limit that is off limits nobody")
    return limit


def _checked(key: str) -> str:
    """Braces are the marks of a key's slot."""
    if not 0 < len(key) <= _KEY_CHARS_MAX or "{" in key or "}" in key:
        raise ValueError(f"a key has 1 to {_KEY_CHARS_MAX} characters and no braces")
    return key
