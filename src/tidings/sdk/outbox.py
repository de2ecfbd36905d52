"""Which draft may be sent now: in order per conversation, again until it is stored or refused for good. No I/O.

The rules of a hold: a send refused as temporary stops its conversation; what was sent behind it is answered `held`;
then the first goes again, alone, and the next only when it is stored. After a lost connection all unanswered ones go
again, in order. sender.py feeds it with answers and sends what `ready` names.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.bounds import CLIENT_LANE_SENDS_MAX, CLIENT_SENDS_MAX
from tidings.clock import Clock
from tidings.errors import Problem
from tidings.sdk.backoff import Backoff
from tidings.sdk.drafts import Draft

Key = tuple[str, str]  # conversation_id, message_id


def key_of(draft: Draft) -> Key:
    return draft.conversation_id, draft.message_id


class Lane:
    """The drafts of one conversation, first to last."""

    def __init__(self, clock: Clock) -> None:
        self.drafts: dict[str, Draft] = {}  # message_id -> draft: a dict keeps its order
        self.in_flight: set[str] = set()
        self.refused: set[str] = set()  # while there are any, one at a time
        self.not_before_s = 0.0
        self.backoff = Backoff(clock)

    def ready(self, now_s: float) -> Iterator[Draft]:
        """Those that may go now, in order. Nothing overtakes: the first that may not go ends it."""
        most = 1 if self.refused else CLIENT_LANE_SENDS_MAX
        if now_s < self.not_before_s:
            return
        for draft in self.drafts.values():
            if draft.message_id in self.in_flight:
                if self.refused:
                    return  # the first of the hold is on its way, alone
                continue
            if len(self.in_flight) >= most:
                return
            yield draft

    def forget(self, message_id: str) -> None:
        self.drafts.pop(message_id, None)
        self.in_flight.discard(message_id)
        self.refused.discard(message_id)


class Outbox:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes: dict[str, Lane] = {}
        self._in_flight_count = 0

    def __len__(self) -> int:
        return sum(len(lane.drafts) for lane in self._lanes.values())

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None

    def get(self, key: Key) -> Draft | None:
        lane = self._lanes.get(key[0])
        return lane.drafts.get(key[1]) if lane is not None else None

    def add(self, draft: Draft) -> None:
        lane = self._lanes.setdefault(draft.conversation_id, Lane(self._clock))
        lane.drafts[draft.message_id] = draft

    def ready(self) -> list[Draft]:
        """What is to be sent now; from here on it is in flight."""
        now_s = self._clock.monotonic_s()
        found: list[Draft] = []
        for lane in self._lanes.values():
            for draft in lane.ready(now_s):
                if self._in_flight_count >= CLIENT_SENDS_MAX:
                    return found
                lane.in_flight.add(draft.message_id)
                self._in_flight_count += 1
                found.append(draft)
        return found

    def wait_s(self) -> float | None:
        """Until a conversation that waits may go on; None when none waits."""
        now_s = self._clock.monotonic_s()
        waits = [lane.not_before_s - now_s for lane in self._lanes.values() if lane.not_before_s > now_s]
        return min(waits, default=None)

    def done(self, draft: Draft) -> None:
        """Stored, refused for good, or given up."""
        lane = self._lanes.get(draft.conversation_id)
        if lane is None:
            return
        self._in_flight_count -= draft.message_id in lane.in_flight
        lane.forget(draft.message_id)
        lane.backoff.reset()
        if not lane.drafts:
            del self._lanes[draft.conversation_id]

    def refuse(self, draft: Draft, problem: Problem) -> None:
        """A temporary refusal. `held` waits for the first of its hold, which has its own time."""
        lane = self._lanes[draft.conversation_id]
        if draft.message_id in lane.in_flight:
            lane.in_flight.discard(draft.message_id)
            self._in_flight_count -= 1
        lane.refused.add(draft.message_id)
        is_first = next(iter(lane.drafts)) == draft.message_id
        if problem.code != "held" or is_first:
            pause_s = lane.backoff.next_s(problem.retry_after_ms)
            lane.not_before_s = max(lane.not_before_s, self._clock.monotonic_s() + pause_s)

    def interrupt(self) -> None:
        """The connection is gone, and with it every hold: all that is unanswered is to be sent again."""
        self._in_flight_count = 0
        for lane in self._lanes.values():
            lane.in_flight.clear()
            lane.refused.clear()
