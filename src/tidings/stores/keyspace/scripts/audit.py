"""Stubs of the Lua files of the audit stream, and the choice of its shards.

All keys of a shard share a slot, so that an entry is acknowledged and counted in one step.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from tidings import bounds
from tidings.stores.keyspace.call import Arg, Call
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.library import Library

NAMES = ("audit_add", "audit_take", "audit_fold", "audit_recount")
GROUP = "fold"
FOLDS = ":folds"  # the field of a minute's sums that counts its changes
_library = Library(NAMES)
SOURCES = _library.sources

MINUTE_MS = 60_000


def audit_shard(user_id: str) -> int:
    return zlib.crc32(user_id.encode()) % bounds.AUDIT_SHARDS


def minute_of(entry_id: str) -> int:
    """Minutes since 1970, by the clock of the server that took the entry."""
    return int(entry_id.partition("-")[0]) // MINUTE_MS


class AuditScripts:
    """Builds calls under one tenant's keys."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def audit_add(self, shard: int, node_id: str, token: str, events: Sequence[bytes]) -> Call[int]:
        keys = (self.keys.audit(shard), self.keys.audit_flush(shard, node_id))
        args: tuple[Arg, ...] = (token, bounds.AUDIT_ENTRIES_MAX, bounds.AUDIT_TTL_S, bounds.AUDIT_FLUSH_TTL_S, *events)
        return _library.call("audit_add", keys, args, int, has_epoch=False)

    def audit_take(self, shard: int, consumer: str, *, limit: int, idle_ms: int) -> Call[list[tuple[str, bytes]]]:
        """(id, event) of entries that are this worker's from now on."""
        keys = (self.keys.audit(shard), self.keys.audit_dead(shard))
        most, dead_max = bounds.AUDIT_DELIVERIES_MAX, bounds.AUDIT_DEAD_MAX
        args = (consumer, limit, idle_ms, most, dead_max, bounds.AUDIT_TTL_S)
        return _library.call("audit_take", keys, args, _taken, has_epoch=False)

    def audit_fold(self, shard: int, minute: int, counted: Iterable[tuple[str, str, int]]) -> Call[int]:
        """(id, field, count) of entries of this minute."""
        keys = (self.keys.audit(shard), self.keys.audit_sums(shard, minute))
        flat = tuple(part for entry in counted for part in entry)
        args: tuple[Arg, ...] = (bounds.AUDIT_SUMS_TTL_S, bounds.AUDIT_SUMS_MAX, *flat)
        return _library.call("audit_fold", keys, args, int, has_epoch=False)

    def audit_recount(
        self, shard: int, minute: int, folds: str, to_id: str, sums: Iterable[tuple[str, int]]
    ) -> Call[bool]:
        """(field, count) of every entry of the minute up to `to_id`. False: look again."""
        keys = (self.keys.audit(shard), self.keys.audit_sums(shard, minute))
        flat = tuple(part for pair in sums for part in pair)
        args: tuple[Arg, ...] = (folds, f"{minute * MINUTE_MS}-0", to_id, bounds.AUDIT_SUMS_TTL_S, *flat)
        return _library.call("audit_recount", keys, args, lambda reply: bool(reply == 1), has_epoch=False)


def _taken(reply: list[bytes]) -> list[tuple[str, bytes]]:
    return [(reply[i].decode(), reply[i + 1]) for i in range(0, len(reply), 2)]
