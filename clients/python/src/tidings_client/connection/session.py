"""The connection of one device for as long as the program wants it: connect, hello, liveness, reconnect.

The close code decides: 45xx ends the session with `Stopped`. After any other code the session reconnects after a
jittered pause, or after the time that a draining node asked for. A token that expired or was refused is renewed first,
once. `id` matches an answer to its request. `request` repeats a request when the connection was lost before the answer.
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

from tidings_client.bounds import BACKOFF_S, BACKOFF_S_MAX, HANDSHAKE_S, TRIES_MAX
from tidings_client.clock import Clock
from tidings_client.connection.addresses import shown_url, socket_url
from tidings_client.connection.decoding import answer_of, event_of, peek
from tidings_client.connection.link import Link, Liveness, Verdict
from tidings_client.connection.tokens import Tokens
from tidings_client.errors import Close, Disconnected, Problem, Stopped, may_come_back
from tidings_client.forms import Connect, Frame, Ping, Refresh, check, encode
from tidings_client.values import Draining, Hello, Nothing, ServerEvent

log = logging.getLogger("tidings.client")  # fields are part of the text: a program's own logging shows them

T = TypeVar("T")
Answer = Callable[[bytes | Disconnected], None]

_IN_TROUBLE = (Close.SERVER_ERROR, Close.SLOW, Close.TOO_MANY_REQUESTS)  # after these a hello does not end the backoff


class Backoff:
    """The pause before another attempt: a random time below a bound that doubles with each failure.

    Randomness keeps many clients from reconnecting at the same moment. The bound spares a server in trouble.
    """

    def __init__(self, clock: Clock, first_s: float = BACKOFF_S, most_s: float = BACKOFF_S_MAX) -> None:
        self._clock = clock
        self._first_s = first_s
        self._most_s = most_s
        self._failed_count = 0

    def reset(self) -> None:
        self._failed_count = 0

    def next_s(self, asked_ms: int | None = None) -> float:
        """Return the pause before the next attempt; never shorter than the server asked for."""
        bound_s = min(self._most_s, self._first_s * 2.0 ** min(self._failed_count, 20))
        self._failed_count += 1
        jitter_s: float = self._clock.random_fraction() * bound_s
        return jitter_s if asked_ms is None else asked_ms / 1000 + min(jitter_s, self._first_s)


class Owner(Protocol):
    """The receiver of everything that happens, in the order of the socket and within its callback."""

    def connect_frame(self, token: str) -> Connect: ...
    def welcomed(self, hello: Hello) -> None: ...
    def received(self, event: ServerEvent) -> None: ...
    def interrupted(self, code: int | None, retry_in_s: float, alive_s: float | None) -> None: ...
    def ended(self, error: BaseException) -> None: ...
    def is_full(self) -> bool: ...


class Session:
    def __init__(self, url: str, tokens: Tokens, clock: Clock, owner: Owner) -> None:
        self._url = socket_url(url)
        self._shown_url = shown_url(self._url)
        self._tokens = tokens
        self._clock = clock
        self._owner = owner
        self._backoff = Backoff(clock)
        self._ids = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._tending: asyncio.Task[None] | None = None
        self._up = asyncio.Event()  # also set at the end, so that nothing waits for ever
        self._end: BaseException | None = None
        self._asked_ms: int | None = None  # the pause that a draining node or a refused connect asked for
        self._is_token_new = True
        self._is_leaving = False
        self._was_welcome = False  # on the connection that ended last
        self.trouble: Exception | None = None  # why the last attempt failed

    # --- life ---

    def start(self) -> None:
        """Begin, unless the session has begun or is over."""
        if self._task is None and self._end is None:
            self._task = asyncio.create_task(self._run(), name="tidings-session")

    async def stop(self) -> None:
        """Leave for good."""
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
        """Raise Disconnected before `start`: a request must not wait for a connection that nobody asked for."""
        if self._task is None and self._end is None:
            raise Disconnected("not connected yet: `async with client` or `await client.connect()` comes first")

    async def up(self) -> None:
        """Return once connected. Raises Stopped when that will not happen."""
        self.check_begun()
        await self._up.wait()
        if self._end is not None:
            raise self._end

    # --- requests ---

    def ask(self, frame: Frame, answer: Answer) -> None:
        """Send now. `answer` gets the bytes of the answer, or Disconnected. Raises Disconnected when not connected."""
        if not self.is_up or self._link is None:
            raise Disconnected("not connected")
        frame_id = next(self._ids)
        raw = encode(msgspec.structs.replace(frame, id=frame_id))
        self._answers[frame_id] = answer
        self._link.send(raw)
        self.balance()

    def send(self, frame: Frame) -> bool:
        """Send a frame that needs no answer; False when not connected."""
        check(frame)
        if not self.is_up or self._link is None:
            return False
        self._link.send(encode(frame))
        return True

    async def request_once(self, frame: Frame, kind: type[T]) -> T:
        """Make one attempt on the present connection."""
        raw: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.ask(frame, lambda answer: _settle(raw, answer))
        return answer_of(await raw, kind)

    async def request(self, frame: Frame, kind: type[T]) -> T:
        """Make a request that may be repeated: wait for a connection, ask again after a loss or a temporary refusal."""
        check(frame)
        backoff = self.backoff()
        for tries in itertools.count(1):
            await self.up()
            try:
                return await self.request_once(frame, kind)
            except Disconnected:
                await asyncio.sleep(0)
            except Problem as problem:
                if not problem.is_temporary or tries >= TRIES_MAX:
                    raise
                await asyncio.sleep(backoff.next_s(problem.retry_after_ms))
        raise AssertionError("unreachable")

    def backoff(self) -> Backoff:
        """Make the pauses of a caller that repeats `request_once` itself."""
        return Backoff(self._clock)

    def balance(self) -> None:
        """Read the socket only while there is room for events, or while a request waits for its answer."""
        if self._link is not None:
            self._link.pause(self._owner.is_full() and not self._answers)

    def balance_soon(self) -> None:
        """Do the same from any thread: the finalizer of a dropped stream may run anywhere."""
        if (link := self._link) is not None:
            with suppress(RuntimeError):  # the loop is closed, and nothing is read any more
                link.lost.get_loop().call_soon_threadsafe(self.balance)

    # --- the loop ---

    async def _run(self) -> None:
        try:
            while True:
                code, alive_s = await self._live()
                if self._is_leaving:
                    return
                pause_s = self._pause_s(code)
                self._owner.interrupted(code, pause_s, alive_s)
                await asyncio.sleep(pause_s)
        except Stopped as error:
            self._finish(error)
        except Exception as error:  # a mistake of this package; the program must not wait for ever
            log.exception("session failed url=%s", self._shown_url)
            self._finish(error)

    async def _live(self) -> tuple[int | None, float | None]:
        """Serve one connection. Returns its close code, and `alive_s` if the connection had a hello."""
        try:
            token = await self._token()
            link = self._link = await Link.open(self._url, self._receive, self._clock)
        except Disconnected as error:
            if str(error) != str(self.trouble):  # once, not at every attempt
                log.warning('connect failed, trying again url=%s cause="%s"', self._shown_url, error)
            self.trouble = error
            return None, None
        try:
            await self._greet(link, token)
            return await link.lost, link.liveness.alive_s if self._was_welcome else None
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
        """Send connect. `_receive` takes the hello, because events may follow it in the same read."""
        frame_id = next(self._ids)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[frame_id] = lambda answer: _settle(answered, answer)
        link.send(encode(msgspec.structs.replace(self._owner.connect_frame(token), id=frame_id)))
        try:
            done, _ = await asyncio.wait((answered, link.lost), timeout=HANDSHAKE_S, return_when="FIRST_COMPLETED")
        finally:
            self._answers.pop(frame_id, None)  # nothing waits for it any more
        if not done:
            self.trouble = Disconnected(f"{self._shown_url} does not answer")
            link.cut()
        elif not answered.done():
            self.trouble = Disconnected(
                f"{self._shown_url} ends each connection (code {link.lost.result()}) without a hello"
            )
        elif not self._up.is_set():
            self._record_refusal(answered.result())

    def _record_refusal(self, raw: bytes) -> None:
        try:
            answer_of(raw, Nothing)
        except Problem as problem:
            self.trouble = problem
            self._asked_ms = problem.retry_after_ms

    def _pause_s(self, code: int | None) -> float:
        """Return the pause before the next attempt. Raises Stopped when there must be none."""
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
        """Drop a refused token: the next attempt asks for another. A second refusal in a row is final."""
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
            answer(Disconnected("the connection was lost before the answer arrived"))

    def _finish(self, error: BaseException) -> None:
        if self._end is None:
            self._end = error
            self._up.set()
            self._owner.ended(error)

    # --- received frames ---

    def _receive(self, raw: bytes) -> None:
        found = peek(raw)
        if found is None:
            return
        if found.type == "hello" and not self._up.is_set():
            self._welcome(msgspec.json.decode(raw, type=Hello))
        if found.id is not None:
            answer = self._answers.pop(found.id, None)
            if answer is not None:
                answer(raw)
        elif (event := event_of(raw)) is not None:
            if isinstance(event, Draining):
                self._asked_ms = event.reconnect_in_ms
            self._owner.received(event)
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

    # --- liveness and token of a connection ---

    async def _tend(self, link: Link, interval_s: float) -> None:
        """Watch the server and the token until the connection ends. Neither watch waits for the other."""
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
            quiet_s = self._clock.monotonic_s() - link.liveness.alive_s
            log.warning("server silent, reconnecting url=%s quiet_s=%.0f", self._shown_url, quiet_s)
            link.cut()
        elif verdict is Verdict.PING:
            link.send(encode(Ping(id=next(self._ids))))
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
            await self.request_once(Refresh(token=await self._tokens.renew()), Nothing)
        except Disconnected:
            pass  # the next connect brings the new token
        except Exception as error:
            log.warning("token refresh failed url=%s cause=%r", self._shown_url, error)


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
