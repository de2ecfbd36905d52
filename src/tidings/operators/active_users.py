"""Active users: the number of users of each day, and the days of one user.

A user is active on a day (of UTC) if the user was connected at some time of it, or made a REST request. A node notes
each user once a day and writes many users at a time, in the background: nothing waits for it. One hyperloglog a day
counts users to within a percent, in 12 KB for any number; one bitmap a user has one bit a day. Both may be written
twice without harm, and both are lost with the keyspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta

from tidings import bounds
from tidings.clock import Clock
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.tasks import Loop

FIRST_DAY = date(2025, 1, 1)  # bit 0 of every bitmap


class ActiveUsers:
    """`connected` lists the users who are connected to this node."""

    def __init__(self, keyspace: Keyspace, keys: Keys, clock: Clock, connected: Callable[[], Iterable[str]]) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._clock = clock
        self._connected = connected
        self._day = self._today()
        self._seen: set[str] = set()  # users of today
        self._waiting: set[str] = set()  # users of today that are not written yet
        self.loop = Loop("activity", lambda: bounds.ACTIVITY_WRITE_S, self.flush, at_end=self.flush)

    def note(self, user_id: str) -> None:
        """Record that the user is active today. Never blocks."""
        if user_id in self._seen:
            return
        if len(self._seen) >= bounds.ACTIVITY_USERS_MAX:
            self._seen = set(self._waiting)
        self._seen.add(user_id)
        self._waiting.add(user_id)

    async def flush(self) -> None:
        """Write the waiting users. Raises StoreError: the next flush writes the rest."""
        self._turn_day()
        while self._waiting:
            some = [user_id for user_id, _ in zip(self._waiting, range(bounds.ACTIVITY_WRITE_MAX), strict=False)]
            await self._keyspace.run(self._calls(some))
            self._waiting.difference_update(some)

    def _turn_day(self) -> None:
        """On a new day, record the users who are still connected."""
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

    # --- reading ----------------------------------------------------------------------------------

    async def daily_actives(self, days: int = 30) -> list[tuple[date, int]]:
        """The number of users of each of the last days, the oldest first, today included. Raises StoreError."""
        asked = self._last(days)
        keys = [self._keys.active(_text(day)) for day in asked]
        counts = await self._keyspace.run([plain(key, b"PFCOUNT", key) for key in keys])
        return list(zip(asked, counts, strict=True))

    async def actives(self, days: int) -> int:
        """The number of different users of the last days: 7 for a week. Raises StoreError."""
        keys = [self._keys.active(_text(day)) for day in self._last(days)]
        return int(await self._keyspace.one(plain(keys[0], b"PFCOUNT", *keys)))

    async def active_days(self, user_id: str) -> list[date]:
        """The days on which the user was active, the oldest first. Raises StoreError."""
        key = self._keys.days(user_id)
        bits: bytes = await self._keyspace.one(plain(key, b"GET", key)) or b""
        return [FIRST_DAY + timedelta(days=at) for at in range(len(bits) * 8) if bits[at // 8] & (0x80 >> at % 8)]

    def _last(self, days: int) -> list[date]:
        today = self._today()
        return [today - timedelta(days=back) for back in reversed(range(min(days, bounds.ACTIVE_DAYS_MAX)))]


def _text(day: date) -> str:
    return day.strftime("%Y%m%d")
