"""Lease clock: the time of the keyspace, by which every node writes and reads leases.

Nodes on machines whose clocks differ would take each other for dead. So a node reads the clock of the server that holds
the list of nodes with every heartbeat, and its own monotonic clock carries that time on in between. A wrong wall clock,
or one that is set meanwhile, changes nothing.

The time of the keyspace itself jumps when a server with another clock takes over. Entries that were dated before and
after a jump do not compare, so the lease clock remembers the jumps, and `earliest_ms` looks back past them.
"""

from __future__ import annotations

from tidings.clock import Clock
from tidings.stores.keyspace.call import Keyspace, plain
from tidings.stores.keyspace.keys import Keys

_JUMP_MS = 100.0  # a difference above this between two readings is a jump; below it, clocks that drift
_JUMPS_MAX = 32  # that are remembered: failovers of the last minutes


class LeaseClock:
    def __init__(self, keyspace: Keyspace, keys: Keys, clock: Clock) -> None:
        self._keyspace = keyspace
        self._keys = keys
        self._clock = clock
        self._ahead_ms: float | None = None  # of the keyspace before our monotonic clock; None: not read yet
        self._jumps: list[tuple[float, float]] = []  # (until when, how far ahead it was), oldest first

    def now_ms(self) -> int:
        """The time of the keyspace; before the first reading, of this machine."""
        if self._ahead_ms is None:
            return self._clock.now_ms()
        return int(self._clock.monotonic_s() * 1000 + self._ahead_ms)

    def earliest_ms(self, ago_s: float) -> int:
        """The lowest date that the keyspace may have given in the last `ago_s` seconds, whatever its clock did."""
        now_ms, now_s = self.now_ms(), self._clock.monotonic_s()
        lowest = [ahead for until_s, ahead in self._jumps if until_s >= now_s - ago_s]
        return min([now_ms, *(int(now_s * 1000 + ahead) for ahead in lowest)]) - int(ago_s * 1000)

    async def read(self) -> None:
        """Ask the keyspace for its time. Raises StoreError."""
        before_ms = self._clock.monotonic_s() * 1000
        seconds, micros = await self._keyspace.one(plain(self._keys.nodes, b"TIME"))
        after_ms = self._clock.monotonic_s() * 1000
        there_ms = int(seconds) * 1000 + int(micros) / 1000
        # The server read its clock between the two: a difference inside these bounds may be the round trip alone.
        least_ms, most_ms = there_ms - after_ms, there_ms - before_ms
        known_ms = (least_ms + most_ms) / 2 if self._ahead_ms is None else self._ahead_ms
        self._ahead_ms = min(max(known_ms, least_ms), most_ms)
        if abs(self._ahead_ms - known_ms) > _JUMP_MS:
            self._jumps = [*self._jumps, (after_ms / 1000, known_ms)][-_JUMPS_MAX:]
