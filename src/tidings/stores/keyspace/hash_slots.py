"""The arithmetic of a cluster, without I/O: which slot a key has, who serves which slots, where a refusal points.

The invariant: a key's slot is what the servers compute too (CRC16 of the hash tag, or of the whole key where there is
none). So a call goes to the right server at once, and a redirection means that a slot moved.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import Any

import msgspec

from tidings.stores.keyspace.wire import PORT_DEFAULT, Address, parse_several

SLOTS = 16_384
SCHEME = "redis+cluster"


def slot_of(key: str) -> int:
    """The slot of a key or a sharded channel. An empty tag is no tag: `{}` hashes as the whole key."""
    start = key.find("{") + 1
    if start:
        end = key.find("}", start)
        if end > start:
            key = key[start:end]
    return crc_hqx(key.encode(), 0) & 16_383


class Place(msgspec.Struct, frozen=True):
    """The place of a server: the address that the cluster gives."""

    host: str
    port: int


class Shard(msgspec.Struct, frozen=True):
    """A run of slots, with the primary that serves it and its replicas."""

    first: int
    last: int
    primary: Place
    replicas: tuple[Place, ...] = ()


class Redirect(msgspec.Struct, frozen=True):
    """MOVED: this slot is served there from now on. ASK: this key is there already, the slot is not."""

    is_moved: bool
    slot: int
    place: Place


def parse_slots(reply: Any, host: str) -> tuple[Shard, ...]:
    """Read CLUSTER SLOTS, in the order of the slots. `host` is the server that answered: it may not say its own name.

    Raises ValueError when it is no such answer.
    """
    try:
        rows = [(int(first), int(last), [_place(one, host) for one in nodes]) for first, last, *nodes in reply]
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError("the answer to CLUSTER SLOTS is not a list of slots") from error
    shards = (Shard(first, last, nodes[0], tuple(nodes[1:])) for first, last, nodes in rows if nodes)
    return tuple(sorted(shards, key=lambda shard: shard.first))


def _place(node: Any, host: str) -> Place:
    """A server that does not know its own name says nothing, an empty string or a question mark."""
    name = node[0].decode() if node[0] is not None else ""
    return Place(host if name in ("", "?") else name, int(node[1]))


def parse_redirect(refusal: str, host: str) -> Redirect | None:
    """Read `MOVED 3999 10.0.0.7:6379` or `ASK ...`. None: it is another refusal. `host` is the server that refused."""
    code, _, rest = refusal.partition(" ")
    if code not in ("MOVED", "ASK"):
        return None
    slot, _, where = rest.partition(" ")
    name, _, port = where.rpartition(":")
    if not (slot.isdigit() and port.isdigit() and int(slot) < SLOTS):
        return None
    return Redirect(code == "MOVED", int(slot), Place(host if name in ("", "?") else name, int(port)))


def uncovered(shards: tuple[Shard, ...]) -> int:
    """The number of slots that no server serves."""
    return SLOTS - sum(shard.last - shard.first + 1 for shard in shards)


def parse_cluster_url(url: str) -> tuple[Address, ...]:
    """redis+cluster://[user:password@]host:port[,host:port ...][?tls=true]: the servers to ask first.

    Raises ValueError with one line that never repeats the URL (it has a password). `?prefix=` is the caller's.
    """
    several = parse_several(url, SCHEME, PORT_DEFAULT)
    if several.path not in ("", "0"):
        raise ValueError("a cluster has no databases but 0; is the password percent-encoded?")
    return several.addresses
