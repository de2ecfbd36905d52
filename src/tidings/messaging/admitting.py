"""Stage: admit. Who may send now: the limiter is asked once per sender and batch, holds keep refused sends in order.

Who has plenty of budget left is asked for in the round trip that numbers (`Asking.is_tight` says who has not): should
the limiter refuse all the same, because of what other nodes admitted, the number is given up like any other, and the
id forgotten.

A resend is free: before an id is refused it is looked for among those admitted or numbered lately, and an admitted one
that turns out to be a duplicate gives its slot back. While a user is refused from memory, the look is in memory too, so
that a flood costs the keyspace nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidings.bounds import SENT_GENERATION_S
from tidings.clock import Clock
from tidings.errors import Held, RateLimited, StoreUnavailable
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.messaging.holds import Holds
from tidings.messaging.limiter import Admission, Limiter, Question
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.scripts import Admitted, Scripts

_CLASS = "send"
_LATELY_MAX = 50_000  # ids admitted by this node that it remembers, in each of two generations; 4 MB a generation
Asked = Sequence[tuple[BatchGroup, Draft]]


class Lately:
    """The ids admitted last, as hashes: an id that is taken for another's passes for free, and that is all."""

    def __init__(self, size_max: int = _LATELY_MAX) -> None:
        self._size_max = size_max
        self._now: set[int] = set()
        self._before: set[int] = set()

    def add(self, drafts: Iterable[Draft]) -> None:
        if len(self._now) >= self._size_max:
            self._now, self._before = set(), self._now
        self._now.update([hash(draft.id_) for draft in drafts])

    def __contains__(self, draft: Draft) -> bool:
        key = hash(draft.id_)
        return key in self._now or key in self._before


class Asking:
    """Who of a batch must be admitted, and the question to the limiter."""

    __slots__ = ("drafts", "question")

    def __init__(self, drafts: dict[str, list[tuple[BatchGroup, Draft]]], question: Question) -> None:
        self.drafts = drafts  # by sender, in the order they came
        self.question = question

    @property
    def calls(self) -> list[Call[Admitted]]:
        return self.question.calls

    @property
    def is_tight(self) -> bool:
        """Somebody is likely to be refused: better to know before numbers are handed out."""
        return self.question.is_tight


class Admitting:
    def __init__(self, limiter: Limiter, holds: Holds, keyspace: Keyspace, scripts: Scripts, clock: Clock) -> None:
        self._limiter = limiter
        self._holds = holds
        self._keyspace = keyspace
        self._scripts = scripts
        self._clock = clock
        self._lately = Lately()

    def ask(self, groups: Sequence[BatchGroup]) -> Asking:
        """What the limiter must be asked; what is held is refused at once."""
        drafts: dict[str, list[tuple[BatchGroup, Draft]]] = {}
        for group in groups:
            for draft in list(group.drafts):
                if draft.kind == "member":
                    continue
                if draft.is_abandoned:  # what was refused before it is not known any more, and must not be overtaken
                    group.refuse(draft, StoreUnavailable("given up, or its connection is gone"))
                    continue
                if self._holds.is_held(draft.origin, draft.conversation_id, draft.message_id, draft.place):
                    group.refuse(draft, Held())
                    continue
                passing = self._holds.let_pass(draft.origin, draft.conversation_id, draft.message_id)
                draft.place = passing or draft.place
                drafts.setdefault(draft.sender_id, []).append((group, draft))
        return Asking(drafts, self._limiter.ask(_CLASS, [(user_id, len(asked)) for user_id, asked in drafts.items()]))

    def bet(self, asking: Asking, sign: int) -> None:
        """Before (1) and after (-1) numbers are handed out on the expectation that all are admitted."""
        self._limiter.bet(asking.question, sign)

    async def admit(self, asking: Asking) -> None:
        """Refuse what may not pass now. Raises Unavailable."""
        self.bet(asking, 1)  # what is asked for now is not there for others to bet on
        try:
            replies = await self._keyspace.run(asking.calls) if asking.calls else ()
        finally:
            self.bet(asking, -1)
        await self.conclude(asking, replies)

    async def conclude(self, asking: Asking, replies: Sequence[Admitted]) -> None:
        """The same with the replies to `asking.calls`, before or after the drafts were numbered. Raises Unavailable."""
        over: list[tuple[Asked, Admission]] = []
        answers = self._limiter.answered(asking.question, replies)
        for drafts, answer in zip(asking.drafts.values(), answers, strict=True):
            if answer.token:
                admitted = [draft for _, draft in drafts[: answer.admitted]]
                for position, draft in enumerate(admitted):
                    draft.slot = (answer.token, position)
                self._lately.add(admitted)
            if len(drafts) > answer.admitted:
                over.append((drafts[answer.admitted :], answer))
        if over:
            await self._refuse(over)

    async def give_back(self, groups: Sequence[BatchGroup]) -> None:
        """Slots of duplicates. Raises Unavailable."""
        free: dict[str, list[str]] = {}
        for group in groups:
            for draft in group.done:
                if draft.is_duplicate and draft.slot is not None:
                    token, position = draft.slot
                    free.setdefault(draft.sender_id, []).append(f"{token}:{position + 1}")
        if free:
            await self._limiter.give_back(_CLASS, free)

    async def _refuse(self, over: Sequence[tuple[Asked, Admission]]) -> None:
        """All of these are over the limit, unless they were within it before."""
        asked = [draft for drafts, answer in over if not answer.is_local for _, draft in drafts]
        free = await self._noted(asked)
        self._lately.add(free)
        refused_in: set[tuple[str, str]] = set()
        noted: dict[str, list[tuple[str, int, None]]] = {}
        for drafts, answer in over:
            for group, draft in drafts:
                if draft.problem is not None or draft in free or draft in self._lately:
                    continue
                if draft.seq_no and not draft.is_known:
                    noted.setdefault(draft.conversation_id, []).append((draft.note, draft.seq_no, None))
                if draft.origin is not None and (draft.origin, draft.conversation_id) in refused_in:
                    group.refuse(draft, Held())
                    continue
                if draft.origin is not None:
                    refused_in.add((draft.origin, draft.conversation_id))
                retry_after_ms = -(-answer.retry_after_us // 1000)
                limit = self._limiter.count_max(_CLASS, draft.sender_id)
                group.refuse(draft, RateLimited(retry_after_ms=retry_after_ms, limit=limit, class_name=_CLASS))
        if noted:  # with their numbers, and what is noted passes free
            forget, now_ms = self._scripts.sent_forget, self._clock.now_ms()
            await self._keyspace.run([forget(id_, notes, now_ms=now_ms) for id_, notes in noted.items()])

    async def _noted(self, drafts: Sequence[Draft]) -> set[Draft]:
        """Those whose ids the keyspace has noted before. What has a number was told so with it."""
        known = {draft for draft in drafts if draft.is_known}
        drafts = [draft for draft in drafts if not draft.seq_no]
        if not drafts:
            return known
        generation = self._clock.now_ms() // (SENT_GENERATION_S * 1000)
        sent = self._scripts.keys.sent
        names = [(sent(draft.conversation_id, generation - back), draft.note) for draft in drafts for back in (0, 1)]
        found = await self._keyspace.run([plain(key, b"HEXISTS", key, note) for key, note in names])
        return known | {draft for at, draft in enumerate(drafts) if found[2 * at] or found[2 * at + 1]}
