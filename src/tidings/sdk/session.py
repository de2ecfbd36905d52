"""One device's connection for as long as the program wants it: connect, hello, liveness, and back again when it goes.

The table of close codes decides: 45xx ends it with `Stopped`, anything else comes back after a jittered pause, or after
what a draining node asked for. An expired or refused token is renewed first, once. Requests are answered by id; what
may be asked twice is, by `insist`, when the connection went before the answer. client.py is the caller and the Owner.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from tidings.bounds import CLIENT_HANDSHAKE_S, CLIENT_TRIES_MAX
from tidings.clock import Clock
from tidings.errors import Close, Problem
from tidings.gateway.protocol import Connect, Frame, Ping, Refresh
from tidings.sdk import wire
from tidings.sdk.backoff import Backoff
from tidings.sdk.events import Draining, Hello, ServerEvent
from tidings.sdk.link import Link
from tidings.sdk.liveness import Liveness, Verdict
from tidings.sdk.refusals import Disconnected, Stopped, may_come_back
from tidings.sdk.tokens import Tokens

log = logging.getLogger("tidings.sdk")

T = TypeVar("T")
Answer = Callable[[bytes | Disconnected], None]

_IN_TROUBLE = (Close.SERVER_ERROR, Close.SLOW, Close.TOO_MANY_REQUESTS)  # after these a hello is no reason to hurry


class Owner(Protocol):
    """Who is told what happens. All of it in the order it was heard, within the socket's own callback."""

    def connect_frame(self, token: str) -> Connect: ...
    def welcomed(self, hello: Hello) -> None: ...
    def heard(self, event: ServerEvent) -> None: ...
    def interrupted(self, code: int | None, retry_in_s: float, heard_s: float | None) -> None: ...
    def ended(self, error: BaseException) -> None: ...
    def is_full(self) -> bool: ...


class Nothing(msgspec.Struct):
    """An `ok` without fields."""


