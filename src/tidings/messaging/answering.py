"""Answers: each draft is answered once, stored or refused, and what is refused for now starts or joins a hold first.

So a later send of the same device finds the hold in its way and cannot overtake. send.py says when; holds.py keeps the
order of what waits.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidings.clock import Clock
from tidings.errors import IdConflict, Problem
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.messaging.holds import Holds
from tidings.messaging.stopwatch import Measures
from tidings.model import Sent

log = logging.getLogger("tidings.send")


class Answering:
    def __init__(self, holds: Holds, clock: Clock, measures: Measures) -> None:
        self._holds = holds
        self._clock = clock
        self._measures = measures

    def refuse(self, drafts: Sequence[Draft], problem: Problem) -> None:
        """Before anything was done. What the same device sends later must not overtake it."""
        for draft in drafts:
            if draft.kind == "message" and not draft.is_abandoned:
                self._holds.join(draft.origin, draft.conversation_id, draft.message_id, draft.place)
            _tell(draft, problem)

    def acknowledge(self, group: BatchGroup) -> list[Draft]:
        """Everything of a group that has come to its end. Returns what must be tried again."""
        now_s = self._clock.monotonic_s()
        group.is_answered = True
        if group.refused:
            self._hold_refused(group)
        again: list[Draft] = []
        stored = 0
        for draft in group.done:
            for one in draft.followers or ():  # stored, so none of their own connections' holds waits for it any more
                self._holds.abandon(one.origin, group.conversation_id, one.message_id)
            again += _reply(draft)
            if not draft.is_duplicate and draft.kind == "message":
                stored += 1
                self._measures.send_seconds.observe(now_s - draft.arrived_s)
        self._measures.messages.inc(stored)
        for draft in group.refused:
            again += _reply(draft)
        return again

    def _hold_refused(self, group: BatchGroup) -> None:
        """With each, the same id that came again over another connection. What is refused for good waits no longer."""
        by_origin: dict[str, dict[str, int]] = {}
        for draft in group.refused:
            for one in (draft, *(draft.followers or ())) if draft.kind == "message" else ():
                if one.origin is None or one.is_abandoned:
                    continue
                if draft.problem is not None and draft.problem.is_temporary:
                    by_origin.setdefault(one.origin, {})[one.message_id] = one.place
                else:
                    self._holds.abandon(one.origin, group.conversation_id, one.message_id)
        for origin, places in by_origin.items():
            self._holds.refuse(origin, group.conversation_id, places)


def _reply(draft: Draft) -> list[Draft]:
    """To the draft and to those that came with the same id. Whose text may be the one that is stored is returned."""
    _tell(draft, draft.answer())
    again: list[Draft] = []
    for follower in draft.followers or ():
        if isinstance(draft.problem, IdConflict) and follower.digest != draft.digest:
            again.append(follower)
        else:
            _tell(follower, draft.answer_follower(follower))
    return again


def _tell(draft: Draft, answer: Sent | Problem) -> None:
    try:
        draft.reply(answer)
    except Exception:
        log.exception("an answer was not taken")  # the other drafts of the batch must have theirs
