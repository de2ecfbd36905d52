"""The only door to time and randomness, so that tests own both.

`now_ms` is wall time and never decides an order; `monotonic_s` measures waiting.
"""

from __future__ import annotations

import os
import random
import time


class Clock:
    """Real time and real randomness."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def random_id(self, size: int = 16) -> str:
        """`size` random bytes as lower-case hex."""
        return os.urandom(size).hex()

    def random_fraction(self) -> float:
        """Uniform in [0, 1): for jitter."""
        return int.from_bytes(os.urandom(6), "big") / (1 << 48)


class Dice(random.Random):
    """Randomness that its seed repeats: for schedules and workloads that must be played again."""
