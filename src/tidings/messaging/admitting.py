"""Stage: admit. Who may send now: the limiter is asked once per sender and batch, holds keep refused sends in order.

A resend of a stored message is free: before an id is refused it is looked for among those noted lately, and an admitted
one that turns out to be a duplicate gives its slot back.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.clock import Clock
from tidings.errors import Held, RateLimited
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.messaging.holds import Holds
from tidings.messaging.limiter import Admission, Limiter
from tidings.stores.calls import Keyspace, plain
from tidings.stores.keys import Keys
from tidings.bounds import SENT_GENERATION_S

_CLASS = "send"


class Admitting:
    def __init__(self, limiter: Limiter, holds: Holds, keyspace: Keyspace, keys: Keys, clock: Clock) -> None:
        self._limiter = limiter
        self._holds = holds
        self._keyspace = keyspace
        self._keys = keys
        self._clock = clock

    async def admit(self, groups: Sequence[BatchGroup]) -> None:
        """Refuse what may not pass now. Raises Unavailable."""
        asking: dict[str, list[tuple[BatchGroup, Draft]]] = {}
        for group in groups:
            for draft in list(group.drafts):
                if draft.kind == "member":
                    continue
                if self._holds.is_held(draft.origin, draft.conversation_id, draft.message_id):
                    group.refuse(draft, Held())
                    continue
                self._holds.let_pass(draft.origin, draft.conversation_id, draft.message_id)
                asking.setdefault(draft.sender_id, []).append((group, draft))
        wanted = [(user_id, len(drafts)) for user_id, drafts in asking.items()]
        answers = await self._limiter.admit_many(_CLASS, wanted)
        for drafts, answer in zip(asking.values(), answers, strict=True):
            for position, (_, draft) in enumerate(drafts[: answer.admitted]):
                draft.slot = (answer.token, position) if answer.token else None
            if len(drafts) > answer.admitted:
                await self._refuse(drafts[answer.admitted :], answer)

    async def give_back(self, groups: Sequence[BatchGroup]) -> None:
        """Slots of duplicates."""
        for group in groups:
            for draft in group.done:
                if draft.is_duplicate and draft.slot is not None:
                    token, position = draft.slot
                    await self._limiter.give_back(_CLASS, draft.sender_id, token, [position])

    async def _refuse(self, drafts: Sequence[tuple[BatchGroup, Draft]], answer: Admission) -> None:
        refused_in: set[tuple[str | None, str]] = set()
        for group, draft in drafts:
            if not answer.is_local and await self._is_noted(draft):
                continue  # stored before, or about to be: it costs nothing
            key = (draft.origin, draft.conversation_id)
            if key in refused_in and draft.origin is not None:
                group.refuse(draft, Held())
                self._holds.is_held(*key, draft.message_id)
                continue
            refused_in.add(key)
            group.refuse(draft, RateLimited(retry_after_ms=-(-answer.retry_after_us // 1000)))
            self._holds.refuse(draft.origin, draft.conversation_id, [draft.message_id])

    async def _is_noted(self, draft: Draft) -> bool:
        generation = self._clock.now_ms() // (SENT_GENERATION_S * 1000)
        keys = [self._keys.sent(draft.conversation_id, generation - back) for back in (0, 1)]
        notes = await self._keyspace.run([plain(key, b"HEXISTS", key, draft.note) for key in keys])
        return any(notes)
