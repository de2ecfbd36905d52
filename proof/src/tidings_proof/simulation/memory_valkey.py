"""A Valkey in memory: the commands that the send path, delivery, unread and the archiver use, and our scripts on them.

One stand-in for a server: keys with a time to live, a clock that the simulation owns, an epoch, channels. Streams are
not in it: push and audit stand beside the way of a message. test_memory_valkey.py holds it against a real server, call
by call.
"""

from __future__ import annotations

import copy
import hashlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tidings.stores.keyspace.scripts import LUA
from tidings_proof.simulation.lua import Script, Table, compiled

INF = float("inf")
SCRIPTS: dict[bytes, Script] = {hashlib.sha1(source.encode()).hexdigest().encode(): compiled(source) for source in LUA}
Args = Sequence[bytes]


class Refused(Exception):
    """An error reply."""


class Scores:
    """A sorted set: by score, then by bytes."""

    __slots__ = ("by_member", "order")

    def __init__(self) -> None:
        self.by_member: dict[bytes, float] = {}
        self.order: list[tuple[float, bytes]] = []

    def put(self, member: bytes, score: float) -> None:
        self.drop(member)
        self.by_member[member] = score
        insort(self.order, (score, member))

    def drop(self, member: bytes) -> bool:
        score = self.by_member.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True

    def rank(self, member: bytes) -> int | None:
        return bisect_left(self.order, (self.by_member[member], member)) if member in self.by_member else None

    def between(self, low: bytes, high: bytes) -> list[tuple[float, bytes]]:
        """Bounds as a command has them: `(` leaves the bound itself out."""
        is_low_open, is_high_open = low.startswith(b"("), high.startswith(b"(")
        least, most = float(low.lstrip(b"(")), float(high.lstrip(b"("))
        return [
            pair
            for pair in self.order
            if (pair[0] > least or (pair[0] == least and not is_low_open))
            and (pair[0] < most or (pair[0] == most and not is_high_open))
        ]

    def between_texts(self, low: bytes, high: bytes) -> list[tuple[float, bytes]]:
        """The same by the text of members that have one score. `[` takes the bound itself in."""
        low_at = (bisect_left if low[:1] == b"[" else bisect_right)(self.order, (0.0, low[1:]))
        return self.order[low_at : (bisect_right if high[:1] == b"[" else bisect_left)(self.order, (0.0, high[1:]))]

    def __len__(self) -> int:
        return len(self.order)


def written(score: float) -> bytes:
    if score in (INF, -INF):
        return b"inf" if score > 0 else b"-inf"
    return b"%d" % score if score == int(score) else b"%.17g" % score


def spoken(value: Any) -> bytes:
    """An argument of redis.call."""
    if type(value) is bytes:
        return value
    assert type(value) in (int, float), f"{value!r} as an argument"
    return b"%d" % value if value == int(value) else b"%.17g" % value


