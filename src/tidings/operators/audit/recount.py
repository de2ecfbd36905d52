"""Audit recount: counts minutes of the audit stream again from the entries, after a defect in the sums or as a check.

The new sums of a minute replace the old ones only if no worker counted into the minute since it was read. Entries that
were taken but not counted leave the group's list in the same step. So a recount is safe at any time, any number of
times. A minute whose entries were trimmed in part is left unchanged.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from tidings import bounds
from tidings.errors import StoreUnavailable
from tidings.operators.audit.events import OTHERS
from tidings.operators.audit.reader import place_of
from tidings.operators.audit.sums import decode_event
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.scripts.audit import FOLDS, GROUP, MINUTE_MS, AuditScripts

_CHUNK = 1_000  # entries in one read


class Replayed(msgspec.Struct, frozen=True):
    """The result, in minutes of one shard. `left`: minutes that were left because their beginning is trimmed."""

    minutes: int
    entries: int
    left: int


class _Stream(msgspec.Struct, frozen=True):
    """The first entry of a shard, and the last entry that was given to a worker."""

    first_id: str
    handed_out_id: str
    is_whole: bool  # nothing was ever trimmed


class AuditRecount:
    def __init__(self, keyspace: Keyspace, scripts: AuditScripts) -> None:
        self._keyspace = keyspace
        self._scripts = scripts

    async def run(self, from_id: str, to_id: str | None = None) -> Replayed:
        """Recount every minute that the range touches, as a whole. Raises BadRequest, StoreUnavailable, StoreError."""
        first = place_of(from_id)[0] // MINUTE_MS
        last = place_of(to_id)[0] // MINUTE_MS if to_id is not None else None
        minutes = entries = left = 0
        for shard in range(bounds.AUDIT_SHARDS):
            stream = await self._stream(shard)
            if stream is None:
                continue
            begins, ends = (_minute(one) for one in (stream.first_id, stream.handed_out_id))
            for minute in range(max(first, begins), min(ends, last if last is not None else ends) + 1):
                if minute == begins and not stream.is_whole:
                    left += 1
                    continue
                entries += await self._recount(shard, minute, stream.handed_out_id)
                minutes += 1
        return Replayed(minutes, entries, left)

    async def _stream(self, shard: int) -> _Stream | None:
        """None: the shard has nothing to count."""
        key = self._scripts.keys.audit(shard)
        if not await self._keyspace.one(plain(key, b"XLEN", key)):
            return None
        facts, groups = await self._keyspace.run(
            [plain(key, b"XINFO", b"STREAM", key), plain(key, b"XINFO", b"GROUPS", key)]
        )
        about = dict(zip(facts[::2], facts[1::2], strict=True))
        named = [dict(zip(one[::2], one[1::2], strict=True)) for one in groups]
        group = next((one for one in named if one[b"name"] == GROUP.encode()), None)
        if group is None or not about[b"first-entry"]:
            return None
        is_whole = about[b"entries-added"] == about[b"length"]
        return _Stream(about[b"first-entry"][0].decode(), group[b"last-delivered-id"].decode(), is_whole)

    async def _recount(self, shard: int, minute: int, handed_out_id: str) -> int:
        """Recount one minute and return its entries. Entries that no worker has yet are counted later, by a worker."""
        key = self._scripts.keys.audit_sums(shard, minute)
        end = min((minute + 1) * MINUTE_MS - 1, int(handed_out_id.partition("-")[0]))
        to_id = handed_out_id if end == int(handed_out_id.partition("-")[0]) else f"{end}-18446744073709551615"
        for _ in range(bounds.RECOUNT_TRIES_MAX):
            folds = await self._keyspace.one(plain(key, b"HGET", key, FOLDS)) or b""
            sums, entries = await self._sums(shard, f"{minute * MINUTE_MS}-0", to_id)
            call = self._scripts.audit_recount(shard, minute, folds.decode(), to_id, sums.items())
            if await self._keyspace.one(call):
                return entries
        raise StoreUnavailable("workers are still counting into this minute; try again in a minute")

    async def _sums(self, shard: int, from_id: str, to_id: str) -> tuple[Counter[str], int]:
        sums, entries, begin = Counter[str](), 0, from_id
        key = self._scripts.keys.audit(shard)
        while True:
            rows = await self._keyspace.one(plain(key, b"XRANGE", key, begin, to_id, b"COUNT", _CHUNK))
            for _, fields in rows:
                entries += _add(sums, dict(zip(fields[::2], fields[1::2], strict=True)).get(b"event", b""))
            if len(rows) < _CHUNK:
                return sums, entries
            begin = f"({rows[-1][0].decode()}"


def _minute(entry_id: str) -> int:
    return int(entry_id.partition("-")[0]) // MINUTE_MS


def _add(sums: Counter[str], raw: bytes) -> int:
    """Add one entry to the sums; 0 if it cannot be decoded, which the workers of the group handle."""
    try:
        event = decode_event(raw)
    except msgspec.DecodeError:
        return 0
    is_new = event.field not in sums
    if is_new and len(sums) >= bounds.AUDIT_SUMS_MAX:
        event = msgspec.structs.replace(event, user_id=OTHERS)
    sums[event.field] += event.count
    return 1
