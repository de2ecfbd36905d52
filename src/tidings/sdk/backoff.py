"""How long to wait before another attempt: a random time below a bound that doubles. Everyone's clients do not come
back in the same moment, and a server in trouble is asked less and less. session.py, outbox.py and rest.py call it.
"""

from __future__ import annotations

from tidings.bounds import CLIENT_BACKOFF_S, CLIENT_BACKOFF_S_MAX
from tidings.clock import Clock


class Backoff:
    """Counts attempts that failed in a row."""

    def __init__(self, clock: Clock, first_s: float = CLIENT_BACKOFF_S, most_s: float = CLIENT_BACKOFF_S_MAX) -> None:
        self._clock = clock
        self._first_s = first_s
        self._most_s = most_s
        self._failed_count = 0

    def reset(self) -> None:
        self._failed_count = 0

    def next_s(self, asked_ms: int | None = None) -> float:
        """The pause before the next attempt; never shorter than what the server asked for."""
        bound_s = min(self._most_s, self._first_s * 2.0 ** min(self._failed_count, 20))
        self._failed_count += 1
        jitter_s: float = self._clock.random_fraction() * bound_s
        return jitter_s if asked_ms is None else asked_ms / 1000 + min(jitter_s, self._first_s)
