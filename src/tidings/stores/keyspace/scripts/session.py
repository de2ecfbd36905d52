"""Stubs of the scripts that routing uses."""

from __future__ import annotations

from tidings.bounds import INDEX_TTL_S
from tidings.stores.keyspace.call import Call
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.library import Library

NAMES = ("session_release",)
_library = Library(NAMES)
SOURCES = _library.sources


def session_release(keys: Keys, user_id: str, device: str, *, lease: str, now_ms: int) -> Call[bool]:
    """True: noted. False: the device is live on another connection."""
    args = (device, lease, now_ms, INDEX_TTL_S)
    return _library.call("session_release", (keys.session(user_id),), args, bool, has_epoch=False)
