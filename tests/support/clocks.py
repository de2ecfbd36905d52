"""Clocks that a test moves by itself."""

from __future__ import annotations

from tidings.clock import Clock


class AheadClock(Clock):
    """Real time that a test can push forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + round(self.ahead_s * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


class StillClock(Clock):
    """Time stands still until a test sets it."""

    at_s = 100.0

    def monotonic_s(self) -> float:
        return self.at_s
