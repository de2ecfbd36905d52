"""Stage: acknowledge. Each draft is answered once, stored or refused.

A send that is refused for now starts or joins a hold first (messaging/limits/held.py). So a later send of the same
device finds the hold in its way and cannot overtake.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidings.clock import Clock
from tidings.errors import IdConflict, Problem
from tidings.messaging.limits.held import Holds
from tidings.messaging.send.batch import Batch, BatchGroup, Measures
from tidings.messaging.send.draft import Answer, Draft
from tidings.model import KINDS

log = logging.getLogger("tidings.send")


class Acknowledge:
    def __init__(self, holds: Holds, clock: Clock, measures: Measures) -> None:
        self._holds = holds
        self._clock = clock
        self._measures = measures

    def refuse(self, drafts: Sequence[Draft], problem: Problem) -> None:
        """Refuse drafts before any stage. A later send of the same device must not overtake them."""
        for draft in drafts:
            if not draft.is_abandoned:
                self._holds.join(draft.origin, draft.conversation_id, draft.message_id, draft.place)
            _answer(draft, problem)

    def reply(self, batch: Batch) -> None:
        """Answer every draft of the batch. Drafts to try again are left in `batch.again`."""
        for group in batch.groups:
            batch.again += self.answer_group(group)
        batch.lap("acknowledge")

    def refuse_rest(self, batch: Batch, problem: Problem) -> None:
        """The batch cannot go on: refuse every draft that has no answer yet, stored or not."""
        for group in batch.groups:
            if not group.is_answered:
                group.refuse_unanswered(problem)
                batch.again += self.answer_group(group)

    def answer_group(self, group: BatchGroup) -> list[Draft]:
        """Answer the drafts of a group. Returns those that must be tried again."""
        now_s = self._clock.monotonic_s()
        group.is_answered = True
        if group.refused:
            self._hold_refused(group)
        again: list[Draft] = []
        stored = 0
        for draft in group.done:
            if draft.followers is None:
                _answer(draft, draft.answer())
            else:
                for one in draft.followers:  # their id is stored: the holds of their connections must not wait for it
                    self._holds.abandon(one.origin, group.conversation_id, one.message_id)
                again += _answer_all(draft)
            if not draft.is_duplicate and KINDS[draft.kind].counts:
                stored += 1
                self._measures.send_seconds.observe(now_s - draft.arrived_s)
        self._measures.messages.inc(stored)
        for draft in group.refused:
            again += _answer_all(draft)
        return again

    def _hold_refused(self, group: BatchGroup) -> None:
        """Hold each send that is refused for now, and its followers. A send refused for good leaves its hold."""
        by_origin: dict[str, dict[str, int]] = {}
        for draft in group.refused:
            for one in (draft, *(draft.followers or ())):
                if one.origin is None or one.is_abandoned:
                    continue
                if draft.problem is not None and draft.problem.is_temporary:
                    places = by_origin.setdefault(one.origin, {})
                    places[one.message_id] = min(one.place, places.get(one.message_id, one.place))
                else:
                    self._holds.abandon(one.origin, group.conversation_id, one.message_id)
        for origin, places in by_origin.items():
            self._holds.refuse(origin, group.conversation_id, places)


def _answer_all(draft: Draft) -> list[Draft]:
    """Answer the draft and its followers. Returns the followers whose content may be the one that is stored."""
    _answer(draft, draft.answer())
    again: list[Draft] = []
    for follower in draft.followers or ():
        if isinstance(draft.problem, IdConflict) and follower.digest != draft.digest:
            again.append(follower)
        else:
            _answer(follower, draft.answer_follower(follower))
    return again


def _answer(draft: Draft, answer: Answer) -> None:
    try:
        draft.reply(answer)
    except Exception:
        log.exception("answer not taken")  # the other drafts of the batch must have theirs
