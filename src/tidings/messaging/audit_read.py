"""Shows the audit stream and its sums: for the command line, the admin page and whoever wants to see who is refused.

The stream has several shards. An entry's id is that of its shard with the shard's number behind it, `ms-n-shard`: so
all entries have one order, and a reader who names the last one it saw gets what comes after it. Reads only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import BadRequest, Unavailable
from tidings.messaging.audit import Event
from tidings.messaging.audit_fold import decode_event
from tidings.stores.calls import Keyspace, each_alone, plain
from tidings.stores.keys import Keys
from tidings.stores.scripts_audit import FOLDS, GROUP, MINUTE_MS

Place = tuple[int, int, int]  # ms, number within it, shard: the order of all entries
_SHARDS = range(bounds.AUDIT_SHARDS)
_FOLLOWED = 1_000  # entries of a shard in one look of a follower


class AuditEntry(msgspec.Struct, frozen=True):
    """One entry of the stream. `event` None: it cannot be read."""

    id: str
    at_ms: int
    event: Event | None


class Rejects(msgspec.Struct, frozen=True):
    """How often a user was refused in a class."""

    user_id: str
    class_name: str
    count: int


class Lag(msgspec.Struct, frozen=True):
    """How far the sums are behind the stream."""

    entries: int  # in the streams
    waiting: int  # not handed to a worker yet
    pending: int  # handed out and not counted yet
    dead: int  # given up


def place_of(text: str) -> Place:
    """`ms`, `ms-n` or `ms-n-shard`; what is left out is the smallest. Raises BadRequest."""
    parts = text.split("-")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
        raise BadRequest("an audit id is of the form 1794770399146-0-2")
    ms, number, shard = (int(part) for part in (*parts, *("0", "-1")[len(parts) - 1 :]))
    return ms, number, shard


class AuditReader:
    def __init__(self, keyspace: Keyspace, keys: Keys, clock: Clock) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._clock = clock

    # --- the stream -------------------------------------------------------------------------------

    async def tail(self, from_id: str | None = None, count: int = 20) -> list[AuditEntry]:
        """Entries after `from_id`, the oldest first; without it the newest ones. Raises BadRequest, StoreError."""
        if from_id is None:
            return (await self._newest(count))[-count:]
        place = place_of(from_id)
        found = await self._ask([(shard, b"XRANGE", _after(place, shard), b"+") for shard in _SHARDS], count)
        return found[:count]

    async def follow(self, from_id: str | None, count: int, pause_s: float) -> AsyncIterator[AuditEntry]:
        """The same, and whatever comes after it, for ever. Each shard is followed by itself: their servers' clocks
        may differ. A keyspace that goes away is waited for. Raises BadRequest, and StoreError where it cannot begin."""
        places: dict[int, Place] = dict.fromkeys(_SHARDS, place_of(from_id or "0"))
        found = await self._newest(count) if from_id is None else []
        shown = found[-count:]
        while True:
            for entry in found:
                places[place_of(entry.id)[2]] = place_of(entry.id)
            for entry in shown:
                yield entry
            asked = [(shard, b"XRANGE", _after(places[shard], shard), b"+") for shard in _SHARDS]
            found = shown = []
            with suppress(Unavailable):
                found = shown = await self._ask(asked, _FOLLOWED)
            if not found:
                await asyncio.sleep(pause_s)

    async def _newest(self, count: int) -> list[AuditEntry]:
        """So many of each shard."""
        return await self._ask([(shard, b"XREVRANGE", b"+", b"-") for shard in _SHARDS], count)

    async def _ask(self, asked: Sequence[tuple[int, bytes, bytes, bytes]], count: int) -> list[AuditEntry]:
        keys = [self._keys.audit(shard) for shard, *_ in asked]
        calls = [plain(key, *words, b"COUNT", count) for key, words in zip(keys, _ranges(keys, asked), strict=True)]
        found = await each_alone(self._keyspace, calls)
        entries = [_entry(shard, *row) for shard, rows in found.items() for row in rows]
        return sorted(entries, key=lambda entry: place_of(entry.id))

    async def lag(self) -> Lag:
        """Raises StoreError."""
        totals = Counter[str]()
        for shard in _SHARDS:
            key, dead = self._keys.audit(shard), self._keys.audit_dead(shard)
            length, buried = await self._keyspace.run([plain(key, b"XLEN", key), plain(dead, b"XLEN", dead)])
            totals.update(entries=length, dead=buried)
            groups = await self._keyspace.one(plain(key, b"XINFO", b"GROUPS", key)) if length else []
            group = next((one for one in map(_facts, groups) if one[b"name"] == GROUP.encode()), None)
            # Where the server cannot tell, as after entries were deleted, all of them may wait.
            waiting = length if group is None or group[b"lag"] is None else group[b"lag"]
            totals.update(waiting=waiting, pending=group[b"pending"] if group else 0)
        return Lag(totals["entries"], totals["waiting"], totals["pending"], totals["dead"])

    # --- the sums ---------------------------------------------------------------------------------

    async def top_rejects(self, minutes: int = 60, limit: int = 20) -> list[Rejects]:
        """Who was refused most often in the last minutes, this one included. Raises StoreError."""
        sums = Counter[tuple[str, str]]()
        for fields in (await self.sums(minutes)).values():
            for (kind, class_name, user_id), count in fields.items():
                if kind == "reject":
                    sums[user_id, class_name] += count
        return [Rejects(*key, count) for key, count in sums.most_common(limit)]

    async def by_minute(self, minutes: int = 60, kind: str = "reject") -> list[tuple[int, int]]:
        """(when the minute began in ms, how many), the oldest first, minutes without any included."""
        found = await self.sums(minutes)
        return [
            (minute * MINUTE_MS, sum(count for key, count in fields.items() if key[0] == kind))
            for minute, fields in found.items()
        ]

    async def sums(self, minutes: int) -> dict[int, Counter[tuple[str, str, str]]]:
        """Minute -> (kind, class, user) -> how many, the oldest minute first."""
        last = self._clock.now_ms() // MINUTE_MS
        span = range(last - min(minutes, bounds.AUDIT_MINUTES_MAX) + 1, last + 1)
        asked = [(minute, self._keys.audit_sums(shard, minute)) for minute in span for shard in _SHARDS]
        answers = await each_alone(self._keyspace, [plain(key, b"HGETALL", key) for _, key in asked])
        found: dict[int, Counter[tuple[str, str, str]]] = {minute: Counter() for minute in span}
        for at, flat in answers.items():
            for field, count in zip(flat[::2], flat[1::2], strict=True):
                if field != FOLDS.encode():
                    kind, class_name, user_id = field.decode().split(":")
                    found[asked[at][0]][kind, class_name, user_id] += int(count)
        return found


def _ranges(keys: Sequence[str], asked: Sequence[tuple[int, bytes, bytes, bytes]]) -> list[tuple[Any, ...]]:
    return [(command, key, *ends) for key, (_, command, *ends) in zip(keys, asked, strict=True)]


def _after(place: Place, shard: int) -> bytes:
    """The first id of the shard that comes after the place: `(` leaves the id itself out."""
    ms, number, own = place
    return b"%s%d-%d" % (b"(" if shard <= own else b"", ms, number)


def _entry(shard: int, raw_id: bytes, fields: Sequence[bytes]) -> AuditEntry:
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    try:
        event = decode_event(named.get(b"event", b""))
    except msgspec.DecodeError:
        event = None
    text = raw_id.decode()
    return AuditEntry(f"{text}-{shard}", int(text.partition("-")[0]), event)


def _facts(flat: Sequence[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
