"""Sends: a draft is kept, sent when outbox.py says so, and done when the server stored it or refused it for good.

`submit` answers with a future; giving up waiting for it does not take the draft back, `abandon` does.
client.py calls it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from tidings.clock import Clock
from tidings.errors import IdConflict, Problem
from tidings.gateway.protocol import Abandon, Send
from tidings.sdk import wire
from tidings.sdk.drafts import Draft, Drafts
from tidings.sdk.outbox import Key, Outbox, key_of
from tidings.sdk.refusals import Disconnected
from tidings.sdk.session import Session
from tidings.sdk.values import Sent

OnSent = Callable[[Draft, Sent], None]


class Sender:
    def __init__(self, session: Session, drafts: Drafts, clock: Clock, on_sent: OnSent) -> None:
        self._session = session
        self._drafts = drafts
        self._on_sent = on_sent
        self._outbox = Outbox(clock)
        self._waiting: dict[Key, asyncio.Future[Sent]] = {}
        self._empty = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._end: BaseException | None = None
        for draft in drafts.load():
            self._outbox.add(draft)

    def __len__(self) -> int:
        return len(self._outbox)

    def submit(self, draft: Draft) -> asyncio.Future[Sent]:
        """Begun: from here on it is sent until there is an answer. The same draft again joins the first."""
        if self._end is not None:
            raise self._end
        self._session.check_begun()
        wire.check(frame_of(draft))
        key = key_of(draft)
        known = self._waiting.get(key)
        if known is not None or key in self._outbox:
            if (old := self._outbox.get(key)) is None or old.text != draft.text:
                raise IdConflict()
        else:
            self._drafts.put(draft)
            self._outbox.add(draft)
        if known is None or known.cancelled():
            known = self._waiting[key] = asyncio.get_running_loop().create_future()
        self.pump()
        return known

    def abandon(self, conversation_id: str, message_id: str) -> bool:
        """Given up: it is not sent again, and those behind it go on. It may have been stored already. After the
        end it cannot be taken back: a file keeps it for the next client."""
        draft = self._outbox.get((conversation_id, message_id))
        if draft is None:
            return False
        if self._end is not None:
            raise self._end
        self._session.tell(Abandon(conversation_id=conversation_id, message_id=message_id))
        future = self._finish(draft)
        if future is not None:
            future.cancel()
        self.pump()
        return True

    def pump(self) -> None:
        """Sends what may go now, and comes back when a conversation that waits may go on."""
        if not self._session.is_up:
            return
        for draft in self._outbox.ready():
            self._session.ask(frame_of(draft), partial(self._answered, draft))
        self._set_timer(self._outbox.wait_s())

    def interrupted(self) -> None:
        self._outbox.interrupt()

    async def flushed(self) -> None:
        """Returns when nothing waits for its answer."""
        while len(self._outbox) and self._end is None:
            self._empty.clear()
            await self._empty.wait()

    def end(self, error: BaseException) -> None:
        """Nothing is sent any more; what was kept in a file stays there."""
        self._end = error
        self._empty.set()
        self._set_timer(None)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waits is told; nobody has to
        self._waiting.clear()
        self._drafts.close()

    def _answered(self, draft: Draft, answer: bytes | Disconnected) -> None:
        if isinstance(answer, Disconnected) or self._outbox.get(key_of(draft)) is not draft:  # given up meanwhile
            return
        try:
            sent = wire.answer_of(answer, Sent)
        except Problem as problem:
            self._refused(draft, problem)
        else:
            future = self._finish(draft)
            self._on_sent(draft, sent)
            if future is not None and not future.done():
                future.set_result(sent)
        self.pump()

    def _refused(self, draft: Draft, problem: Problem) -> None:
        if problem.is_temporary:
            self._outbox.refuse(draft, problem)
            return
        future = self._finish(draft)
        if future is not None and not future.done():
            future.set_exception(problem)
            future.exception()  # whoever waits is told; nobody has to

    def _finish(self, draft: Draft) -> asyncio.Future[Sent] | None:
        self._outbox.done(draft)
        self._drafts.drop(draft)
        if not len(self._outbox):
            self._empty.set()
        return self._waiting.pop(key_of(draft), None)

    def _set_timer(self, wait_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wait_s is not None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self.pump)


def frame_of(draft: Draft) -> Send:
    return Send(conversation_id=draft.conversation_id, message_id=draft.message_id, text=draft.text, ts=draft.ts)
