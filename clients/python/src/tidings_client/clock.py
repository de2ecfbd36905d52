"""The only door to time and randomness, so that tests own both.

`now_ms` is wall time. `monotonic_s` measures waiting, and never jumps.
"""

from __future__ import annotations

import os
import time


class Clock:
    """Real time and real randomness."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def random_id(self) -> str:
        """Make 16 random bytes as lower-case hex."""
        return os.urandom(16).hex()

    def random_fraction(self) -> float:
        """Draw a number in [0, 1), for jitter."""
        return int.from_bytes(os.urandom(6), "big") / (1 << 48)
