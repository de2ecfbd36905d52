"""Is the server still there, and until when was it for certain? No I/O.

What is heard proves it, unless this program stood still meanwhile: stopped, asleep with its machine, or too busy to
read. What is read then may have been sent long ago, by a server that has given this client up since. So it counts for
nothing until a ping is answered. link.py says what is heard, session.py ticks and does what the verdict says.
"""

from __future__ import annotations

from enum import Enum, auto

from tidings.clock import Clock


class Verdict(Enum):
    FINE = auto()
    PING = auto()  # quiet for long
    PROVE = auto()  # nothing counts until the answer to a ping is `proven`
    CUT = auto()


class Liveness:
    """Ticks come twice in an interval. `heard_s` is when the server was there for certain."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._interval_s = float("inf")
        self._awake_s, self._awake_ms = clock.monotonic_s(), clock.now_ms()
        self.heard_s = self._awake_s
        self._is_sure = True
        self._is_asked = False
        self._doubts_count = 0

    def begin(self, interval_s: float) -> None:
        """Ticks begin."""
        self._interval_s = interval_s
        self._wake()

    def hear(self) -> None:
        if self._is_late():
            self.doubt()
        if self._is_sure:
            self.heard_s = self._clock.monotonic_s()

    def doubt(self) -> None:
        """Nothing was read for a while: a proof that is on its way is none any more."""
        self._is_sure = self._is_asked = False
        self._doubts_count += 1

    def tick(self) -> Verdict:
        if self._is_late():
            self.doubt()
        self._wake()
        if not self._is_sure:
            return self._ask()
        quiet_s = self._clock.monotonic_s() - self.heard_s
        if quiet_s >= 2 * self._interval_s:
            return Verdict.CUT
        return Verdict.PING if quiet_s >= self._interval_s else Verdict.FINE

    @property
    def proof(self) -> int:
        """Which doubt a ping is to end."""
        return self._doubts_count

    def proven(self, proof: int) -> None:
        if proof == self._doubts_count:
            self._is_sure = True
            self.heard_s = self._clock.monotonic_s()

    def _ask(self) -> Verdict:
        """A proof has until the next tick."""
        if self._is_asked:
            return Verdict.CUT
        self._is_asked = True
        return Verdict.PROVE

    def _wake(self) -> None:
        self._awake_s, self._awake_ms = self._clock.monotonic_s(), self._clock.now_ms()

    def _is_late(self) -> bool:
        """The tick is overdue. Both clocks are asked: the steady one stands still while a machine sleeps."""
        away_s = max(self._clock.monotonic_s() - self._awake_s, (self._clock.now_ms() - self._awake_ms) / 1000)
        return away_s > self._interval_s
