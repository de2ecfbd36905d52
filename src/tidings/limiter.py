"""The rate limiter on its own, for any program: an exact sliding window on a Valkey or Redis that many processes share.

    async with Limiter("redis://localhost:6379", "100/60s") as limiter:
        if await limiter.admit("alice"): ...

It is the limiter of the server, with the same script: who is refused until t is refused from memory until t. When the
keyspace does not answer, `admit` raises `Unavailable`: whether to let people in then is the caller's decision.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

import msgspec

from tidings import config_values
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.messaging.limiter import Limiter as Window
from tidings.messaging.limits import Limit, Limits
from tidings.stores.keys import Keys
from tidings.stores.keyspace_cluster import ClusterKeyspace, open_cluster
from tidings.stores.keyspace_remote import SingleKeyspace, open_keyspace
from tidings.stores.keyspace_wire import without_prefix
from tidings.stores.scripts import SOURCES, Scripts

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
        self._keyspace: SingleKeyspace | ClusterKeyspace | None = None
        self._window: Window | None = None
        self._opening: asyncio.Task[Window] | None = None  # the first questions may come all at once: they share it

    async def __aenter__(self) -> Limiter:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Window:
        """Connected. Raises Unavailable."""
        if self._window is not None:
            return self._window
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), name="limiter")
        return await asyncio.shield(self._opening)  # who gives up waiting does not end it for the others

    async def _open(self) -> Window:
        try:
            open_any = open_cluster if self._url.startswith("redis+cluster:") else open_keyspace
            self._keyspace = await open_any(self._url, [SOURCES["limiter_admit"]], self._clock)
            self._window = Window(self._keyspace, self._scripts, self._clock, Limits({_CLASS: self._limit}))
            return self._window
        finally:
            self._opening = None  # after a failure the next question tries anew

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])  # it ends by itself, within the time of one attempt
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
        [answer] = await window.admit_many(_CLASS, [(_checked(key), count)])
        if answer.admitted == count:
            return Verdict(True, self._limit.count, answer.remaining, 0)
        taken = [f"{answer.token}:{number}" for number in range(1, answer.admitted + 1)]
        if taken:
            await window.give_back(_CLASS, {key: taken})
        return Verdict(False, self._limit.count, answer.remaining + len(taken), -(-answer.retry_after_us // 1000))

    async def peek(self, key: str) -> Verdict:
        """What `admit` would say, without using anything up."""
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
    return Limit(limit.count, limit.window_s)


def _checked(key: str) -> str:
    """Braces are the marks of a key's slot."""
    if not 0 < len(key) <= _KEY_CHARS_MAX or "{" in key or "}" in key:
        raise ValueError(f"a key has 1 to {_KEY_CHARS_MAX} characters and no braces")
    return key
