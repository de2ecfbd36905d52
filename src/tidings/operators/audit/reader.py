"""Audit reader: shows the audit stream and its sums, for the command line and the admin page. It never writes.

The stream has several shards. The id of an entry is its id in the shard with the number of the shard behind it,
`ms-n-shard`: so all entries have one order, and a reader who names the last entry gets the entries after it.
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
from tidings.operators.audit.events import Event
from tidings.operators.audit.sums import decode_event
from tidings.stores.keyspace.call import Keyspace, each_alone, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.audit import FOLDS, GROUP, MINUTE_MS
from tidings.stores.keyspace.streams import read_lag

Place = tuple[int, int, int]  # ms, number within it, shard: the order of all entries
_SHARDS = range(bounds.AUDIT_SHARDS)
_FOLLOWED = 1_000  # entries of a shard in one read of a follower


class AuditEntry(msgspec.Struct, frozen=True):
    """One entry of the stream. `event` None: the entry cannot be decoded."""

    id: str
    at_ms: int
    event: Event | None


class Rejects(msgspec.Struct, frozen=True):
    """The number of refused requests of a user in a class."""

    user_id: str
    class_name: str
    count: int


class Lag(msgspec.Struct, frozen=True):
    """The distance of the sums behind the stream, in entries."""

    entries: int  # in the streams
    waiting: int  # not given to a worker yet
    pending: int  # given to a worker and not counted yet
    dead: int  # dead letters


def place_of(text: str) -> Place:
    """Parse `ms`, `ms-n` or `ms-n-shard`; a missing part is the smallest. Raises BadRequest."""
    parts = text.split("-")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
        raise BadRequest("an audit id has the form 1794770399146-0-2")
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
        """The entries of `tail`, then every new entry, for ever. Each shard is followed by itself, because the clocks
        of their servers may differ. An outage of the keyspace is waited out. Raises BadRequest, and StoreError from the
        first read."""
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
        """The newest `count` entries of each shard."""
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
            totals.update((await read_lag(self._keyspace, key, GROUP))._asdict())
            totals.update(dead=await self._keyspace.one(plain(dead, b"XLEN", dead)))
        return Lag(totals["entries"], totals["waiting"], totals["pending"], totals["dead"])

    # --- the sums ---------------------------------------------------------------------------------

    async def top_rejects(self, minutes: int = 60, limit: int = 20) -> list[Rejects]:
        """The most refused users of the last minutes, this minute included. Raises StoreError."""
        sums = Counter[tuple[str, str]]()
        for fields in (await self.sums(minutes)).values():
            for (kind, class_name, user_id), count in fields.items():
                if kind == "reject":
                    sums[user_id, class_name] += count
        return [Rejects(*key, count) for key, count in sums.most_common(limit)]

    async def sums(self, minutes: int) -> dict[int, Counter[tuple[str, str, str]]]:
        """Minute -> (kind, class, user) -> count, the oldest minute first."""
        last = self._clock.now_ms() // MINUTE_MS
        span = range(last - min(minutes, bounds.AUDIT_MINUTES_MAX) + 1, last + 1)
        asked = [(minute, self._keys.audit_sums(shard, minute)) for minute in span for shard in _SHARDS]
        answers = await each_alone(self._keyspace, [plain(key, b"HGETALL", key) for _, key in asked])
        found: dict[int, Counter[tuple[str, str, str]]] = {minute: Counter() for minute in span}
        for at, flat in answers.items():
            for field, count in zip(flat[::2], flat[1::2], strict=True):
                if field != FOLDS.encode():
                    kind, class_name, user_id = field.decode().split(":", 2)
                    found[asked[at][0]][kind, class_name, user_id] += int(count)
        return found


def _ranges(keys: Sequence[str], asked: Sequence[tuple[int, bytes, bytes, bytes]]) -> list[tuple[Any, ...]]:
    return [(command, key, *ends) for key, (_, command, *ends) in zip(keys, asked, strict=True)]


def _after(place: Place, shard: int) -> bytes:
    """The start of a range after the place: `(` excludes the id itself."""
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
