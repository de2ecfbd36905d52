"""Census: walks the keys of one server with SCAN, and finds memory by family, the biggest and the hottest keys.

The walk spares the server: one turn is a SCAN of DOCTOR_SCAN_COUNT keys or as many O(1) questions about them, well
under a millisecond, and then waits for the answer. It never sends KEYS or a command that walks a key. The walk ends
with its time and says how much it saw. SCAN follows the order of a hash, so a part of the keys is a fair sample.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidings.bounds import DOCTOR_BIG_MAX, DOCTOR_HOT_MAX, DOCTOR_MEASURED_MAX, DOCTOR_MEMORY_SAMPLES, DOCTOR_SCAN_COUNT
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.operators.doctor.families import FOREIGN, LISTPACK_ENTRIES, Family, Sorter
from tidings.operators.doctor.servers import Server, Words, refusal
from tidings.stores.keyspace.wire import ErrorReply

SIZE_COMMAND = {"zset": "ZCARD", "hash": "HLEN", "set": "SCARD", "stream": "XLEN", "list": "LLEN", "string": "STRLEN"}
_IN_USE_S = 1  # a key that was idle for no longer is in use
LOOK_AGAIN_S = 2.5  # idle times are whole seconds: a key that is still not idle was used in between
_SHOWN = 10  # hottest keys in the result
_SMALL = 32  # entries that every sensible setting packs in one piece
_UNPACKED = frozenset(("skiplist", "hashtable"))


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key that stands out."""

    key: str
    family: str
    type: str
    encoding: str
    entries: int
    bytes: int
    is_normal: bool
    heat: int = 0  # the frequency counter of the server, if it has one

    @property
    def bytes_each(self) -> float:
        return self.bytes / self.entries if self.entries else float(self.bytes)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """All keys of one family that were seen; entries and encodings come from the measured keys."""

    family: str
    what: str
    keys: int
    bytes: int
    entries_mean: float
    bytes_each: float
    encodings: dict[str, int]
    unpacked: int  # small keys, among the measured ones, that the server does not keep in one piece


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of one server."""

    where: str
    keys_total: int
    keys_seen: int
    is_whole: bool
    took_s: float
    kinds: tuple[Kind, ...]
    biggest: tuple[Key, ...]
    hottest: tuple[Key, ...]
    heat: str  # the method for the hottest keys: "lfu", or "in use" at two readings


class _Tally:
    """One family while it is being walked."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.keys = 0
        self.bytes = 0
        self.measured: list[Key] = []

    def kind(self) -> Kind:
        entries = sum(key.entries for key in self.measured)
        return Kind(
            family=self.family.name,
            what=self.family.what,
            keys=self.keys,
            bytes=self.bytes,
            entries_mean=entries / max(1, len(self.measured)),
            bytes_each=sum(key.bytes for key in self.measured) / max(1, entries),
            encodings=dict(Counter(key.encoding for key in self.measured)),
            unpacked=sum(key.entries <= _SMALL and key.encoding in _UNPACKED for key in self.measured),
        )


