"""Stub of the Lua file of the archiver's lease, and the plain calls beside it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tidings import bounds
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.library import Library

NAMES = ("archive_lease",)
_library = Library(NAMES)
SOURCES = _library.sources


class Lead(NamedTuple):
    """The leader ('': nobody leads), and the time until its lead ends."""

    holder: str
    ttl_ms: int


class ArchiveScripts:
    """Builds calls under one tenant's keys."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def archive_lease(self, holder: str, *, ttl_ms: int) -> Call[Lead]:
        """`ttl_ms` 0 gives it up."""
        return _library.call("archive_lease", (self.keys.archive,), (holder, ttl_ms), _lead, has_epoch=False)

    def archive_leader(self) -> Call[str]:
        key = self.keys.archive
        return plain(key, b"GET", key, parse=lambda reply: reply.decode() if reply else "")

    def archive_sweep(self, holder: str) -> Call[bool]:
        """True: it is ours to sweep, and nobody else's for ARCHIVE_SWEEP_S."""
        key = self.keys.archive_swept
        words = (b"SET", key, holder, b"NX", b"EX", bounds.ARCHIVE_SWEEP_S)
        return plain(key, *words, parse=lambda reply: reply is not None)


def _lead(reply: list[Any]) -> Lead:
    return Lead(reply[0].decode(), reply[1])
