"""Stubs of the Lua files of pending deliveries and push, and the plain calls beside them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from tidings import bounds
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.library import Library

R = TypeVar("R")

NAMES = ("due_claim", "due_settle", "push_take", "push_put_off", "push_tidy")
_library = Library(NAMES)
SOURCES = _library.sources


class Claimed(msgspec.Struct, frozen=True):
    """Conversations of one shard that this node looks at now."""

    birth: str  # of the set: another one means that it was lost
    now_ms: int  # by the clock that sent_ms comes from
    until_ms: int  # they are ours until then
    conversation_ids: tuple[str, ...]


class Taken(msgspec.Struct, frozen=True):
    """(id, job) of jobs to do, and of jobs to give up."""

    jobs: tuple[tuple[str, bytes], ...]
    dead: tuple[tuple[str, bytes], ...]


class GivenUp(msgspec.Struct, frozen=True):
    """Jobs for which there is no room."""

    jobs: tuple[bytes, ...]


def due_shard(conversation_id: str) -> int:
    return zlib.crc32(conversation_id.encode()) % bounds.DUE_SHARDS


def push_shard(user_id: str) -> int:
    return zlib.crc32(user_id.encode()) % bounds.PUSH_SHARDS


class PushScripts:
    """Builds calls under one tenant's keys."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    # --- due --------------------------------------------------------------------------------------

    def due_add(self, shard: int, scores: Iterable[tuple[int, str]], parse: Callable[[Any], R]) -> Call[R]:
        """(due ms, conversation_id). LT: an earlier time stays; one that a node holds is made due again after it."""
        key = self.keys.due(shard)
        flat = tuple(part for pair in scores for part in pair)
        return Call(key, (b"ZADD", key, b"LT", *flat), parse)

    def due_claim(self, shard: int, *, limit: int, hold_ms: int) -> Call[Claimed]:
        keys = (self.keys.due(shard),)
        return _library.call("due_claim", keys, (limit, hold_ms), _claimed, has_epoch=False)

    def due_settle(self, shard: int, conversation_id: str, *, until_ms: int, next_ms: int) -> Call[bool]:
        """`next_ms` 0: no next time. False: somebody asked for another look meanwhile."""
        keys, args = (self.keys.due(shard),), (conversation_id, until_ms, next_ms)
        return _library.call("due_settle", keys, args, lambda reply: bool(reply == 1), has_epoch=False)

    # --- push jobs --------------------------------------------------------------------------------

    def push_add(self, user_id: str, job: bytes) -> Call[object]:
        key = self.keys.push(push_shard(user_id))
        return plain(key, b"XADD", key, b"MAXLEN", b"~", bounds.PUSH_JOBS_MAX, b"*", b"job", job)

    def push_take(self, shard: int, consumer: str, *, limit: int, idle_ms: int, deliveries_max: int) -> Call[Taken]:
        keys = (self.keys.push(shard), self.keys.push_later(shard))
        args = (consumer, limit, idle_ms, deliveries_max, bounds.PUSH_JOBS_MAX)
        return _library.call("push_take", keys, args, _taken, has_epoch=False)

    def push_put_off(self, shard: int, job: bytes, until_ms: int) -> Call[object]:
        """Answers a GivenUp."""
        keys, args = (self.keys.push_later(shard),), (until_ms, bounds.PUSH_JOBS_MAX, job)
        return _library.call("push_put_off", keys, args, _given_up, has_epoch=False)

    def push_tidy(self, shard: int, leaving: str, *, idle_ms: int) -> Call[int]:
        """`leaving` "": nobody, only those that are long gone."""
        return _library.call("push_tidy", (self.keys.push(shard),), (leaving, idle_ms), int, has_epoch=False)

    def push_done(self, shard: int, job_id: str) -> list[Call[object]]:
        """Off the group's list, then out of the stream: what is left there is unfinished."""
        key = self.keys.push(shard)
        return [plain(key, b"XACK", key, b"notify", job_id), plain(key, b"XDEL", key, job_id)]

    def push_bury(self, job: bytes, reason: str) -> Call[object]:
        key = self.keys.push_dead
        return plain(key, b"XADD", key, b"MAXLEN", b"~", bounds.PUSH_DEAD_MAX, b"*", b"job", job, b"reason", reason)


def _claimed(reply: list[Any]) -> Claimed:
    birth, now_ms, until_ms, *ids = reply
    return Claimed(birth.decode(), now_ms, until_ms, tuple(id_.decode() for id_ in ids))


def _taken(reply: list[list[bytes]]) -> Taken:
    jobs, dead = (tuple((pile[i].decode(), pile[i + 1]) for i in range(0, len(pile), 2)) for pile in reply)
    return Taken(jobs, dead)


def _given_up(reply: list[bytes]) -> GivenUp:
    return GivenUp(tuple(reply))
