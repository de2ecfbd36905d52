"""Counts: the unread state of a member in large conversations, made of the member's marks and the tallies.

A mark says what the member has read. The tally says which messages there are. The tables answer the rest: where the
tally does not reach far enough down, and people whom the member has blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import msgspec

from tidings.errors import NotFound, Unavailable
from tidings.messaging.unread.bounds import COUNTS_KEPT, LISTS_KEPT, TALLIES_TOGETHER, TALLY_TRIES_MAX
from tidings.messaging.unread.count import Count
from tidings.messaging.unread.rebuild import ANY_VERSION, Rebuilds
from tidings.messaging.unread.tallies import Tallies
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.scripts.answers import Listed, UnreadState
from tidings.stores.keyspace.scripts.marks import Mark, Sums
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.tally import Answer, Tallied, TallyScripts
from tidings.tasks import Recent

Marks = dict[str, Mark]  # conversation_id -> mark of one user


class Counted(NamedTuple):
    mark: Mark  # with its counts
    last_ms: int  # of the last message


class _Made(NamedTuple):
    rev: bytes
    mark: Mark  # without counts
    blocked: Sequence[str]
    counted: Counted


class _Whole(NamedTuple):
    """The counts of all large conversations of a user. They stay while the list and every `rev` stay."""

    listed: Sequence[Listed]
    epochs: frozenset[str]
    calls: Sequence[Call[list[bytes | None]]]  # that ask for the names
    revs: list[bytes | None]
    counted: dict[str, Counted]


@dataclass(eq=False, repr=False)
class LargeCounts:
    keyspace: Keyspace
    scripts: Scripts
    tally_scripts: TallyScripts
    tallies: Tallies
    count: Count
    rebuilds: Rebuilds
    _: KW_ONLY
    is_one_server: bool = True  # False: the keyspace is several servers

    def __post_init__(self) -> None:
        self._made = Recent[tuple[str, str], _Made](COUNTS_KEPT)
        self._wholes = Recent[str, _Whole](LISTS_KEPT)

    async def read(self, user_id: str, conversation_id: str = "") -> UnreadState | None:
        """Read totals, and one conversation, with everything that is large. None: the user is COLD."""
        found = await self.keyspace.one(self.scripts.unread_state(user_id, conversation_id))
        return await self.complete(user_id, conversation_id, found)

    async def read_many(self, user_ids: Sequence[str], conversation_id: str) -> dict[str, UnreadState]:
        """Read the same of many users in few round trips. Users for whom that is not enough are left out: `read` them
        one by one."""
        found = await self.keyspace.run([self.scripts.unread_state(id_, conversation_id) for id_ in user_ids])
        known = {user_id: state for user_id, state in zip(user_ids, found, strict=True) if state is not None}
        marks = {user_id: _marks_of(state.large) for user_id, state in known.items() if state.large}
        blocked = await self._blocked(marks)
        answers = await self._answers(marks, blocked)
        states: dict[str, UnreadState] = {}
        for user_id, state in known.items():
            mine, but = answers.get(user_id, {}), blocked.get(user_id, ())
            made = {one.conversation_id: self._make(user_id, one, mine, but) for one in state.large}
            counted = {id_: one for id_, one in made.items() if one is not None}
            if len(counted) == len(made):
                states[user_id] = self._with_large(state, counted, conversation_id)
        return states

    async def complete(self, user_id: str, conversation_id: str, found: UnreadState | None) -> UnreadState | None:
        """Add the large conversations to what the index of the user says. Raises Unavailable."""
        counted = None
        for _ in range(TALLY_TRIES_MAX):
            if found is None or not found.large:
                return found
            if (counted := await self.all(user_id, found.large)) is not None:
                break
            found = await self.keyspace.one(self.scripts.unread_state(user_id, conversation_id))
        if counted is None or found is None:
            raise Unavailable("the marks of large conversations are made again and again")
        return self._with_large(found, counted, conversation_id)

    def _with_large(self, found: UnreadState, counted: Mapping[str, Counted], conversation_id: str) -> UnreadState:
        sums = sums_of(counted, self.scripts.cap)
        own = counted.get(conversation_id)
        return UnreadState(
            None if found.total_unread is None else found.total_unread + sums.loud,
            found.unread_conversations + sums.conversations,
            own.mark if own is not None else found.mark,
            found.total_mentions + sums.mentions,
        )

    async def listed(self, user_id: str) -> list[Listed]:
        """Return the large conversations of a user with their counts, each at the time of its last message."""
        for _ in range(TALLY_TRIES_MAX):
            found = await self.keyspace.one(self.scripts.unread_state(user_id))
            counted = await self.all(user_id, found.large) if found is not None and found.large else {}
            if counted is not None and found is not None:
                scores = {one.conversation_id: one.score_ms for one in found.large}
                return [Listed(id_, max(scores[id_], one.last_ms), one.mark) for id_, one in counted.items()]
            if found is None:
                await self.rebuilds.user(user_id)
        raise Unavailable("the inbox is being rebuilt")

    async def one(self, user_id: str, conversation_id: str, mark: Mark) -> Mark:
        """Return a mark with its counts. That of a small conversation has them already."""
        if not mark.is_large:
            return mark
        for _ in range(TALLY_TRIES_MAX):
            counted = await self.all(user_id, [Listed(conversation_id, 1 << 53, mark)])
            if counted is not None and conversation_id not in counted:
                raise NotFound("no such conversation")  # the user has left meanwhile
            if counted is not None:
                return counted[conversation_id].mark
            mark = await self.rebuilds.conversation(user_id, conversation_id)
            if not mark.is_large:
                return mark
        raise Unavailable("the conversation crosses the line again and again")

    async def all(self, user_id: str, listed: Sequence[Listed]) -> dict[str, Counted] | None:
        """Count large conversations. None: some mark is too old, and was made anew; read the marks again.

        The same list with the same names of the tallies gets the same dict, which nobody changes.
        """
        whole = self._wholes.get(user_id)
        if whole is not None and whole.listed is listed and await self._is_as_before(whole):
            return whole.counted
        counted = await self._counted(user_id, listed)
        if counted is not None and len(listed) > 1:
            self._keep(user_id, listed, counted)
        return counted

    def _keep(self, user_id: str, listed: Sequence[Listed], counted: dict[str, Counted]) -> None:
        """Keep counts that were all made of marks and tallies alone, for a user who has blocked nobody."""
        made = [self._made.get((user_id, id_)) for id_ in counted]
        if len(counted) < len(listed) or not all(
            one is not None and one.mark.is_blockless and one.counted is counted[id_]
            for id_, one in zip(counted, made, strict=True)
        ):
            return
        calls = self.tally_scripts.revs(counted, is_one_server=self.is_one_server)
        revs: list[bytes | None] = [one.rev for one in made if one is not None]
        self._wholes.put(user_id, _Whole(listed, self._epochs(counted), calls, revs, counted))

    async def _is_as_before(self, whole: _Whole) -> bool:
        answered = await self.keyspace.run(whole.calls)
        revs = answered[0] if len(answered) == 1 else [rev for some in answered for rev in some]
        return revs == whole.revs and self._epochs(whole.counted) == whole.epochs

    def _epochs(self, conversation_ids: Iterable[str]) -> frozenset[str]:
        ids = list(conversation_ids)
        return frozenset(self.keyspace.epoch(id_) for id_ in (ids[:1] if self.is_one_server else ids))

    async def _counted(self, user_id: str, listed: Sequence[Listed]) -> dict[str, Counted] | None:
        marks = {user_id: _marks_of(listed)}
        blocked = await self._blocked(marks)
        answers = (await self._answers(marks, blocked))[user_id]
        old = [one for one in listed if one.mark is not None and _is_old(one, answers.get(one.conversation_id))]
        for one in old:  # all of them now: the caller reads the marks again only so often
            answer = answers.get(one.conversation_id)
            await self._remake(user_id, one.conversation_id, answer.last_ms if answer is not None else 0)
        if old:
            return None
        counted: dict[str, Counted] = {}
        for one in listed:
            id_, mark, answer = one.conversation_id, one.mark, answers.get(one.conversation_id)
            if mark is None or answer is None:
                continue
            made = self._make(user_id, one, answers, blocked[user_id])
            try:
                counted[id_] = made or Counted((await self.count.one(user_id, id_)).mark, answer.last_ms)
            except NotFound:
                continue  # the user has left meanwhile
        return counted

    def _make(
        self, user_id: str, one: Listed, answers: Mapping[str, Answer | Counted], blocked: Sequence[str]
    ) -> Counted | None:
        """Make the counts of what the tally answered, and remember them. None: that is not enough."""
        answer, mark = answers.get(one.conversation_id), one.mark
        if answer is None or mark is None or _is_back(mark, answer.last_ms, one.score_ms):
            return None
        if isinstance(answer, Counted):
            return answer
        if answer.counts is None or answer.counts.first_mention is None:
            return None
        made = Counted(_marked(mark, answer.counts, answer.counts.first_mention), answer.last_ms)
        if answer.rev:
            self._made.put((user_id, one.conversation_id), _Made(answer.rev, mark, blocked, made))
        return made

    async def _blocked(self, marks: Mapping[str, Marks]) -> dict[str, Sequence[str]]:
        """The people whom each user has blocked. The tables are asked for users whose marks do not say: nobody."""
        asked = [id_ for id_, some in marks.items() if not all(mark.is_blockless for mark in some.values())]
        found = await asyncio.gather(*(self.count.blocked(user_id) for user_id in asked))
        return dict.fromkeys(marks, ()) | dict(zip(asked, found, strict=True))

    async def _answers(
        self, marks: Mapping[str, Marks], blocked: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[str, Answer | Counted]]:
        """Ask the tallies that have changed, for each user. Those that are cold are built first. A mark with an old
        line gets no answer."""
        answers = await self._unchanged(marks, blocked)
        old: set[tuple[str, int]] = set()
        for _ in range(TALLY_TRIES_MAX):
            wanted = [
                (user_id, id_, mark)
                for user_id, some in marks.items()
                for id_, mark in some.items()
                if id_ not in answers[user_id] and (id_, mark.first_mention) not in old
            ]
            if not wanted:
                return answers
            ask = self.tally_scripts.tally_count
            calls = [
                ask(id_, mark.first_mention, user_id, seen=mark.seen, ranges=mark.ranges, blocked=blocked[user_id])
                for user_id, id_, mark in wanted
            ]
            cold: set[tuple[str, int]] = set()
            for (user_id, id_, mark), reply in zip(wanted, await self._run(calls), strict=True):
                if reply.is_cold:
                    cold.add((id_, mark.first_mention))
                else:
                    answers[user_id][id_] = reply
            lines = sorted(cold)
            built = await asyncio.gather(*(self._build(*line) for line in lines))
            old |= {line for line, is_built in zip(lines, built, strict=True) if not is_built}
        raise Unavailable("the index of a large conversation is lost again and again")

    async def _run(self, calls: Sequence[Call[Answer]]) -> list[Answer]:
        replies: list[Answer] = []
        for start in range(0, len(calls), TALLIES_TOGETHER):
            replies += await self.keyspace.run(calls[start : start + TALLIES_TOGETHER])
        return replies

    async def _unchanged(
        self, marks: Mapping[str, Marks], blocked: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[str, Answer | Counted]]:
        """The counts that were made before, where neither the mark nor the tally has changed since."""
        known: list[tuple[str, str, _Made]] = []
        for user_id, some in marks.items():
            for id_, mark in some.items():
                one = self._made.get((user_id, id_))
                if one is not None and one.mark == mark and one.blocked == blocked[user_id]:
                    known.append((user_id, id_, one))
        revs = await self._revs(dict.fromkeys(id_ for _, id_, _ in known))
        unchanged: dict[str, dict[str, Answer | Counted]] = {user_id: {} for user_id in marks}
        for user_id, id_, one in known:
            if revs.get(id_) == one.rev:
                unchanged[user_id][id_] = one.counted
        return unchanged

    async def _revs(self, conversation_ids: Iterable[str]) -> dict[str, bytes]:
        """The `rev` of each tally that is of this life of its server."""
        ids = list(conversation_ids)
        calls = self.tally_scripts.revs(ids, is_one_server=self.is_one_server)
        answered = await self.keyspace.run(calls) if calls else []
        now = tuple(self.tally_scripts.rev_of(epoch) for epoch in self._epochs(ids))
        revs = zip(ids, (rev for some in answered for rev in some), strict=True)
        return {id_: rev for id_, rev in revs if rev is not None and rev.startswith(now)}

    async def _build(self, conversation_id: str, line_ms: int) -> bool:
        try:
            return await self.tallies.build(conversation_id, line_ms)
        except NotFound:
            return False

    async def _remake(self, user_id: str, conversation_id: str, last_ms: int) -> None:
        """Make a mark anew that is too old. From now on it is as young as the message that showed its age."""
        try:
            await self.rebuilds.conversation(user_id, conversation_id, version=ANY_VERSION)
        except NotFound:
            return  # it has left the inbox
        large = self.scripts.keys.filter(user_id, "large")
        await self.keyspace.one(plain(large, b"ZADD", large, b"XX", b"GT", last_ms, conversation_id))


def _marks_of(listed: Sequence[Listed]) -> Marks:
    return {one.conversation_id: one.mark for one in listed if one.mark is not None}


def _marked(mark: Mark, counts: Tallied, first_mention: int) -> Mark:
    return msgspec.structs.replace(
        mark,
        count=counts.count,
        first=counts.first or 0,  # 0 with a count: a reader finds it in the log
        floor=mark.seen + 1 if counts.is_capped else 0,
        mentions=counts.mentions,
        first_mention=first_mention,
    )


def sums_of(counted: Mapping[str, Counted], cap: int) -> Sums:
    """The totals of these. Those without anything unread add nothing."""
    sums = Sums()
    for one in counted.values():
        if one.mark.count:
            sums.add(one.mark, cap)
    return sums


def _is_old(one: Listed, answer: Answer | Counted | None) -> bool:
    """Whether a mark must be made anew: it is of another line, or its conversation is archived no more."""
    return answer is None or (one.mark is not None and _is_back(one.mark, answer.last_ms, one.score_ms))


def _is_back(mark: Mark, last_ms: int, score_ms: int) -> bool:
    """Whether a message has come to an archived conversation since its mark was made: it is archived no more."""
    return mark.is_archived and not mark.is_muted and last_ms > score_ms