class Walk:
    """One walk over one server."""

    def __init__(
        self, server: Server, sorter: Sorter, clock: Clock, budget_s: float, look_again_s: float = LOOK_AGAIN_S
    ) -> None:
        self._server = server
        self._sorter = sorter
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._until_s = self._began_s + budget_s
        self._look_again_s = look_again_s
        self._tallies: dict[str, _Tally] = {}
        self._big: list[tuple[int, bytes]] = []
        self._hot: list[tuple[int, bytes]] = []
        self._seen = 0
        self._has_lfu = False

    async def run(self) -> Census:
        policy = (await self._server.info("memory")).get("maxmemory_policy", "")
        self._has_lfu = policy.endswith("lfu")
        total = await self._server.ask("DBSIZE")
        is_whole = await self._scan()
        biggest = await self._describe({key: weight for weight, key in sorted(self._big, reverse=True)})
        hottest = await self._hottest()
        kinds = sorted((tally.kind() for tally in self._tallies.values()), key=lambda kind: -kind.bytes)
        return Census(
            where=self._server.where,
            keys_total=total if isinstance(total, int) else self._seen,
            keys_seen=self._seen,
            is_whole=is_whole,
            took_s=round(self._clock.monotonic_s() - self._began_s, 2),
            kinds=tuple(kinds),
            biggest=tuple(biggest),
            hottest=tuple(hottest),
            heat="lfu" if self._has_lfu else "in use",
        )

    async def _scan(self) -> bool:
        """True: the walk reached the end."""
        cursor = b"0"
        while self._clock.monotonic_s() < self._until_s:
            answer = await self._server.ask("SCAN", cursor, "COUNT", DOCTOR_SCAN_COUNT)
            if said := refusal(answer):
                raise Unavailable(f"SCAN is refused: {said}")
            cursor, keys = answer
            await self._measure(keys)
            if cursor == b"0":
                return True
        return False

    async def _measure(self, keys: Sequence[bytes]) -> None:
        """Ask two O(1) questions about each key: its memory, and its use."""
        weights, heats = await self._memory_of(keys), await self._use_of(keys)
        if said := next((refusal(weight) for weight in weights if refusal(weight) and not _is_elsewhere(weight)), ""):
            raise Unavailable(f"MEMORY USAGE is refused: {said}")
        unmeasured: dict[bytes, int] = {}
        for key, weight, heat in zip(keys, weights, heats, strict=True):
            if not isinstance(weight, int):
                continue  # it was removed since the SCAN, or moved to another server
            tally = self._tally(key)
            tally.keys += 1
            tally.bytes += weight
            self._seen += 1
            _keep(self._big, (weight, key), DOCTOR_BIG_MAX)
            if isinstance(heat, int) and (self._has_lfu or heat <= _IN_USE_S):
                _keep(self._hot, (heat if self._has_lfu else -heat, key), DOCTOR_HOT_MAX)
            if tally.keys <= DOCTOR_MEASURED_MAX:
                unmeasured[key] = weight
        for found in await self._describe(unmeasured):
            self._tallies[found.family].measured.append(found)

    def _tally(self, key: bytes) -> _Tally:
        family = self._sorter.family_of(_name(key))
        tally = self._tallies.get(family.name)
        if tally is None:
            tally = self._tallies[family.name] = _Tally(family)
        return tally

    async def _hottest(self) -> list[Key]:
        """The hottest keys by the server's counter; without one, the keys in use at two readings, the largest first."""
        heats = {key: max(0, heat) for heat, key in self._hot}
        hot = list(heats)
        if hot and not self._has_lfu:
            await asyncio.sleep(self._look_again_s)
            idle = zip(hot, await self._use_of(hot), strict=True)
            hot = [key for key, idle_s in idle if isinstance(idle_s, int) and idle_s <= _IN_USE_S]
        weights = zip(hot, await self._memory_of(hot), strict=True)
        found = await self._describe({key: weight for key, weight in weights if isinstance(weight, int)}, heats)
        return sorted(found, key=lambda key: (-key.heat, -key.bytes))[:_SHOWN]

    # --- questions about many keys ----------------------------------------------------------------

    async def _memory_of(self, keys: Iterable[bytes]) -> list[Any]:
        return await self._ask([("MEMORY", "USAGE", key, "SAMPLES", DOCTOR_MEMORY_SAMPLES) for key in keys])

    async def _use_of(self, keys: Iterable[bytes]) -> list[Any]:
        """The frequency of use, where the server counts it; else the idle seconds."""
        word = "FREQ" if self._has_lfu else "IDLETIME"
        return await self._ask([("OBJECT", word, key) for key in keys])

    async def _describe(self, weights: Mapping[bytes, int], heats: Mapping[bytes, int] | None = None) -> list[Key]:
        """Add type, encoding and number of entries to keys with known bytes."""
        types = [_text(answer) for answer in await self._ask([("TYPE", key) for key in weights])]
        encodings = [_text(answer) for answer in await self._ask([("OBJECT", "ENCODING", key) for key in weights])]
        sized = zip(types, weights, strict=True)
        counts = await self._ask([(SIZE_COMMAND.get(type, "EXISTS"), key) for type, key in sized])
        facts = zip(weights.items(), types, encodings, counts, strict=True)
        return [
            self._key(key, weight, type, encoding, count if isinstance(count, int) else 0, (heats or {}).get(key, 0))
            for (key, weight), type, encoding, count in facts
        ]

    def _key(self, key: bytes, weight: int, type: str, encoding: str, entries: int, heat: int) -> Key:
        name = _name(key)
        family = self._sorter.family_of(name)
        return Key(
            key=name,
            family=family.name,
            type=type,
            encoding=encoding,
            entries=entries,
            bytes=weight,
            is_normal=is_normal(family, type, entries, weight),
            heat=heat,
        )

    async def _ask(self, commands: Sequence[Words]) -> list[Any]:
        """Ask DOCTOR_SCAN_COUNT at a time: the server runs the commands of one write in one go."""
        answers: list[Any] = []
        for at in range(0, len(commands), DOCTOR_SCAN_COUNT):
            answers += await self._server.ask_all(commands[at : at + DOCTOR_SCAN_COUNT])
        return answers


def is_normal(family: Family, type: str, entries: int, weight: int) -> bool:
    """Check the type, the number of entries and the size of an entry."""
    if family is FOREIGN:
        return entries <= family.entries_max
    is_heavy = entries >= LISTPACK_ENTRIES and weight > entries * family.entry_bytes_max
    return type == family.type and entries <= family.entries_max and not is_heavy


def _is_elsewhere(answer: Any) -> bool:
    """True: the slot of the key is moving to another server, which is no reason to stop."""
    return isinstance(answer, ErrorReply) and answer.code in ("MOVED", "ASK")


def _keep(heap: list[tuple[int, bytes]], item: tuple[int, bytes], size: int) -> None:
    """Keep the largest `size` items."""
    if len(heap) < size:
        heapq.heappush(heap, item)
    elif item > heap[0]:
        heapq.heapreplace(heap, item)


def _name(key: bytes) -> str:
    """The key as text. A foreign key may be any bytes."""
    return key.decode("utf-8", "backslashreplace")


def _text(answer: Any) -> str:
    return answer.decode() if isinstance(answer, bytes) else "?"
