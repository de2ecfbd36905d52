"""Hooks: the webhooks of the deployment, and the news that a commit leaves for them.

The log is the queue. A commit into a conversation with a webhook also puts one record, the *news* of that conversation:
it is due at once, and goes when every webhook has everything. The record is in the commit of the entries, so a node
that dies at any moment loses nothing. Without webhooks a commit carries nothing more.

Every node keeps the list of webhooks in memory. A node whose list is older than WEBHOOKS_STALE_S puts news for every
commit. A node that finds a new or changed webhook also puts news of the conversations into which it stored entries
shortly before: a webhook begins when it is made, and no entry falls between two nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tidings import bounds
from tidings.bounds import STORE_DEADLINE_S
from tidings.clock import Clock
from tidings.errors import Conflict, NotFound, TooLarge
from tidings.model import EntryKind
from tidings.stores.tables.records import DEPLOYMENT, Put, Record, Records, of_conversation
from tidings.tasks import Listeners, Loop

HOOKS = "webhooks"  # collections of records
NEWS = "webhook_news"
ALL = "*"  # the name of the one record of news in a conversation
_NOTHING = b"{}"
_WAIT_MS_MAX = 90_000  # longer than every pause and lease of a webhook


class Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    webhook_id: str
    url: str
    secret: str
    created_ms: int
    from_ms: int | None  # it begins with the first entry after this time; None: with the first entry of all
    kinds: tuple[EntryKind, ...] = ()  # empty: every kind
    conversation_ids: tuple[str, ...] = ()  # empty: every conversation
    walked_to: str | None = None  # the last user whose conversations were found, for one from the start; None: done

    def hears_of(self, conversation_id: str) -> bool:
        return not self.conversation_ids or conversation_id in self.conversation_ids

    def wants(self, kind: EntryKind) -> bool:
        return not self.kinds or kind in self.kinds


class HookPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of a webhook. None: stays as it is."""

    url: str | None = None
    kinds: tuple[EntryKind, ...] | None = None
    conversation_ids: tuple[str, ...] | None = None


_decode = msgspec.json.Decoder(Hook).decode
_encode = msgspec.json.Encoder().encode