class MemoryValkey:
    def __init__(self, now_us: Callable[[], int], epoch: str = "epoch-1") -> None:
        self._now_us = now_us
        self.epoch = epoch
        self._values: dict[bytes, Any] = {}
        self._until_ms: dict[bytes, int] = {}
        self.publish: Callable[[bytes, bytes], int] = lambda channel, data: 0
        self._commands: dict[bytes, Callable[[Args], Any]] = {
            name[4:].upper().encode(): getattr(self, name) for name in dir(self) if name.startswith("_do_")
        }

    # --- what the simulation does to it -------------------------------------------------------------

    def snapshot(self) -> Any:
        return copy.deepcopy((self._values, self._until_ms))

    def restore(self, snapshot: Any) -> None:
        self._values, self._until_ms = copy.deepcopy(snapshot)

    def flush(self) -> None:
        self._values, self._until_ms = {}, {}

    def names(self) -> list[bytes]:
        return sorted(key for key in list(self._values) if self._live(key) is not None)

    # --- calls --------------------------------------------------------------------------------------

    def execute(self, words: Sequence[str | bytes | int]) -> Any:
        """One command, as a client gets its reply. An error reply is raised."""
        args = [word if type(word) is bytes else str(word).encode() for word in words]
        if args[0] == b"EVALSHA":
            return self._script(args[1:])
        return self._commands[args[0]](args[1:])

    def _script(self, args: Args) -> Any:
        script, count = SCRIPTS[args[0]], int(args[1])
        keys, rest = Table(list(args[2 : 2 + count])), Table(list(args[2 + count :]))
        return _reply(script(keys, rest, self._called, self._called))

    def _called(self, *words: Any) -> Any:
        """redis.call: the reply in Lua's values."""
        name, *args = [spoken(word) for word in words]
        return _in_lua(self._commands[name](args))

    def _live(self, key: bytes) -> Any:
        until_ms = self._until_ms.get(key)
        if until_ms is not None and until_ms <= self._now_us() // 1000:
            self._remove(key)
        return self._values.get(key)

    def _remove(self, key: bytes) -> bool:
        self._until_ms.pop(key, None)
        return self._values.pop(key, None) is not None

    def _have(self, key: bytes, kind: type[Any]) -> Any:
        """The value, made if it is not there."""
        found = self._live(key)
        if found is None:
            found = self._values[key] = kind()
        return found

    def _tidy(self, key: bytes) -> None:
        if not len(self._values[key]):
            self._remove(key)

    # --- keys ---------------------------------------------------------------------------------------

    def _do_time(self, args: Args) -> list[bytes]:
        seconds, rest = divmod(self._now_us(), 1_000_000)
        return [b"%d" % seconds, b"%d" % rest]

    def _do_get(self, args: Args) -> bytes | None:
        found: bytes | None = self._live(args[0])
        return found

    def _do_mget(self, args: Args) -> list[bytes | None]:
        return [self._live(key) for key in args]

    def _do_set(self, args: Args) -> bytes | None:
        key, value, *options = args
        if b"NX" in options and self._live(key) is not None:
            return None
        self._values[key] = value
        self._until_ms.pop(key, None)
        for unit, factor in ((b"EX", 1000), (b"PX", 1)):
            if unit in options:
                self._expire(key, int(options[options.index(unit) + 1]) * factor)
        return b"OK"

    def _do_del(self, args: Args) -> int:
        return sum(self._live(key) is not None and self._remove(key) for key in args)

    _do_unlink = _do_del

    def _do_exists(self, args: Args) -> int:
        return sum(self._live(key) is not None for key in args)

    def _do_rename(self, args: Args) -> bytes:
        old, new = args
        value, until_ms = self._live(old), self._until_ms.get(old)
        if value is None:
            raise Refused("ERR no such key")
        self._remove(old)
        self._remove(new)
        self._values[new] = value
        if until_ms is not None:
            self._until_ms[new] = until_ms
        return b"OK"

    def _expire(self, key: bytes, ms: int) -> int:
        if self._live(key) is None:
            return 0
        self._until_ms[key] = self._now_us() // 1000 + ms
        return 1

    def _do_expire(self, args: Args) -> int:
        return self._expire(args[0], int(args[1]) * 1000)

    def _do_pexpire(self, args: Args) -> int:
        return self._expire(args[0], int(args[1]))

    def _do_pttl(self, args: Args) -> int:
        if self._live(args[0]) is None:
            return -2
        until_ms = self._until_ms.get(args[0])
        return -1 if until_ms is None else until_ms - self._now_us() // 1000

    def _do_spublish(self, args: Args) -> int:
        return self.publish(args[0], args[1])

    # --- hashes -------------------------------------------------------------------------------------

    def _hash(self, key: bytes) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = self._live(key) or {}
        return found

    def _do_hget(self, args: Args) -> bytes | None:
        return self._hash(args[0]).get(args[1])

    def _do_hmget(self, args: Args) -> list[bytes | None]:
        found = self._hash(args[0])
        return [found.get(field) for field in args[1:]]

    def _do_hset(self, args: Args) -> int:
        found = self._have(args[0], dict)
        before = len(found)
        found.update(zip(args[1::2], args[2::2], strict=True))
        return len(found) - before

    def _do_hsetnx(self, args: Args) -> int:
        return 0 if args[1] in self._hash(args[0]) else self._do_hset(args)

    def _do_hdel(self, args: Args) -> int:
        found = self._hash(args[0])
        removed = sum(found.pop(field, None) is not None for field in args[1:])
        if removed:
            self._tidy(args[0])
        return removed

    def _do_hlen(self, args: Args) -> int:
        return len(self._hash(args[0]))

    def _do_hexists(self, args: Args) -> int:
        return int(args[1] in self._hash(args[0]))

    def _do_hincrby(self, args: Args) -> int:
        found = self._have(args[0], dict)
        value = int(found.get(args[1], b"0")) + int(args[2])
        found[args[1]] = b"%d" % value
        return value

    def _do_hgetall(self, args: Args) -> list[bytes]:
        return [part for pair in self._hash(args[0]).items() for part in pair]

    def _do_hscan(self, args: Args) -> list[Any]:
        """All of it at once; a server may take several turns."""
        pattern = args[args.index(b"MATCH") + 1].decode() if b"MATCH" in args else "*"
        found = self._hash(args[0]).items()
        return [b"0", [part for pair in found if fnmatchcase(pair[0].decode(), pattern) for part in pair]]

    # --- sets ---------------------------------------------------------------------------------------

    def _do_sadd(self, args: Args) -> int:
        found: dict[bytes, None] = self._have(args[0], dict)
        before = len(found)
        found.update(dict.fromkeys(args[1:]))
        return len(found) - before

    def _do_srem(self, args: Args) -> int:
        found = self._live(args[0])
        if found is None:
            return 0
        before = len(found)
        for member in args[1:]:
            found.pop(member, None)
        removed = before - len(found)
        self._tidy(args[0])
        return removed

    def _do_smembers(self, args: Args) -> list[bytes]:
        return list(self._live(args[0]) or ())

    def _do_sismember(self, args: Args) -> int:
        return int(args[1] in (self._live(args[0]) or ()))

    # --- sorted sets --------------------------------------------------------------------------------

    def _scores(self, key: bytes) -> Scores:
        return self._live(key) or Scores()

    def _do_zadd(self, args: Args) -> int:
        key, *rest = args
        options = set()
        while rest[0] in (b"GT", b"LT", b"XX", b"NX", b"CH"):
            options.add(rest.pop(0))
        found = self._have(key, Scores)
        added = 0
        for score, member in zip(map(float, rest[::2]), rest[1::2], strict=True):
            held = found.by_member.get(member)
            if held is None and b"XX" not in options:
                found.put(member, score)
                added += 1
            elif held is not None and _may_move(options, held, score):
                found.put(member, score)
        self._tidy(key)
        return added

    def _do_zrem(self, args: Args) -> int:
        return self._drop(args[0], args[1:])

    def _drop(self, key: bytes, members: Iterable[bytes]) -> int:
        found = self._scores(key)
        removed = sum(found.drop(member) for member in members)
        if removed:
            self._tidy(key)
        return removed

    def _do_zscore(self, args: Args) -> bytes | None:
        score = self._scores(args[0]).by_member.get(args[1])
        return None if score is None else written(score)

    def _do_zcard(self, args: Args) -> int:
        return len(self._scores(args[0]))

    def _do_zcount(self, args: Args) -> int:
        return len(self._scores(args[0]).between(args[1], args[2]))

    def _do_zlexcount(self, args: Args) -> int:
        return len(self._scores(args[0]).between_texts(args[1], args[2]))

    def _do_zrank(self, args: Args) -> int | None:
        return self._scores(args[0]).rank(args[1])

    def _do_zrevrank(self, args: Args) -> int | None:
        found = self._scores(args[0])
        rank = found.rank(args[1])
        return None if rank is None else len(found) - 1 - rank

    def _do_zrange(self, args: Args) -> list[bytes]:
        key, first, last, *options = args
        found, is_reverse = self._scores(key), b"REV" in options
        if b"BYSCORE" in options or b"BYLEX" in options:
            low, high = (last, first) if is_reverse else (first, last)
            pairs = found.between(low, high) if b"BYSCORE" in options else found.between_texts(low, high)
            pairs = pairs[::-1] if is_reverse else pairs
            if b"LIMIT" in options:
                at = options.index(b"LIMIT")
                start, count = int(options[at + 1]), int(options[at + 2])
                pairs = pairs[start:] if count < 0 else pairs[start : start + count]
        else:
            pairs = _ranked(found.order[::-1] if is_reverse else found.order, int(first), int(last))
        if b"WITHSCORES" in options:
            return [part for score, member in pairs for part in (member, written(score))]
        return [member for _, member in pairs]

    def _do_zrevrange(self, args: Args) -> list[bytes]:
        return self._do_zrange([*args, b"REV"])

    def _do_zrangebyscore(self, args: Args) -> list[bytes]:
        return self._do_zrange([*args, b"BYSCORE"])

    def _do_zremrangebyscore(self, args: Args) -> int:
        pairs = self._scores(args[0]).between(args[1], args[2])
        return self._drop(args[0], [member for _, member in pairs])

    def _do_zremrangebyrank(self, args: Args) -> int:
        pairs = _ranked(self._scores(args[0]).order, int(args[1]), int(args[2]))
        return self._drop(args[0], [member for _, member in pairs])


def _may_move(options: set[bytes], held: float, score: float) -> bool:
    if b"NX" in options:
        return False
    return not ((b"GT" in options and score <= held) or (b"LT" in options and score >= held))


def _ranked(order: list[tuple[float, bytes]], first: int, last: int) -> list[tuple[float, bytes]]:
    """Ranks below zero count from the end; a last one that lies before the beginning takes nothing."""
    low = max(first + len(order), 0) if first < 0 else first
    high = last + len(order) if last < 0 else last
    return order[low : high + 1] if high >= 0 else []


def _in_lua(reply: Any) -> Any:
    if reply is None:
        return False
    return Table([_in_lua(one) for one in reply]) if type(reply) is list else reply


def _reply(value: Any) -> Any:
    """Return what a client gets of a script's result: a list ends at its first nil, a number loses its fraction."""
    if type(value) is Table:
        items = value.items
        return [_reply(one) for one in (items[: items.index(None)] if None in items else items)]
    if value is True:
        return 1
    if value is None or value is False:
        return None
    return int(value) if type(value) is float else value
