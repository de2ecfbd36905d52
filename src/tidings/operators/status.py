"""System status: refused requests, the push queue, the cold tier and active users, for the admin page.

It only reads, and each answer is bounded. Callers that ask for the cold tier at the same time share one walk. An answer
shows ids, counts and reasons, never texts of messages.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tidings import bounds
from tidings.messaging.archive.schedule import ArchiveStatus, Archiving
from tidings.messaging.push.job import Job
from tidings.operators.active_users import ActiveUsers
from tidings.operators.audit.reader import AuditEntry, AuditReader, Lag, Rejects
from tidings.operators.bounds import ADMIN_DAYS, ADMIN_LOOK_S, ADMIN_MINUTES_MAX, ADMIN_ROWS_MAX
from tidings.stores.keyspace.call import Keyspace, each_alone, plain
from tidings.stores.keyspace.keys import Keys
from tidings.tasks import SingleFlight


class Minute(msgspec.Struct, frozen=True):
    at_ms: int
    classes: dict[str, int]


class RejectsView(msgspec.Struct, frozen=True):
    """Refused requests of the last `minutes`; `sign_ins`: failed sign-ins in this time."""

    minutes: int
    by_minute: list[Minute]
    top: list[Rejects]
    sign_ins: int
    lag: Lag


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    at_ms: int
    user_id: str
    conversation_id: str
    seq_no: int
    tries: int
    reason: str


class PushView(msgspec.Struct, frozen=True, kw_only=True):
    """`queued`: jobs that no provider has taken yet; `later`: jobs that wait for another try."""

    providers: list[str]
    queued: int
    later: int
    due: int
    dead: int
    dead_letters: list[DeadLetter]


class Day(msgspec.Struct, frozen=True):
    """A day of UTC, such as 2026-11-15."""

    day: str
    users: int


class Days(msgspec.Struct, frozen=True):
    """Users by day, the oldest first; `week` and `month`: different users of the last 7 and 30 days."""

    daily: list[Day]
    week: int
    month: int


@dataclass(eq=False, repr=False, kw_only=True)
class SystemStatus:
    keyspace: Keyspace
    queues: Keyspace
    keys: Keys
    reader: AuditReader
    activity: ActiveUsers
    archiving: Archiving
    providers: list[str]

    def __post_init__(self) -> None:
        self._cold: SingleFlight[ArchiveStatus] = SingleFlight(self.archiving.status, ADMIN_LOOK_S)

    async def rejects(self, minutes: int) -> RejectsView:
        """Raises StoreError."""
        minutes = min(max(minutes, 1), ADMIN_MINUTES_MAX)
        sums = await self.reader.sums(minutes)
        by_minute, sign_ins = [], 0
        for minute, fields in sums.items():
            classes: dict[str, int] = {}
            for (kind, class_name, _), count in fields.items():
                if kind == "reject":
                    classes[class_name] = classes.get(class_name, 0) + count
                sign_ins += count if kind == "sign_in" else 0
            by_minute.append(Minute(minute * 60_000, classes))
        top = await self.reader.top_rejects(minutes, ADMIN_ROWS_MAX)
        return RejectsView(minutes, by_minute, top, sign_ins, await self.reader.lag())

    async def audit(self) -> list[AuditEntry]:
        """The newest entries, newest first. Raises StoreError."""
        return (await self.reader.tail(count=ADMIN_ROWS_MAX))[::-1]

    async def push(self) -> PushView:
        """Raises StoreError."""
        shards = range(bounds.PUSH_SHARDS)
        queued = await self._sizes(b"XLEN", [self.keys.push(shard) for shard in shards])
        later = await self._sizes(b"ZCARD", [self.keys.push_later(shard) for shard in shards])
        dues = [self.keys.due(shard) for shard in range(bounds.DUE_SHARDS)]
        due = await each_alone(self.keyspace, [plain(key, b"ZCOUNT", key, 0, b"(inf") for key in dues])
        dead = self.keys.push_dead
        size, rows = await self.queues.run(
            [plain(dead, b"XLEN", dead), plain(dead, b"XREVRANGE", dead, b"+", b"-", b"COUNT", ADMIN_ROWS_MAX)]
        )
        return PushView(
            providers=self.providers,
            queued=queued,
            later=later,
            due=sum(due.values()),
            dead=size,
            dead_letters=[_letter(*row) for row in rows],
        )

    async def days(self) -> Days:
        """Raises StoreError."""
        daily = await self.activity.daily_actives(ADMIN_DAYS)
        week, month = await self.activity.actives(7), await self.activity.actives(30)
        return Days([Day(day.isoformat(), count) for day, count in daily], week, month)

    async def cold(self) -> ArchiveStatus:
        """Raises StoreUnavailable, StoreError."""
        return await self._cold()

    async def _sizes(self, command: bytes, keys: list[str]) -> int:
        return sum((await each_alone(self.queues, [plain(key, command, key) for key in keys])).values())


def _letter(raw_id: bytes, fields: list[bytes]) -> DeadLetter:
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    try:
        job = msgspec.json.decode(named.get(b"job", b""), type=Job)
    except msgspec.DecodeError:
        job = Job(user_id="?", made_ms=0)
    return DeadLetter(
        at_ms=int(raw_id.partition(b"-")[0]),
        user_id=job.user_id,
        conversation_id=job.conversation_id,
        seq_no=job.seq_no,
        tries=job.tries,
        reason=named.get(b"reason", b"").decode(errors="replace"),
    )
