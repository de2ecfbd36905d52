"""Who was there on which day: how many users a day had, and the days of one user.

A user is there on a day (of UTC) if connected at some time of it, or if a REST request was made. A node notes each
user once a day and writes many at a time, later, beside everything else: nothing waits for it. A hyperloglog a day
counts users to within a percent, in 12 KB whatever their number; a bitmap a user has one bit a day. Both may be written
twice without harm, and both are forgotten with the keyspace. The gateway notes; the admin page asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.keys import Keys

log = logging.getLogger("tidings.activity")

FIRST_DAY = date(2025, 1, 1)  # bit 0 of every bitmap


class Activity:
    """`connected` answers the users who are connected to this node."""

    def __init__(self, keyspace: Keyspace, keys: Keys, clock: Clock, connected: Callable[[], Iterable[str]]) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._clock = clock
        self._connected = connected
        self._day = self._today()
        self._seen: set[str] = set()  # today
        self._waiting: set[str] = set()  # of these, not written yet
        self._task: asyncio.Task[None] | None = None

    def note(self, user_id: str) -> None:
        """The user is there. Never blocks."""
        if user_id in self._seen:
            return
        if len(self._seen) >= bounds.ACTIVITY_USERS_MAX:
            self._seen = set(self._waiting)
        self._seen.add(user_id)
        self._waiting.add(user_id)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._write(), name="activity")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self.flush()
        except StoreError as error:
            log.info("who was there last is forgotten: %s", error)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(bounds.ACTIVITY_WRITE_S)
            try:
                await self.flush()
            except StoreError as error:
                log.debug("activity waits for the keyspace: %s", error)
            except Exception:
                log.exception("writing activity failed")

    async def flush(self) -> None:
        """Raises StoreError: what was not written is written next time."""
        self._turn_day()
        while self._waiting:
            some = [user_id for user_id, _ in zip(self._waiting, range(bounds.ACTIVITY_WRITE_MAX), strict=False)]
            await self._keyspace.run(self._calls(some))
            self._waiting.difference_update(some)

    def _turn_day(self) -> None:
        """A new day: those who are still connected are there on it too."""
        today = self._today()
        if today != self._day:
            self._day = today
            self._seen = set(self._waiting)
            for user_id in self._connected():
                self.note(user_id)

    def _calls(self, user_ids: list[str]) -> list[Call[object]]:
        active, bit = self._keys.active(_text(self._day)), (self._day - FIRST_DAY).days
        calls = [plain(active, b"PFADD", active, *user_ids), plain(active, b"EXPIRE", active, bounds.ACTIVE_TTL_S)]
        for user_id in user_ids:
            key = self._keys.days(user_id)
            calls += [plain(key, b"SETBIT", key, bit, 1), plain(key, b"EXPIRE", key, bounds.DAYS_TTL_S)]
        return calls

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).date()

    # --- what others ask --------------------------------------------------------------------------

    async def daily_actives(self, days: int = 30) -> list[tuple[date, int]]:
        """How many users each of the last days had, the oldest first, today included. Raises StoreError."""
        asked = self._last(days)
        keys = [self._keys.active(_text(day)) for day in asked]
        counts = await self._keyspace.run([plain(key, b"PFCOUNT", key) for key in keys])
        return list(zip(asked, counts, strict=True))

    async def actives(self, days: int) -> int:
        """How many users the last days had together: 7 for a week. Raises StoreError."""
        keys = [self._keys.active(_text(day)) for day in self._last(days)]
        return int(await self._keyspace.one(plain(keys[0], b"PFCOUNT", *keys)))

    async def active_days(self, user_id: str) -> list[date]:
        """The days on which the user was there, the oldest first. Raises StoreError."""
        key = self._keys.days(user_id)
        bits: bytes = await self._keyspace.one(plain(key, b"GET", key)) or b""
        return [FIRST_DAY + timedelta(days=at) for at in range(len(bits) * 8) if bits[at // 8] & (0x80 >> at % 8)]

    def _last(self, days: int) -> list[date]:
        today = self._today()
        return [today - timedelta(days=back) for back in reversed(range(min(days, bounds.ACTIVE_DAYS_MAX)))]


def _text(day: date) -> str:
    return day.strftime("%Y%m%d")
