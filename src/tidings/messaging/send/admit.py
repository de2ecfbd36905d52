"""Stage: admit. The limiter is asked once per sender and batch, and holds keep refused sends in their order.

A sender with plenty of budget is admitted in the round trip that numbers: the limiter decides as exactly as ever, only
later (docs/decisions/0005). Should it refuse, because of sends that other nodes admitted, the number is given up like
any other, and the id is forgotten. A sender near the limit is asked about first.

A sender pays before the members are checked, so a flood of sends into conversations of others is refused like any other
flood. A send that fails for now gives its slot back.

A resend is free. Before an id is refused it is looked up among those admitted or numbered lately, and an admitted id
that turns out to be a duplicate gives its slot back. While a user is refused from memory the lookup is in memory too,
so a flood costs the keyspace nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

from tidings.clock import Clock
from tidings.errors import Held, RateLimited, StoreError, StoreUnavailable
from tidings.messaging.limits.held import Holds
from tidings.messaging.limits.limiter import Admission, Limiter
from tidings.messaging.send.batch import Batch, BatchGroup
from tidings.messaging.send.counters import numbers_had
from tidings.messaging.send.draft import Draft
from tidings.stores.keyspace.call import Call, Keyspace
from tidings.stores.keyspace.scripts.answers import Admitted
from tidings.stores.keyspace.scripts.messaging import Scripts

log = logging.getLogger("tidings.send")
_CLASS = "send"
_LATELY_MAX = 50_000  # ids admitted by this node that it remembers, in each of two generations; 4 MB a generation
OfSender = Sequence[tuple[BatchGroup, Draft]]


class Lately:
    """The hashes of the ids that were admitted last. Where two ids share a hash, the second passes free: no worse."""

    def __init__(self, size_max: int = _LATELY_MAX) -> None:
        self._size_max = size_max
        self._now: set[int] = set()
        self._before: set[int] = set()

    def add(self, drafts: Iterable[Draft]) -> None:
        if len(self._now) >= self._size_max:
            self._now, self._before = set(), self._now
        self._now.update([hash(draft.id_) for draft in drafts])

    def discard(self, draft: Draft) -> None:
        key = hash(draft.id_)
        self._now.discard(key)
        self._before.discard(key)

    def __contains__(self, draft: Draft) -> bool:
        key = hash(draft.id_)
        return key in self._now or key in self._before


@dataclass(eq=False, repr=False)
class Admit:
    """`is_early`: every sender is checked here, because the groups of a batch go different ways after this stage."""

    limiter: Limiter
    holds: Holds
    keyspace: Keyspace
    scripts: Scripts
    clock: Clock
    _: KW_ONLY
    is_early: bool = False

    def __post_init__(self) -> None:
        self._lately = Lately()

    async def check(self, batch: Batch) -> None:
        """Refuse held sends, and ask the limiter where a refusal is likely: before numbers are handed out.

        Raises Unavailable.
        """
        for group in batch.groups:
            for draft in list(group.drafts):
                is_free = draft.change is not None or draft.is_of_server or draft.is_paid
                if not is_free and self._may_pass(group, draft):
                    batch.by_sender.setdefault(draft.sender_id, []).append((group, draft))
        wanted = [(user_id, len(drafts)) for user_id, drafts in batch.by_sender.items()]
        batch.limit_check = check = self.limiter.prepare(_CLASS, wanted)
        if check.is_refusal_likely or self.is_early:
            calls = self.reserve(batch)  # no other batch may count on the same budget
            try:
                replies = await self.keyspace.run(calls) if calls else ()
            finally:
                self.release(batch)
            await self.decide(batch, replies)
        batch.lap("admit")

    def reserve(self, batch: Batch) -> list[Call[Admitted]]:
        """The calls that ask the limiter, none if it has decided. Until `release` the batch counts as admitted."""
        if batch.limit_check is None:
            return []
        self.limiter.reserve(batch.limit_check)
        return batch.limit_check.calls

    def release(self, batch: Batch) -> None:
        if batch.limit_check is not None:
            self.limiter.release(batch.limit_check)

    async def decide(self, batch: Batch, replies: Sequence[Admitted]) -> None:
        """Refuse the drafts that the limiter did not admit, whether they have numbers or not. Raises Unavailable."""
        if batch.limit_check is None:
            return
        over: list[tuple[OfSender, Admission]] = []
        answers = self.limiter.decide(batch.limit_check, replies)
        batch.limit_check = None
        for drafts, answer in zip(batch.by_sender.values(), answers, strict=True):
            if answer.token:
                admitted = [draft for _, draft in drafts[: answer.admitted]]
                for position, draft in enumerate(admitted):
                    draft.slot = (answer.token, position)
                self._lately.add(admitted)
            if len(drafts) > answer.admitted:
                over.append((drafts[answer.admitted :], answer))
        if over:
            await self._refuse(over)

    async def give_back(self, batch: Batch) -> None:
        """Give back the slots of duplicates, and of sends that failed for now: the client sends those again."""
        free: dict[str, list[str]] = {}
        for group in batch.groups:
            back = [draft for draft in group.done if draft.is_duplicate]
            for draft in group.refused:
                self._lately.discard(draft)  # the next try of this id is not free: it has to be admitted itself
                if draft.problem is not None and draft.problem.is_temporary:
                    back.append(draft)
            for draft in back:
                if draft.slot is not None:
                    token, position = draft.slot
                    free.setdefault(draft.sender_id, []).append(f"{token}:{position + 1}")
        if free:
            try:
                await self.limiter.give_back(_CLASS, free)
            except StoreError as error:  # they stay used until the window has passed
                log.info("slots not given back", extra={"users": len(free), "cause": str(error)})

    def _may_pass(self, group: BatchGroup, draft: Draft) -> bool:
        if draft.is_abandoned:  # the sends that were refused before it are forgotten, and it must not overtake them
            group.refuse(draft, StoreUnavailable("given up, or its connection is gone"))
            return False
        if not self.holds.held:
            return True
        if self.holds.is_held(draft.origin, draft.conversation_id, draft.message_id, draft.place):
            group.refuse(draft, Held())
            return False
        first_place = self.holds.let_pass(draft.origin, draft.conversation_id, draft.message_id)
        draft.place = first_place or draft.place
        return True

    async def _refuse(self, over: Sequence[tuple[OfSender, Admission]]) -> None:
        """Refuse drafts over the limit, unless an earlier try of the same id was within it."""
        asked = [draft for drafts, answer in over if not answer.is_local for _, draft in drafts]
        free = await self._numbered_before(asked)
        self._lately.add(free)
        refused_in: set[tuple[str, str]] = set()
        numbers: dict[str, list[tuple[str, int, None]]] = {}
        for drafts, answer in over:
            for group, draft in drafts:
                if draft.problem is not None or draft in free or draft in self._lately:
                    continue
                if draft.seq_no and not draft.is_known:
                    numbers.setdefault(draft.conversation_id, []).append((draft.dedupe_field, draft.seq_no, None))
                if draft.origin is not None and (draft.origin, draft.conversation_id) in refused_in:
                    group.refuse(draft, Held())
                    continue
                if draft.origin is not None:
                    refused_in.add((draft.origin, draft.conversation_id))
                retry_after_ms = -(-answer.retry_after_us // 1000)
                limit = self.limiter.count_max(_CLASS, draft.sender_id)
                group.refuse(draft, RateLimited(retry_after_ms=retry_after_ms, limit=limit, class_name=_CLASS))
        if numbers:  # an id with a number would pass free
            forget, now_ms = self.scripts.sent_forget, self.clock.now_ms()
            await self.keyspace.run([forget(id_, those, now_ms=now_ms) for id_, those in numbers.items()])

    async def _numbered_before(self, drafts: Sequence[Draft]) -> set[Draft]:
        """The drafts whose ids have had a number. The reply that numbers a draft also says whether its id is known."""
        known = {draft for draft in drafts if draft.is_known}
        drafts = [draft for draft in drafts if not draft.seq_no]
        if not drafts:
            return known
        numbers = await numbers_had(self.keyspace, self.scripts.keys, drafts, self.clock.now_ms())
        return known | {draft for draft, number in zip(drafts, numbers, strict=True) if number}
