"""Deliveries: brings the entries of the log to the webhooks, in order, at least once.

News of a conversation (hooks.py) is work for any node. The node that stored it begins at once; what a dead node left is
found by a look at all news that is due. Each webhook of the conversation has its own cursor and its own pace: a slow or
absent endpoint holds up no other. An endpoint that does not answer is left alone for a while, all of it; entries that
it refuses as wrong pause that one conversation after some tries, and an operator replays.

The times of news and cursors are those of the node that wrote them, and its clock may have been wrong. A time further
ahead than any pause (`is_to_come`) is taken for one that has come: at worst, an endpoint gets a request again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict
from tidings.messaging.integration.cursors import NEVER_MS, Cursor, Cursors, Held
from tidings.messaging.integration.hooks import ALL, NEWS, Hook, Hooks, is_to_come, news_until
from tidings.messaging.integration.walk import Walk
from tidings.messaging.log import Log
from tidings.model import Entry, Head
from tidings.stores.outbound import Answer, Outbound, signature
from tidings.stores.tables.ports import Conversations
from tidings.stores.tables.records import DEPLOYMENT, Put, Record, Records, of_conversation
from tidings.tasks import Loop, SingleFlight, TaskSet

log = logging.getLogger("tidings.webhooks")
ANSWERS = "webhook_answers"  # a collection of records: the last answer of each endpoint
_WIDE_LOOK_S = 10.0  # how often a look reads all news, and finds times of a wrong clock
_NOT_OF_THE_ENTRIES = frozenset((401, 403, 404, 405, 407, 408, 410, 421, 425, 426, 429))  # the endpoint's own trouble
Count = Callable[[str], None]


class LastAnswer(msgspec.Struct, frozen=True):
    at: int
    status: int  # 0: no answer
    text: str


class _Body(msgspec.Struct, frozen=True):
    webhook_id: str
    conversation_id: str
    entries: list[msgspec.Raw]
    head: int


class _Down(msgspec.Struct, frozen=True):
    """An endpoint that failed: how often in a row, and until when it is left alone."""

    failures: int
    until_s: float  # monotonic: no change of the clock makes it longer


class _Page(msgspec.Struct, frozen=True):
    last_seq: int
    encoded: list[msgspec.Raw]  # of these, the entries that the webhook wants
    first_seq: int


_encode = msgspec.json.Encoder().encode


@dataclass(eq=False, repr=False, kw_only=True)
class Deliveries:
    hooks: Hooks
    cursors: Cursors
    walk: Walk
    records: Records
    conversations: Conversations
    log: Log
    outbound: Outbound
    encode: Callable[[Entry], bytes]
    clock: Clock
    node_id: str
    count: Count

    def __post_init__(self) -> None:
        self._noted: set[str] = set()  # conversations with news from this node
        self._busy: dict[str, bool] = {}  # conversations under way, and whether more news came meanwhile
        self._tasks = TaskSet(bounds.WEBHOOK_TASKS_MAX)
        self._flights = SingleFlight(self._bring)
        self._places: dict[str, asyncio.Semaphore] = {}  # of each endpoint
        self._down: dict[str, _Down] = {}
        self._answers: dict[str, LastAnswer] = {}  # not stored yet
        self._look_s = self._wide_look_s = 0.0
        self.loop = Loop("webhooks", bounds.WEBHOOK_LOOK_S, self._step, is_eager=True, at_end=self._leave)

    def noted(self, conversation_id: str) -> None:
        """News of this conversation was stored here. Never blocks."""
        self._noted.add(conversation_id)
        self.loop.nudge()

    async def _step(self) -> bool:
        noted, self._noted = self._noted, set()
        is_more = False
        if self.clock.monotonic_s() >= self._look_s and any(True for _ in self.hooks.known):
            noted |= await self._look()
            is_more = await self.walk.step()
            await self._store_answers()
            self._look_s = self.clock.monotonic_s() + (0 if is_more else bounds.WEBHOOK_LOOK_S)
        for conversation_id in noted:
            self._start(conversation_id)
        return is_more

    async def _look(self) -> set[str]:
        """News that is due, of any node. Fresh news is left to the node that stored it."""
        now_s, until_ms = self.clock.monotonic_s(), self._in_ms(-bounds.WEBHOOK_LOOK_S)
        is_wide = now_s >= self._wide_look_s
        if is_wide:
            self._wide_look_s = now_s + _WIDE_LOOK_S
        to_ms = NEVER_MS if is_wide else until_ms
        found = await self.records.due(NEWS, until_ms=to_ms, limit=bounds.WEBHOOK_LOOK_MAX)
        return {record.owner.partition(":")[2] for record in found if not is_to_come(record.due_ms, until_ms)}

    def _start(self, conversation_id: str) -> None:
        if conversation_id in self._busy:
            self._busy[conversation_id] = True
        elif self._tasks.run(self._attend(conversation_id), "webhooks, conversation"):
            self._busy[conversation_id] = False

    async def _leave(self) -> None:
        """Let requests under way end, if they end soon."""
        flights = asyncio.ensure_future(self._flights.settle())
        await asyncio.wait([flights], timeout=bounds.WEBHOOK_LEAVE_S)
        flights.cancel()
        await self._flights.close()
        await self._tasks.close()
        await self._store_answers()
        await self.outbound.close()

    # --- one conversation -------------------------------------------------------------------------

    async def _attend(self, conversation_id: str) -> None:
        try:
            while True:
                self._busy[conversation_id] = False
                await self._attend_once(conversation_id)
                if not self._busy[conversation_id]:
                    return
        finally:
            self._busy.pop(conversation_id, None)

    async def _attend_once(self, conversation_id: str) -> None:
        """Bring the conversation to all its webhooks. Its news goes when each of them has everything."""
        news = await self._news(conversation_id)
        if news is None:
            return
        await self.hooks.fresh()
        hooks = self.hooks.matching(conversation_id)
        waits = await asyncio.gather(*(self._join(hook.webhook_id, conversation_id) for hook in hooks))
        later = [wait_ms for wait_ms in waits if wait_ms is not None]
        try:
            await self.records.put([news_until(news, min(later, default=None))])
        except Conflict:
            return  # newer news: it is due already

    async def _news(self, conversation_id: str) -> Record | None:
        return (await self.records.get(of_conversation(conversation_id), NEWS, [ALL])).get(ALL)

    async def _join(self, webhook_id: str, conversation_id: str) -> int | None:
        """When to look again; None: the webhook has everything. A slow one goes on by itself."""
        try:
            async with asyncio.timeout(bounds.WEBHOOK_JOIN_S):
                return await self._flights(webhook_id, conversation_id)
        except TimeoutError:
            return self._in_ms(bounds.WEBHOOK_JOIN_S)

    async def _bring(self, webhook_id: str, conversation_id: str) -> int | None:
        """Deliver until nothing is left, or until it has to wait. Returns until when; None: nothing is left."""
        place = self._places.setdefault(webhook_id, asyncio.Semaphore(bounds.WEBHOOK_POSTS_MAX))
        async with place:
            while (hook := self.hooks.get(webhook_id)) is not None:
                down = self._down.get(webhook_id)
                if down is not None and (rest_s := down.until_s - self.clock.monotonic_s()) > 0:
                    return self._in_ms(rest_s)
                heads = await self.conversations.heads([conversation_id])
                if conversation_id not in heads:
                    return None
                try:
                    wait_ms = await self._deliver(hook, heads[conversation_id])
                except Conflict:
                    return self._in_ms(bounds.WEBHOOK_LOOK_S)  # another node delivers, or it was set back
                if wait_ms != 0:
                    return wait_ms
        return None

    async def _deliver(self, hook: Hook, head: Head) -> int | None:
        """Deliver the next entries. Returns when to go on: 0 = at once, None = when there is news."""
        held = await self.cursors.read(hook, head)
        cursor, now_ms = held.cursor, self.clock.now_ms()
        if cursor.paused:
            return None
        if is_to_come(cursor.not_before_ms, now_ms):
            return cursor.not_before_ms
        if is_to_come(cursor.held_until_ms, now_ms) and cursor.holder != self.node_id:
            return self._in_ms(bounds.WEBHOOK_LOOK_S)
        page = await self._page(hook, head.conversation_id, cursor)
        if page is None:
            is_gap = await self.log.top(head.conversation_id) > cursor.acked_seq
            return self._in_ms(bounds.WEBHOOK_LOOK_S) if is_gap else None
        if not page.encoded:  # nothing of it is wanted
            await self.cursors.put(hook, head.conversation_id, held, _moved(cursor, page.last_seq))
            return 0
        claimed = msgspec.structs.replace(
            cursor,
            sending_to=page.last_seq,
            holder=self.node_id,
            held_until_ms=self._in_ms(bounds.WEBHOOK_LEASE_S),
        )
        held = await self.cursors.put(hook, head.conversation_id, held, claimed)
        return await self._settle(hook, head.conversation_id, held, await self._post(hook, head, claimed, page), page)

    async def _settle(self, hook: Hook, conversation_id: str, held: Held, answer: Answer, page: _Page) -> int | None:
        """Write down how a request ended."""
        self._answers[hook.webhook_id] = LastAnswer(self.clock.now_ms(), answer.status, answer.text)
        cursor = held.cursor
        if answer.is_taken:
            self.count("delivered")
            self._down.pop(hook.webhook_id, None)
            await self.cursors.put(hook, conversation_id, held, _moved(cursor, page.last_seq, len(page.encoded)))
            return 0
        freed = msgspec.structs.replace(cursor, holder="", held_until_ms=0)
        if not 400 <= answer.status < 500 or answer.status in _NOT_OF_THE_ENTRIES:
            self.count("failed")
            wait_ms: int | None = self._failed(hook, answer)
        else:
            self.count("refused")
            if (count := len(page.encoded)) > 1:  # one of them is wrong: the others must not wait for it
                freed, wait_ms = msgspec.structs.replace(freed, sending_to=0, most=count // 2), 0
            else:
                freed, wait_ms = self._refused(hook, conversation_id, freed, answer)
        await self.cursors.put(hook, conversation_id, held, freed)
        return wait_ms

    def _failed(self, hook: Hook, answer: Answer) -> int:
        """Leave the endpoint alone, with all its conversations."""
        down, now_s = self._down.get(hook.webhook_id), self.clock.monotonic_s()
        if down is None or down.until_s <= now_s:
            failures = 0 if down is None else down.failures
            down = _Down(failures + 1, now_s + self._backoff_s(failures))
            self._down[hook.webhook_id] = down
            fields = {"webhook": hook.webhook_id, "failures": down.failures, "cause": answer.text}
            log.log(logging.WARNING if failures == 0 else logging.DEBUG, "webhook not delivered", extra=fields)
        return self._in_ms(down.until_s - now_s)

    def _refused(self, hook: Hook, conversation_id: str, cursor: Cursor, answer: Answer) -> tuple[Cursor, int | None]:
        """The endpoint says that the entries are wrong: try some more times, then pause this conversation."""
        self._down.pop(hook.webhook_id, None)
        refusals = cursor.refusals + 1
        if refusals < bounds.WEBHOOK_REFUSALS_MAX:
            wait_ms = self._in_ms(self._backoff_s(refusals - 1))
            return msgspec.structs.replace(cursor, refusals=refusals, not_before_ms=wait_ms), wait_ms
        self.count("paused")
        fields = {"webhook": hook.webhook_id, "conversation_id": conversation_id, "after_seq": cursor.acked_seq}
        log.error("webhook paused for a conversation", extra={**fields, "cause": answer.text})
        return msgspec.structs.replace(cursor, refusals=refusals, paused=answer.text), None

    # --- one request ------------------------------------------------------------------------------

    async def _page(self, hook: Hook, conversation_id: str, cursor: Cursor) -> _Page | None:
        """The next entries, encoded: exactly those of a request that may have arrived, or as many as fit."""
        is_again = cursor.sending_to > cursor.acked_seq
        limit = cursor.sending_to - cursor.acked_seq if is_again else bounds.WEBHOOK_ENTRIES_MAX
        entries = await self.log.after(conversation_id, cursor.acked_seq, limit)
        encoded: list[msgspec.Raw] = []
        size_bytes = last_seq = 0
        for entry in entries:
            if hook.wants(entry.kind):
                raw = self.encode(entry)
                size_bytes += len(raw)
                is_full = size_bytes > bounds.WEBHOOK_BODY_BYTES_MAX or len(encoded) == cursor.most > 0
                if encoded and is_full and not is_again:
                    break
                encoded.append(msgspec.Raw(raw))
            last_seq = entry.seq_no
        return _Page(last_seq, encoded, entries[0].seq_no) if entries else None

    async def _post(self, hook: Hook, head: Head, cursor: Cursor, page: _Page) -> Answer:
        id_ = head.conversation_id
        body = _encode(_Body(hook.webhook_id, id_, page.encoded, max(head.head, page.last_seq)))
        replay = f"/r{cursor.replays}" if cursor.replays else ""
        headers = {
            "Tidings-Signature": signature(hook.secret, self.clock.now_ms(), body),
            "Idempotency-Key": f"{hook.webhook_id}/{id_}/{page.first_seq}-{page.last_seq}{replay}",
        }
        return await self.outbound.post(hook.url, headers, body, within_s=bounds.WEBHOOK_POST_S)

    def _backoff_s(self, failures: int) -> float:
        pause_s = min(bounds.WEBHOOK_BACKOFF_S * 2.0 ** min(failures, 30), bounds.WEBHOOK_BACKOFF_MAX_S)
        return pause_s * (0.75 + self.clock.random_fraction() / 2)

    def _in_ms(self, seconds: float) -> int:
        return self.clock.now_ms() + round(seconds * 1000)

    async def _store_answers(self) -> None:
        answers, self._answers = self._answers, {}
        if answers:
            await self.records.put([Put(DEPLOYMENT, ANSWERS, id_, _encode(one)) for id_, one in answers.items()])


def _moved(cursor: Cursor, acked_seq: int, count: int = 0) -> Cursor:
    """The cursor after these entries. After a refusal the requests grow again, from half the size to the double."""
    most = 2 * count if cursor.most and 2 * count < bounds.WEBHOOK_ENTRIES_MAX else 0
    return Cursor(acked_seq=acked_seq, replays=cursor.replays, most=most)
