"""Streams: reads how far the consumer group of a stream is behind."""

from __future__ import annotations

from typing import Any, NamedTuple

from tidings.stores.keyspace.call import Keyspace, plain


class GroupLag(NamedTuple):
    """`waiting`: no worker has taken the entry yet. `pending`: a worker has taken it and has not finished."""

    entries: int
    waiting: int
    pending: int


async def read_lag(keyspace: Keyspace, key: str, group: str) -> GroupLag:
    """Raises StoreError."""
    length = await keyspace.one(plain(key, b"XLEN", key))
    groups = await keyspace.one(plain(key, b"XINFO", b"GROUPS", key)) if length else []
    found = next((one for one in map(_facts, groups) if one[b"name"] == group.encode()), None)
    if found is None:
        return GroupLag(length, length, 0)
    # Where the server does not know the lag, as after deletions, all entries that nobody has taken may wait.
    waiting = max(length - found[b"pending"], 0) if found[b"lag"] is None else found[b"lag"]
    return GroupLag(length, waiting, found[b"pending"])


def _facts(flat: list[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
