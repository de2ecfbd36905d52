"""Lag: how far each webhook is behind, for the team, for operators and for the metrics.

A conversation without news is delivered, so only the news is looked at. A webhook that is behind in very many
conversations is counted in the first of them alone, and `is_complete` is false.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict, NotFound
from tidings.messaging.integration.cursors import NEVER_MS, Cursors
from tidings.messaging.integration.deliveries import ANSWERS, LastAnswer
from tidings.messaging.integration.hooks import NEWS, Hook, Hooks
from tidings.messaging.log import entry_at
from tidings.model import Head
from tidings.stores.tables.ports import Conversations, Messages
from tidings.stores.tables.records import DEPLOYMENT, Records
from tidings.tasks import Loop

_REPLAY_TRIES = 10  # against a node that delivers at the same time
_TOGETHER = 16  # conversations that are looked at side by side


class Paused(msgspec.Struct, frozen=True):
    """A conversation whose entries the endpoint refuses. A replay goes on."""

    conversation_id: str
    from_seq: int
    answer: str


class HookState(msgspec.Struct, frozen=True, kw_only=True):
    behind_by: int
    oldest_ms: int | None  # of the oldest entry that is not delivered
    last_answer: LastAnswer | None
    paused: list[Paused]
    is_complete: bool


@dataclass(eq=False, repr=False, kw_only=True)
class Lag:
    """`show(webhook_id, seconds)` puts a figure on the page of metrics; None takes it off."""

    hooks: Hooks
    cursors: Cursors
    records: Records
    conversations: Conversations
    messages: Messages
    clock: Clock
    show: Callable[[str, float | None], None]

    def __post_init__(self) -> None:
        self._shown: set[str] = set()
        self.loop = Loop("webhooks, lag", bounds.STREAM_LAG_S, self.measure)

    async def state(self, webhook_id: str) -> HookState:
        """Raises NotFound."""
        return await self._state(await self.hooks.one(webhook_id), bounds.WEBHOOK_STATE_MAX)

    async def measure(self) -> None:
        hooks = list(self.hooks.known)
        for hook in hooks:
            oldest_ms = (await self._state(hook, bounds.WEBHOOK_LAG_MAX)).oldest_ms
            self.show(hook.webhook_id, 0.0 if oldest_ms is None else (self.clock.now_ms() - oldest_ms) / 1000)
        known = {hook.webhook_id for hook in hooks}
        for webhook_id in self._shown - known:
            self.show(webhook_id, None)
        self._shown = known

    async def replay(self, webhook_id: str, conversation_id: str, from_seq: int) -> None:
        """Deliver a conversation again from this entry on, and end a pause. Raises NotFound and Conflict."""
        hook = await self.hooks.one(webhook_id)
        heads = await self.conversations.heads([conversation_id])
        if conversation_id not in heads or not hook.hears_of(conversation_id):
            raise NotFound("no such conversation of this webhook")
        for tries_left in reversed(range(_REPLAY_TRIES)):
            try:
                await self.cursors.set_back(hook, heads[conversation_id], from_seq)
                break
            except Conflict:  # a delivery moved the cursor at the same moment
                if not tries_left:
                    raise
        await self.hooks.announce([conversation_id])
        self.hooks.noted(conversation_id)

    async def _state(self, hook: Hook, most: int) -> HookState:
        news = await self.records.due(NEWS, until_ms=NEVER_MS, limit=most)
        ids = [id_ for id_ in (record.owner.partition(":")[2] for record in news) if hook.hears_of(id_)]
        heads = list((await self.conversations.heads(ids)).values())
        behind: list[tuple[int, int]] = []
        for start in range(0, len(heads), _TOGETHER):
            behind += await self._behind(hook, heads[start : start + _TOGETHER])
        paused = [
            Paused(conversation_id, cursor.acked_seq + 1, cursor.paused)
            for webhook_id, conversation_id, cursor in await self.cursors.paused(most)
            if webhook_id == hook.webhook_id
        ]
        return HookState(
            behind_by=sum(count for count, _ in behind),
            oldest_ms=min((sent_ms for count, sent_ms in behind if count and sent_ms), default=None),
            last_answer=await self._last_answer(hook.webhook_id),
            paused=paused,
            is_complete=len(news) < most,
        )

    async def _behind(self, hook: Hook, heads: Sequence[Head]) -> list[tuple[int, int]]:
        """(entries that are not delivered, time of the first of them) of each conversation."""
        return list(await asyncio.gather(*(self._of_one(hook, head) for head in heads)))

    async def _of_one(self, hook: Hook, head: Head) -> tuple[int, int]:
        cursor = (await self.cursors.read(hook, head)).cursor
        if cursor.paused or head.head <= cursor.acked_seq:
            return 0, 0
        first = await entry_at(self.messages, head.conversation_id, cursor.acked_seq + 1)
        return head.head - cursor.acked_seq, first.sent_ms if first is not None else 0

    async def _last_answer(self, webhook_id: str) -> LastAnswer | None:
        found = await self.records.get(DEPLOYMENT, ANSWERS, [webhook_id])
        return msgspec.json.decode(found[webhook_id].value, type=LastAnswer) if webhook_id in found else None
