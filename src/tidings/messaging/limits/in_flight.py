"""In flight: bounds how many requests other than sends are under way on a node, of one user and of all together.

The bound leaves room that only sends may use: slow pages of history can never keep a message waiting. Under pressure
typing is refused first, because it is true for a moment only. Sends have bounds of their own (send/lanes.py).
"""

from __future__ import annotations

from tidings.bounds import IN_FLIGHT_MAX, IN_FLIGHT_PER_USER_MAX, IN_FLIGHT_RETRY_MS
from tidings.errors import RateLimited

CLASS = "in_flight"


class InFlight:
    def __init__(self) -> None:
        self._all = 0
        self._of_user: dict[str, int] = {}

    def begin(self, class_name: str, user_id: str | None) -> None:
        """Count a request until `end`. `user_id` None: it acts for many users. Raises RateLimited."""
        most = IN_FLIGHT_MAX // 2 if class_name == "typing" else IN_FLIGHT_MAX
        mine = self._of_user.get(user_id, 0) if user_id is not None else 0
        if self._all >= most or mine >= IN_FLIGHT_PER_USER_MAX:
            raise RateLimited(
                "too many requests are under way: wait for their answers",
                retry_after_ms=IN_FLIGHT_RETRY_MS,
                limit=IN_FLIGHT_PER_USER_MAX,
                class_name=CLASS,
            )
        self._all += 1
        if user_id is not None:
            self._of_user[user_id] = mine + 1

    def end(self, user_id: str | None) -> None:
        self._all -= 1
        if user_id is not None:
            left = self._of_user[user_id] - 1
            if left:
                self._of_user[user_id] = left
            else:
                del self._of_user[user_id]
