"""Sending: a draft is kept, sent when the outbox allows it, and done when the server stored it or refused it for good.

`Outbox` decides without I/O which draft may go now: in order per conversation, again until it is done. The rules of a
hold: a temporary refusal stops its conversation, and the server answers `held` to the sends behind it. Then the first
goes again, alone, and the next one only when the first is stored. After a lost connection all unanswered drafts go
again, in order. `Sender` does the I/O. A caller that stops waiting does not take its draft back; `abandon` does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import msgspec

from tidings_client.bounds import LANE_SENDS_MAX, SENDS_MAX
from tidings_client.clock import Clock
from tidings_client.connection.decoding import answer_of
from tidings_client.connection.session import Backoff, Session
from tidings_client.errors import Disconnected, IdConflict, Problem, StoreUnavailable
from tidings_client.forms import Abandon, Send, check
from tidings_client.sending.drafts import Draft, Drafts
from tidings_client.values import Sent

log = logging.getLogger("tidings.client")

Key = tuple[str, str]  # conversation_id, message_id
OnSent = Callable[[Draft, Sent], None]
Upload = Callable[[Draft, str], Awaitable[str]]  # a file of the draft, by its path -> its file_id


def key_of(draft: Draft) -> Key:
    return draft.conversation_id, draft.message_id


class Lane:
    """The drafts of one conversation, first to last."""

    def __init__(self, clock: Clock) -> None:
        self.drafts: dict[str, Draft] = {}  # message_id -> draft: a dict keeps its order
        self.in_flight: set[str] = set()
        self.refused: set[str] = set()  # while it has members, the lane sends one draft at a time
        self.not_before_s = 0.0
        self.backoff = Backoff(clock)

    def ready(self, now_s: float) -> Iterator[Draft]:
        """Yield the drafts that may go now, in order. None overtakes another: the first that may not go ends it."""
        most = 1 if self.refused else LANE_SENDS_MAX
        if now_s < self.not_before_s:
            return
        for draft in self.drafts.values():
            if draft.message_id in self.in_flight:
                if self.refused or draft.paths:
                    return  # the first of the hold is on its way, alone, or its files are
                continue
            if len(self.in_flight) >= most:
                return
            yield draft
            if draft.paths:
                return

    def forget(self, message_id: str) -> None:
        self.drafts.pop(message_id, None)
        self.in_flight.discard(message_id)
        self.refused.discard(message_id)


class Outbox:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes: dict[str, Lane] = {}
        self._in_flight_count = 0

    def __len__(self) -> int:
        return sum(len(lane.drafts) for lane in self._lanes.values())

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None

    def get(self, key: Key) -> Draft | None:
        lane = self._lanes.get(key[0])
        return lane.drafts.get(key[1]) if lane is not None else None

    def replace(self, draft: Draft) -> None:
        """Put another form of a draft in its place."""
        self._lanes[draft.conversation_id].drafts[draft.message_id] = draft

    def add(self, draft: Draft) -> None:
        lane = self._lanes.setdefault(draft.conversation_id, Lane(self._clock))
        lane.drafts[draft.message_id] = draft

    def ready(self) -> list[Draft]:
        """Take the drafts that may go now; from here on they are in flight."""
        now_s = self._clock.monotonic_s()
        found: list[Draft] = []
        for lane in self._lanes.values():
            for draft in lane.ready(now_s):
                if self._in_flight_count >= SENDS_MAX:
                    return found
                lane.in_flight.add(draft.message_id)
                self._in_flight_count += 1
                found.append(draft)
        return found

    def wait_s(self) -> float | None:
        """Return the time until a waiting conversation may go on; None when no conversation waits."""
        now_s = self._clock.monotonic_s()
        waits = [lane.not_before_s - now_s for lane in self._lanes.values() if lane.not_before_s > now_s]
        return min(waits, default=None)

    def done(self, draft: Draft) -> None:
        """Forget a draft that was stored, refused for good, or abandoned."""
        lane = self._lanes.get(draft.conversation_id)
        if lane is None:
            return
        self._in_flight_count -= draft.message_id in lane.in_flight
        lane.forget(draft.message_id)
        lane.backoff.reset()
        if not lane.drafts:
            del self._lanes[draft.conversation_id]

    def refuse(self, draft: Draft, problem: Problem) -> float:
        """Record a temporary refusal, and return the pause in seconds. A `held` draft waits for the first of its hold,
        which has its own time."""
        lane = self._lanes[draft.conversation_id]
        if draft.message_id in lane.in_flight:
            lane.in_flight.discard(draft.message_id)
            self._in_flight_count -= 1
        lane.refused.add(draft.message_id)
        is_first = next(iter(lane.drafts)) == draft.message_id
        if problem.code == "held" and not is_first:
            return 0.0
        pause_s = lane.backoff.next_s(problem.retry_after_ms)
        lane.not_before_s = max(lane.not_before_s, self._clock.monotonic_s() + pause_s)
        return pause_s

    def interrupt(self) -> None:
        """Forget every hold with the lost connection: all unanswered drafts go again."""
        self._in_flight_count = 0
        for lane in self._lanes.values():
            lane.in_flight.clear()
            lane.refused.clear()


class Sender:
    def __init__(self, session: Session, drafts: Drafts, clock: Clock, on_sent: OnSent, upload: Upload) -> None:
        self._session = session
        self._upload = upload
        self._uploads: dict[Key, asyncio.Task[None]] = {}
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
        """Begin a send; it is repeated until there is an answer. The same draft again joins the first."""
        if self._end is not None:
            raise self._end
        self._session.check_begun()
        check(frame_of(msgspec.structs.replace(draft, files=draft.files or ("f",) * len(draft.paths))))
        key = key_of(draft)
        known = self._waiting.get(key)
        if known is not None or key in self._outbox:
            if (old := self._outbox.get(key)) is None or _said(old) != _said(draft):
                raise IdConflict("this message_id was used for another message")
        else:
            self._drafts.put(draft)
            self._outbox.add(draft)
        if known is None or known.cancelled():
            known = self._waiting[key] = asyncio.get_running_loop().create_future()
        self.pump()
        return known

    def abandon(self, conversation_id: str, message_id: str) -> bool:
        """Give a draft up: it is not sent again, and those behind it go on. The server may have stored it already.

        After the end of the client a draft cannot be taken back: a file keeps it for the next client.
        """
        draft = self._outbox.get((conversation_id, message_id))
        if draft is None:
            return False
        if self._end is not None:
            raise self._end
        self._session.send(Abandon(conversation_id=conversation_id, message_id=message_id))
        if (uploading := self._uploads.pop(key_of(draft), None)) is not None:
            uploading.cancel()
        future = self._finish(draft)
        if future is not None:
            future.cancel()
        self.pump()
        return True

    def pump(self) -> None:
        """Send the drafts that may go now, and set a timer for the next conversation that waits."""
        if not self._session.is_up:
            return
        for draft in self._outbox.ready():
            if not draft.paths:
                self._session.ask(frame_of(draft), partial(self._answered, draft))
            elif key_of(draft) not in self._uploads:
                uploading = asyncio.get_running_loop().create_task(self._upload_files(draft), name="upload")
                self._uploads[key_of(draft)] = uploading
        self._set_timer(self._outbox.wait_s())

    async def _upload_files(self, draft: Draft) -> None:
        """Upload the files of a draft, and remember their ids before the message is sent: it is stored once."""
        try:
            files = tuple([await self._upload(draft, path) for path in draft.paths])
        except (Problem, Disconnected) as error:
            del self._uploads[key_of(draft)]
            self._refused(draft, error if isinstance(error, Problem) else StoreUnavailable(str(error)))
            self.pump()
            return
        del self._uploads[key_of(draft)]
        complete = msgspec.structs.replace(draft, files=files, paths=())
        self._drafts.put(complete)
        self._outbox.replace(complete)
        if self._session.is_up:
            self._session.ask(frame_of(complete), partial(self._answered, complete))
        self.pump()

    def interrupted(self) -> None:
        self._outbox.interrupt()

    async def flushed(self) -> None:
        """Return when no draft waits for its answer."""
        while len(self._outbox) and self._end is None:
            self._empty.clear()
            await self._empty.wait()

    def end(self, error: BaseException) -> None:
        """Stop sending. A file keeps the drafts that are left."""
        self._end = error
        for uploading in self._uploads.values():
            uploading.cancel()
        self._empty.set()
        self._set_timer(None)
        for future in self._waiting.values():
            if not future.done():
                _fail(future, error)
        self._waiting.clear()
        self._drafts.close()

    def _answered(self, draft: Draft, answer: bytes | Disconnected) -> None:
        if isinstance(answer, Disconnected) or self._outbox.get(key_of(draft)) is not draft:  # abandoned meanwhile
            return
        try:
            sent = answer_of(answer, Sent)
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
            pause_s = self._outbox.refuse(draft, problem)
            if problem.code != "held":
                where, cause = draft.conversation_id, problem.code
                log.warning("send refused, trying again conversation=%s cause=%s retry_s=%.1f", where, cause, pause_s)
            return
        future = self._finish(draft)
        if future is not None and not future.done():
            _fail(future, problem)

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
    given = msgspec.structs.asdict(draft)
    del given["paths"]
    return Send(**(given | {"mentions": list(draft.mentions)}))


def _said(draft: Draft) -> tuple[object, ...]:
    """The part that a resend must repeat exactly."""
    return draft.text, draft.data, draft.reply_to, draft.thread_seq, draft.files or draft.paths


def _fail(future: asyncio.Future[Sent], error: BaseException) -> None:
    future.set_exception(error)
    future.exception()  # asyncio would log an error that no caller waits for