class Session:
    def __init__(self, url: str, tokens: Tokens, clock: Clock, owner: Owner) -> None:
        self._url = wire.socket_url(url)
        self._tokens = tokens
        self._clock = clock
        self._owner = owner
        self._backoff = Backoff(clock)
        self._ids = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._tending: asyncio.Task[None] | None = None
        self._up = asyncio.Event()  # also set at the end, so that nobody waits for ever
        self._end: BaseException | None = None
        self._asked_ms: int | None = None  # by a draining node, or by the refusal of a connect
        self._is_token_new = True
        self._is_leaving = False
        self._was_welcome = False  # on the connection that ended last
        self.trouble: Exception | None = None  # why the last attempt failed

    # --- what client.py calls ---

    def start(self) -> None:
        """Begins, unless it has begun or is over."""
        if self._task is None and self._end is None:
            self._task = asyncio.create_task(self._run(), name="tidings-session")

    async def stop(self) -> None:
        """Leaves for good."""
        self._is_leaving = True
        if self._link is not None:
            self._link.close()
            await asyncio.wait((self._link.lost,), timeout=1)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._finish(Disconnected("the client was closed"))

    @property
    def is_up(self) -> bool:
        return self._end is None and self._up.is_set()

    def check_begun(self) -> None:
        """Nobody waits for a connection that nobody asked for."""
        if self._task is None and self._end is None:
            raise Disconnected("not connected yet: `async with client` or `await client.connect()` comes first")

    async def up(self) -> None:
        """Returns once connected. Raises Stopped when that will not happen."""
        self.check_begun()
        await self._up.wait()
        if self._end is not None:
            raise self._end

    def ask(self, frame: Frame, answer: Answer) -> None:
        """Sends now; `answer` is called with the bytes, or with Disconnected. Raises it when not connected."""
        if not self.is_up or self._link is None:
            raise Disconnected("not connected")
        frame_id = next(self._ids)
        raw = wire.encode(msgspec.structs.replace(frame, id=frame_id))
        self._answers[frame_id] = answer
        self._link.send(raw)
        self.balance()

    def tell(self, frame: Frame) -> bool:
        """Sends without wanting an answer; False when not connected."""
        wire.check(frame)
        if not self.is_up or self._link is None:
            return False
        self._link.send(wire.encode(frame))
        return True

    async def request(self, frame: Frame, kind: type[T]) -> T:
        """One try, on the connection there is."""
        raw: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.ask(frame, lambda answer: _settle(raw, answer))
        return wire.answer_of(await raw, kind)

    async def insist(self, frame: Frame, kind: type[T]) -> T:
        """For what may be asked twice: waits for a connection, asks again after a lost one or a temporary refusal."""
        wire.check(frame)
        backoff = Backoff(self._clock)
        for tries in itertools.count(1):
            await self.up()
            try:
                return await self.request(frame, kind)
            except Disconnected:
                await asyncio.sleep(0)
            except Problem as problem:
                if not problem.is_temporary or tries >= CLIENT_TRIES_MAX:
                    raise
                await asyncio.sleep(backoff.next_s(problem.retry_after_ms))
        raise AssertionError("unreachable")

    def balance(self) -> None:
        """Reads on only where there is room for events, or where somebody waits for an answer."""
        if self._link is not None:
            self._link.pause(self._owner.is_full() and not self._answers)

    def balance_soon(self) -> None:
        """The same, from any thread and in the middle of anything: where a stream is dropped, its finalizer calls."""
        if (link := self._link) is not None:
            with suppress(RuntimeError):  # the loop is closed, and nobody reads any more
                link.lost.get_loop().call_soon_threadsafe(self.balance)

    # --- the loop ---

    async def _run(self) -> None:
        try:
            while True:
                code, heard_s = await self._live()
                if self._is_leaving:
                    return
                pause_s = self._pause_s(code)
                self._owner.interrupted(code, pause_s, heard_s)
                await asyncio.sleep(pause_s)
        except Stopped as error:
            self._finish(error)
        except Exception as error:  # ours; the program must not wait for a connection that nobody makes
            log.exception("the session ended")
            self._finish(error)

    async def _live(self) -> tuple[int | None, float | None]:
        """One connection from its opening to its end: the close code, and when it was heard last if it was welcome."""
        try:
            token = await self._token()
            link = self._link = await Link.open(self._url, self._hear, self._clock)
        except Disconnected as error:
            if str(error) != str(self.trouble):  # once, not at every attempt
                log.warning("%s: trying again", error)
            self.trouble = error
            return None, None
        try:
            await self._greet(link, token)
            return await link.lost, link.liveness.heard_s if self._was_welcome else None
        finally:
            link.cut()
            self._lose()

    async def _token(self) -> str:
        try:
            return await self._tokens.current()
        except Disconnected:
            raise
        except Exception as error:
            raise Disconnected(f"the token callback failed: {error!r}") from error

    async def _greet(self, link: Link, token: str) -> None:
        """Says connect. `_hear` takes the hello, for events may follow it in the same read."""
        frame_id = next(self._ids)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[frame_id] = lambda answer: _settle(answered, answer)
        link.send(wire.encode(msgspec.structs.replace(self._owner.connect_frame(token), id=frame_id)))
        try:
            done, _ = await asyncio.wait(
                (answered, link.lost), timeout=CLIENT_HANDSHAKE_S, return_when="FIRST_COMPLETED"
            )
        finally:
            self._answers.pop(frame_id, None)  # from here on nobody waits for it
        if not done:
            self.trouble = Disconnected(f"{self._url} does not answer")
            link.cut()
        elif answered.done() and not self._up.is_set():
            self._note_refusal(answered.result())

    def _note_refusal(self, raw: bytes) -> None:
        try:
            wire.answer_of(raw, Nothing)
        except Problem as problem:
            self.trouble = problem
            self._asked_ms = problem.retry_after_ms

    def _pause_s(self, code: int | None) -> float:
        """Until the next attempt. Raises Stopped when there is to be none."""
        asked_ms, self._asked_ms = self._asked_ms, None
        if self._was_welcome and code not in _IN_TROUBLE:
            self._backoff.reset()
        self._was_welcome = False
        if code in (Close.BAD_TOKEN, Close.TOKEN_EXPIRED):
            self._forget_token(code)
        elif not may_come_back(code):
            assert code is not None
            raise Stopped(code)
        if code == Close.DRAINING and asked_ms is not None:
            return asked_ms / 1000
        return self._backoff.next_s(asked_ms)

    def _forget_token(self, code: int) -> None:
        """A refused token is worth one other, which the next attempt asks for; a second refusal in a row is final."""
        if not self._tokens.is_renewable or (code == Close.BAD_TOKEN and self._is_token_new):
            raise Stopped(code)
        self._is_token_new = True
        self._tokens.forget()

    def _lose(self) -> None:
        self._link = None
        self._up.clear()
        if self._tending is not None:
            self._tending.cancel()
            self._tending = None
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer(Disconnected("the connection went before the answer came"))

    def _finish(self, error: BaseException) -> None:
        if self._end is None:
            self._end = error
            self._up.set()
            self._owner.ended(error)

    # --- what is heard ---

    def _hear(self, raw: bytes) -> None:
        found = wire.peek(raw)
        if found is None:
            return
        if found.type == "hello":
            self._welcome(msgspec.json.decode(raw, type=Hello))
        if found.id is not None:
            answer = self._answers.pop(found.id, None)
            if answer is not None:
                answer(raw)
        elif (event := wire.event_of(raw)) is not None:
            if isinstance(event, Draining):
                self._asked_ms = event.reconnect_in_ms
            self._owner.heard(event)
        self.balance()

    def _welcome(self, hello: Hello) -> None:
        assert self._link is not None
        self.trouble = None
        self._is_token_new = False
        self._was_welcome = True
        self._tokens.learn_time(hello.server_time)
        self._up.set()
        interval_s = hello.ping_interval_ms / 1000
        self._link.liveness.begin(interval_s)
        self._tending = asyncio.create_task(self._tend(self._link, interval_s), name="tidings-tend")
        self._owner.welcomed(hello)

    # --- beside it ---

    async def _tend(self, link: Link, interval_s: float) -> None:
        """Until the connection ends: is the server alive, and is our token? Neither waits for the other."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_over(link, interval_s), name="tidings-liveness")
            if self._tokens.is_renewable:
                group.create_task(self._keep_fresh(interval_s), name="tidings-refresh")

    async def _watch_over(self, link: Link, interval_s: float) -> None:
        steady_s = self._clock.monotonic_s() + interval_s
        while True:
            await asyncio.sleep(interval_s / 2)
            verdict = link.liveness.tick()
            if not link.is_paused:
                self._probe(link, verdict)
            if self._clock.monotonic_s() >= steady_s:
                self._backoff.reset()

    def _probe(self, link: Link, verdict: Verdict) -> None:
        if verdict is Verdict.CUT:
            quiet_s = self._clock.monotonic_s() - link.liveness.heard_s
            log.warning("nothing certain heard for %.0f s: reconnecting", quiet_s)
            link.cut()
        elif verdict is Verdict.PING:
            link.send(wire.encode(Ping(id=next(self._ids))))
        elif verdict is Verdict.PROVE:
            self.ask(Ping(), partial(_prove, link.liveness, link.liveness.proof))

    async def _keep_fresh(self, interval_s: float) -> None:
        due_s = self._clock.monotonic_s() + self._tokens.due_in_s()
        while True:
            left_s = due_s - self._clock.monotonic_s()
            if left_s > 0:
                await asyncio.sleep(min(left_s, interval_s))
                continue
            await self._refresh()
            due_s = self._clock.monotonic_s() + max(1.0, self._tokens.due_in_s())

    async def _refresh(self) -> None:
        try:
            await self.request(Refresh(token=await self._tokens.renew()), Nothing)
        except Disconnected:
            pass  # the next connect brings the new token
        except Exception as error:
            log.warning("the token could not be refreshed: %r", error)


def _prove(liveness: Liveness, proof: int, answer: bytes | Disconnected) -> None:
    if not isinstance(answer, Disconnected):
        liveness.proven(proof)


def _settle(future: asyncio.Future[bytes], answer: bytes | Disconnected) -> None:
    if future.done():
        return
    if isinstance(answer, Disconnected):
        future.set_exception(answer)
    else:
        future.set_result(answer)