class Hooks:
    def __init__(self, records: Records, clock: Clock, news_stored: Listeners[[str]]) -> None:
        self._records = records
        self._clock = clock
        self._news_stored = news_stored
        self._hooks: dict[str, Hook] = {}
        self._read_s: float | None = None  # the list is as of this time; None: this process does not follow it
        self._lately: dict[str, None] = {}  # conversations with a commit that carried no news, since `_lately_s`
        self._before: dict[str, None] = {}  # the same for the time before
        self._lately_s = clock.monotonic_s()
        self._owed: dict[str, None] = {}  # of these, conversations that a new webhook hears of, until `_owed_until_s`
        self._owed_until_s = 0.0
        self.loop = Loop("webhooks, list", bounds.WEBHOOKS_READ_S, self.read, at_end=self.read)

    async def start(self) -> None:
        """Read the list before the first commit, and follow it from then on."""
        await self.read()
        self.loop.start()

    async def read(self) -> None:
        began_s = self._clock.monotonic_s()
        known, self._hooks = self._hooks, {hook.webhook_id: hook for hook in await self.all()}
        is_followed, self._read_s = self._read_s is not None, began_s
        fresh = [hook for hook in self._hooks.values() if _heard(hook) != _heard(known.get(hook.webhook_id))]
        if fresh and is_followed:
            lately = (*self._before, *self._lately)
            self._owed |= {id_: None for id_ in lately if any(hook.hears_of(id_) for hook in fresh)}
            self._owed_until_s = began_s + STORE_DEADLINE_S + bounds.WEBHOOKS_READ_S
        if self._owed:
            await self._announce_owed()
        if began_s - self._lately_s > bounds.WEBHOOKS_STALE_S + bounds.WEBHOOKS_READ_S:
            self._before, self._lately, self._lately_s = self._lately, {}, began_s

    async def _announce_owed(self) -> None:
        """Put news where a commit may have carried none. A commit under way may take STORE_DEADLINE_S."""
        owed = list(self._owed)
        if self._clock.monotonic_s() > self._owed_until_s:
            self._owed = {}
        await self.announce(owed)
        for conversation_id in owed:
            self.noted(conversation_id)

    async def fresh(self) -> None:
        """Make sure that the list has every webhook that may be owed something."""
        if self._is_stale():
            await self.read()

    def get(self, webhook_id: str) -> Hook | None:
        return self._hooks.get(webhook_id)

    @property
    def known(self) -> Iterable[Hook]:
        return self._hooks.values()

    def matching(self, conversation_id: str) -> list[Hook]:
        return [hook for hook in self._hooks.values() if hook.hears_of(conversation_id)]

    # --- for the commit of a group ----------------------------------------------------------------

    def news(self, conversation_id: str) -> tuple[Put, ...]:
        """The record that the commit of a group carries; mostly none."""
        if self._read_s is None:
            return ()
        if not (self._is_stale() or self.matching(conversation_id)):
            self._lately[conversation_id] = None
            return ()
        return (news_of(conversation_id, self._clock.now_ms()),)

    def noted(self, conversation_id: str) -> None:
        """The news of this conversation is stored."""
        self._news_stored(conversation_id)

    def _is_stale(self) -> bool:
        return self._read_s is None or self._clock.monotonic_s() - self._read_s > bounds.WEBHOOKS_STALE_S

    # --- for the team -----------------------------------------------------------------------------

    async def all(self) -> list[Hook]:
        """Every webhook, as the tables have them, the oldest first."""
        found = await self._records.page(DEPLOYMENT, HOOKS, limit=bounds.WEBHOOKS_MAX)
        return sorted((_decode(record.value) for record in found), key=lambda hook: (hook.created_ms, hook.webhook_id))

    async def one(self, webhook_id: str) -> Hook:
        return _decode((await self._record(webhook_id)).value)

    async def create(
        self,
        url: str,
        *,
        kinds: Sequence[EntryKind] = (),
        conversation_ids: Sequence[str] = (),
        is_from_start: bool = False,
    ) -> Hook:
        """Make a webhook. It has everything from this method's return on."""
        if len(await self.all()) >= bounds.WEBHOOKS_MAX:
            raise TooLarge(f"there are {bounds.WEBHOOKS_MAX} webhooks already")
        now_ms = self._clock.now_ms()
        hook = Hook(
            webhook_id=f"wh_{self._clock.random_id(12)}",
            url=url,
            secret=f"whs_{self._clock.random_id(32)}",
            created_ms=now_ms,
            from_ms=None if is_from_start else now_ms - 1,  # an entry of this very millisecond may be later
            kinds=tuple(kinds),
            conversation_ids=tuple(conversation_ids),
            walked_to="" if is_from_start and not conversation_ids else None,
        )
        await self._put(hook, expected=0)
        if is_from_start and conversation_ids:
            await self.announce(conversation_ids)
        await self._follow()
        return hook

    async def change(self, webhook_id: str, patch: HookPatch) -> Hook:
        """Change a webhook. Other nodes follow within WEBHOOKS_READ_S, as a rule."""
        given = {name: value for name in patch.__struct_fields__ if (value := getattr(patch, name)) is not None}
        while True:
            record = await self._record(webhook_id)
            hook = msgspec.structs.replace(_decode(record.value), **given)
            try:
                await self._put(hook, expected=record.version, due_ms=record.due_ms)
                break
            except Conflict:
                continue
        await self._follow()
        return hook

    async def remove(self, webhook_id: str) -> None:
        """Nothing more is delivered. A small record in each conversation stays until the conversation goes."""
        await self._record(webhook_id)
        await self._records.put([Put(DEPLOYMENT, HOOKS, webhook_id, None)])
        self._hooks.pop(webhook_id, None)

    async def left_behind(self, conversation_id: str) -> None:
        """A dead node may have stored entries here without news: it may not have known the newest webhook."""
        if self.matching(conversation_id):
            await self.announce([conversation_id])

    async def announce(self, conversation_ids: Sequence[str]) -> None:
        """Put news of these conversations, as if each had a new entry."""
        now_ms = self._clock.now_ms()
        for start in range(0, len(conversation_ids), 100):
            await self._records.put([news_of(id_, now_ms) for id_ in conversation_ids[start : start + 100]])

    async def _record(self, webhook_id: str) -> Record:
        found = await self._records.get(DEPLOYMENT, HOOKS, [webhook_id])
        if webhook_id not in found:
            raise NotFound("no such webhook")
        return found[webhook_id]

    async def _put(self, hook: Hook, *, expected: int, due_ms: int | None = None) -> None:
        if hook.walked_to is not None and due_ms is None:
            due_ms = hook.created_ms
        await self._records.put([hook_put(hook, expected=expected, due_ms=due_ms)])

    async def _follow(self) -> None:
        if self._read_s is not None:
            await self.read()


def _heard(hook: Hook | None) -> object:
    """The part of a webhook that decides whether a conversation has news for it."""
    return None if hook is None else hook.conversation_ids


def news_of(conversation_id: str, now_ms: int) -> Put:
    return Put(of_conversation(conversation_id), NEWS, ALL, _NOTHING, due_ms=now_ms)


def is_to_come(at_ms: int | None, now_ms: int) -> bool:
    """Whether a stored time is still to come. One further ahead than any pause was set by a clock that was wrong."""
    return at_ms is not None and 0 < at_ms - now_ms <= _WAIT_MS_MAX


def news_until(record: Record, due_ms: int | None) -> Put:
    """The news after it was looked at: gone, or looked at again at this time. Refused where newer news came."""
    value = None if due_ms is None else _NOTHING
    return Put(*record.key, value, expected=record.version, due_ms=due_ms)


def hook_put(hook: Hook, *, expected: int, due_ms: int | None) -> Put:
    return Put(DEPLOYMENT, HOOKS, hook.webhook_id, _encode(hook), expected=expected, due_ms=due_ms)


def hook_in(record: Record) -> Hook:
    return _decode(record.value)
