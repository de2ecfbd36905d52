"""Reactions: a user's answer to a message in one sign. They never count, and they move nothing.

Reactions to one message within REACTIONS_GATHER_S share one entry, so a thousand in a second are a few numbers. The
entry names only what it changed, and is committed with the summary of the message (messaging/summaries.py). A user who
sets the same key twice changes nothing the second time, so every retry is safe.

The entries of a message on this node follow one another. Where two nodes meet, the version of the record decides, and
the one that lost is numbered again: whoever applies the log in its order ends with the summary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidings.clock import Clock
from tidings.errors import NotFound, Problem, StoreUnavailable, TooLarge
from tidings.messaging.access import Access
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.lanes import Sends
from tidings.messaging.summaries import NOTHING, Summaries, Summary, key_of, put_of
from tidings.model import Beside, Content, Entry, Reactions, digest_of
from tidings.stores.tables.records import Put, RecordKey

REACTIONS_GATHER_S = 0.25  # protocol: reactions to one message within this time share an entry
REACTION_KEYS_MAX = 20  # protocol: kinds of reactions to one message
REACTION_USERS_MAX = 1_000  # reactions in one entry: it goes to every member
REACTIONS_BYTES_MAX = 256 * 1024  # of one message's summary: a record of DynamoDB holds 400 KB
REACTIONS_WAITING_MAX = 20_000  # reactions of a node that wait for their entry; past it they are `unavailable`
_TRIES_MAX = 3  # an entry whose authors leave meanwhile is made again without them
Place = tuple[str, int]  # conversation_id, seq_no of the message
Wants = dict[tuple[str, str], bool]  # (user_id, key) -> on; the last wish of a user counts


class _NothingChanges(Problem):
    """Everything that was wished is so already. It never reaches a client."""

    code = "conflict"


class ReactionEntry:
    """The entry of several reactions: the companion of its draft, which it also gives the content."""

    def __init__(self, summaries: Summaries, place: Place, wants: Wants) -> None:
        self._summaries = summaries
        self._place = place
        self._wants = wants
        self._key = key_of(*place)
        self._before, self._version = NOTHING, 0
        self._after: dict[str, list[str]] = {}
        self.refused: dict[tuple[str, str], Problem] = {}
        self.changes: Reactions = ()
        self.draft: Draft | None = None

    @property
    def keys(self) -> frozenset[RecordKey]:
        return frozenset((self._key,))

    @property
    def last_seq(self) -> int:
        return self._before.reactions_seq

    @property
    def users(self) -> list[str]:
        """The users whose reactions change something."""
        return list(dict.fromkeys(user_id for _, on, off in self.changes for user_id in (*on, *off)))

    async def read(self) -> None:
        """Read the summary, and find out what the wishes change in it. Raises _NothingChanges."""
        self._before, self._version = await self._summaries.read(*self._place)
        self._apply()
        if self.draft is not None:
            self.draft.content = Content(reactions=self.changes)
            if not self.changes:
                raise _NothingChanges()

    def begin(self, message_id: str, *, is_paid: bool = False, is_of_server: bool = False) -> Draft:
        """Make the draft, in the name of those whose reactions change. Read before."""
        (conversation_id, seq_no), (sender_id, *others) = self._place, self.users
        self.draft = Draft(
            sender_id=sender_id,
            authors=tuple(others),
            conversation_id=conversation_id,
            message_id=message_id,
            kind="reaction",
            content=Content(reactions=self.changes),
            target_seq=seq_no,
            companion=self,
            plain_digest=digest_of(None, f"reaction {seq_no}\0"),
            is_paid=is_paid,
            is_of_server=is_of_server,
        )
        return self.draft

    def puts(self, entry: Entry) -> Sequence[Put]:
        return [put_of(self._key, self.after(entry.seq_no), self._version)]

    def after(self, seq_no: int | None = None) -> Summary:
        """The summary with the changes."""
        reactions_seq = self._before.reactions_seq if seq_no is None else seq_no
        return Summary(self._after, reactions_seq, self._before.is_pinned)

    def _apply(self) -> None:
        sets = {key: dict.fromkeys(users) for key, users in self._before.reactions.items()}
        size = sum(len(key) + len(user_id) + 4 for key, users in sets.items() for user_id in users)
        changed: dict[str, tuple[list[str], list[str]]] = {}
        self.refused = {}
        for (user_id, key), is_on in self._wants.items():
            users = sets.get(key, {})
            if (user_id in users) == is_on:
                continue
            if is_on and not users and sum(map(bool, sets.values())) >= REACTION_KEYS_MAX:
                self.refused[user_id, key] = TooLarge(f"a message has at most {REACTION_KEYS_MAX} kinds of reactions")
                continue
            if is_on and size > REACTIONS_BYTES_MAX:
                self.refused[user_id, key] = TooLarge("the message has too many reactions")
                continue
            added, removed = changed.setdefault(key, ([], []))
            if is_on:
                sets.setdefault(key, {})[user_id] = None
                size += len(key) + len(user_id) + 4
                added.append(user_id)
            else:
                del users[user_id]
                removed.append(user_id)
        self._after = {key: list(users) for key, users in sets.items() if users}
        self.changes = tuple((key, tuple(on), tuple(off)) for key, (on, off) in changed.items())


class _Gathering:
    """The wishes about one message that wait for the next entry, and its outcome."""

    __slots__ = ("outcome", "wants")

    def __init__(self) -> None:
        self.wants: Wants = {}
        self.outcome: asyncio.Future[tuple[Summary, dict[tuple[str, str], Problem]]] = (
            asyncio.get_running_loop().create_future()
        )


@dataclass(eq=False, repr=False)
class ReactionSends:
    access: Access
    blocks: Blocks
    summaries: Summaries
    sends: Sends
    clock: Clock
    count: Callable[[int], None]

    def __post_init__(self) -> None:
        self._gathering: dict[Place, _Gathering] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}  # one a message: its entries follow one another
        self._waiting = 0

    async def react(self, user_id: str, conversation_id: str, seq_no: int, key: str, *, is_on: bool) -> Beside:
        """Set or take away a reaction, and answer what is beside the message then. Raises Problem."""
        member_list = await self.access.authorize(user_id, conversation_id, "write")
        if seq_no <= member_list.visible_after(user_id):
            raise NotFound("no such message")
        if member_list.head.kind == "direct":
            await self.blocks.load([user_id])
            self.blocks.check_direct(member_list, user_id)
        gathering = self._join((conversation_id, seq_no), user_id, key, is_on)
        self._waiting += 1
        try:
            summary, refused = await asyncio.shield(gathering.outcome)
        finally:
            self._waiting -= 1
        if (user_id, key) in refused:
            raise refused[user_id, key]
        return summary.seen_by(user_id)

    async def drain(self) -> None:
        """Finish what was gathered."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _join(self, place: Place, user_id: str, key: str, is_on: bool) -> _Gathering:
        gathering = self._gathering.get(place)
        if self._waiting >= REACTIONS_WAITING_MAX or (gathering and len(gathering.wants) >= REACTION_USERS_MAX):
            raise StoreUnavailable("too much is waiting")
        if gathering is None:
            gathering = self._gathering[place] = _Gathering()
        gathering.wants.pop((user_id, key), None)  # its place in the order is that of the last wish
        gathering.wants[user_id, key] = is_on
        if place not in self._tasks:
            self._tasks[place] = asyncio.get_running_loop().create_task(self._run(place), name="reactions")
        return gathering

    async def _run(self, place: Place) -> None:
        """Store what gathers about one message, entry by entry, until nothing more comes."""
        try:
            while place in self._gathering:
                await asyncio.sleep(REACTIONS_GATHER_S)
                gathering = self._gathering.pop(place)
                try:
                    gathering.outcome.set_result(await self._store(place, gathering.wants))
                except Exception as error:
                    gathering.outcome.set_exception(error)
                    gathering.outcome.exception()  # nobody may wait any more
        finally:
            del self._tasks[place]

    async def _store(self, place: Place, wants: Wants) -> tuple[Summary, dict[tuple[str, str], Problem]]:
        conversation_id, seq_no = place
        gone: dict[tuple[str, str], Problem] = {}
        for is_last_try in (False,) * (_TRIES_MAX - 1) + (True,):
            wants = await self._of_members(conversation_id, wants, gone)
            await self.summaries.check_target(conversation_id, seq_no)
            made = ReactionEntry(self.summaries, place, wants)
            await made.read()
            if not made.changes:
                return made.after(), gone | made.refused
            try:
                entry = await self._complete(made)
            except _NothingChanges:
                return made.after(), gone | made.refused
            except NotFound:  # one of them left in this moment
                if is_last_try:
                    raise
                continue
            await self.summaries.committed(conversation_id)
            self.count(sum(len(on) + len(off) for _, on, off in made.changes))
            return made.after(entry.seq_no), gone | made.refused
        raise AssertionError

    async def _of_members(self, conversation_id: str, wants: Wants, gone: dict[tuple[str, str], Problem]) -> Wants:
        """The wishes of those who are members now. A user who left since the wish is told so."""
        member_list = await self.access.fresh(conversation_id)
        members = member_list.members if member_list is not None else {}
        gone.update({want: NotFound("no such conversation") for want in wants if want[0] not in members})
        return {want: is_on for want, is_on in wants.items() if want[0] in members}

    async def _complete(self, made: ReactionEntry) -> Entry:
        return (await self.sends.complete(made.begin(self.clock.random_id(), is_paid=True))).entry
