"""One connected device: from its `connect` to its close. What hub.py pushes to, and what a frame is answered on.

Sends go to their lane in the order they arrive. Marks (read, unread, typing, watch) of one device run one after
another, pages beside each other; all together at most IN_FLIGHT_PER_SOCKET_MAX, the rest waits unread. Before `hello`
nothing is answered and nothing pushed is written. sockets.py calls `opened`, `receive` and `lost`; welcome.py carries
a connect out; connections.py sweeps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

from tidings.bounds import (
    ACKS_MAX,
    BAD_FRAMES_MAX,
    BAD_FRAMES_WINDOW_S,
    CONNECT_S,
    IDLE_S,
    IN_FLIGHT_PER_SOCKET_MAX,
    PING_INTERVAL_S,
    PRESENCE_BURST_MAX,
    RESUME_HELD_MAX,
)
from tidings.clock import Clock
from tidings.errors import CLOSE_MEANING, BadRequest, Close, Problem, Unauthorized
from tidings.gateway import protocol
from tidings.gateway.auth import Identity
from tidings.gateway.dispatch import Dispatch, problem_of
from tidings.gateway.frames import EventEncoder, Pong, encode_error, encode_frame, encode_ok, is_droppable
from tidings.gateway.sockets import Socket, Window
from tidings.model import Event, MessageNew

WAITING_FRAMES_MAX = 16  # frames read during a connect; more wait unread
_MARKS = (protocol.Read, protocol.Unread, protocol.Typing, protocol.Watch)


class Owner(Protocol):
    """What a connection asks of connections.py, which holds them all."""

    def opened(self, connection: Connection) -> None: ...
    def lost(self, connection: Connection) -> None: ...
    def leave(self, connection: Connection) -> None: ...
    async def welcome(self, connection: Connection, frame: protocol.Connect) -> None: ...
    async def refresh(self, connection: Connection, token: str) -> None: ...
    def run(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]: ...


class Connection:
    __slots__ = (
        "_acks",
        "_acks_answer_ids",
        "_bad_frames",
        "_catching_up",
        "_clock",
        "_dispatch",
        "_encoder",
        "_held",
        "_marks",
        "_owner",
        "_waiting",
        "connection_id",
        "device",
        "expires_ms",
        "in_flight",
        "is_attached",
        "is_welcome",
        "issued_ms",
        "opened_s",
        "pinged_s",
        "quiet_since_s",
        "resumed",
        "socket",
        "user_id",
    )

    def __init__(self, owner: Owner, dispatch: Dispatch, encoder: EventEncoder, clock: Clock) -> None:
        self._owner = owner
        self._dispatch = dispatch
        self._encoder = encoder
        self._clock = clock
        self.socket: Socket | None = None
        self.user_id = ""  # nobody, until welcome
        self.connection_id = clock.random_id(12)
        self.device: str | None = None
        self.expires_ms = 0  # of its token
        self.issued_ms = 0.0
        self.is_attached = False  # the hub knows it
        self.is_welcome = False  # hello was said
        self.opened_s = self.quiet_since_s = self.pinged_s = clock.monotonic_s()
        self.in_flight = 0
        self._waiting: deque[protocol.ClientFrame] | None = None  # frames read while no more may be taken
        self._held: list[Event] | None = None  # events since attach, until what was missed has been said
        self.resumed: dict[str, int] = {}  # conversation -> up to where a resume has brought it
        self._marks: deque[protocol.ClientFrame] | None = None  # None: nothing runs them
        self._acks: dict[str, int] | None = None  # None: nothing carries them out
        self._acks_answer_ids: list[int] = []
        self._bad_frames: Window | None = None
        self._catching_up: asyncio.Task[None] | None = None

    # --- Outbound: what the hub and the use cases see ---

    def push(self, event: Event) -> None:
        """A live event. It waits while a resume is under way, and is left out if that brought it already."""
        if self._held is not None:
            self._hold(event)
        elif not self.resumed or not self._was_resumed(event):
            self.push_now(event)

    def push_now(self, event: Event) -> None:
        socket = self.socket
        if socket is not None:
            frame = self._encoder.encode(event)
            if is_droppable(event):
                socket.send_if_quick(frame)
            else:
                socket.send(frame)

    def _hold(self, event: Event) -> None:
        """Who is online is held too, or a client that watches while it resumes would never be told."""
        assert self._held is not None
        if not is_droppable(event) or len(self._held) < PRESENCE_BURST_MAX:
            self._held.append(event)
            if len(self._held) > RESUME_HELD_MAX:
                self.close(Close.SLOW)

    def _was_resumed(self, event: Event) -> bool:
        """Entries come in their order, so the first one above the mark ends its use."""
        if type(event) is not MessageNew:
            return False
        conversation_id = event.entry.conversation_id
        if event.entry.seq_no <= self.resumed.get(conversation_id, 0):
            return True
        self.resumed.pop(conversation_id, None)
        return False

    def close(self, code: Close, reason: str = "") -> None:
        """No event is pushed to it and no frame of it is taken from now on."""
        if self.socket is not None:
            self.socket.close(code, reason or CLOSE_MEANING[code])

    async def drained(self) -> None:
        """Returns when the reader keeps up: for whoever pushes a lot, such as resume."""
        if self.socket is not None:
            await self.socket.drained()

    # --- Peer: what the socket brings ---

    def opened(self, socket: Socket) -> None:
        self.socket = socket
        self._owner.opened(self)

    def receive(self, text: str) -> None:
        try:
            frame = protocol.decode_frame(text)
        except Problem as problem:
            code = Close.BAD_FRAMES if isinstance(problem, BadRequest) else Close.TOO_MANY_REQUESTS
            self._refuse(protocol.id_of(text), problem, code)
            return
        if self._waiting is not None:
            self._wait(frame)
        else:
            self._take(frame)

    def closing(self) -> None:
        """The close frame is on its way: for everyone else the device is gone."""
        self._leave()

    def lost(self) -> None:
        self._leave()
        self.socket = None
        self._owner.lost(self)

    def cut(self) -> None:
        """Without a close frame: the node ends."""
        if self.socket is not None:
            self.socket.cut()

    def _leave(self) -> None:
        self._waiting = self._held = None
        if self._catching_up is not None:
            self._catching_up.cancel()
            self._catching_up = None
        if self.is_attached:
            self.is_attached = False
            self._owner.leave(self)

    # --- frames ---

    def _take(self, frame: protocol.ClientFrame) -> None:
        if not self.is_welcome:
            self._take_first(frame)
        elif type(frame) is protocol.Send:
            self._begin()
            self._dispatch.send(self, frame, self._finish)
        elif type(frame) is protocol.Delivered:
            self._take_acks(frame)
        elif isinstance(frame, _MARKS):
            self._take_mark(frame)
        elif type(frame) is protocol.Ping:
            self._pong(frame)
        elif type(frame) is protocol.Abandon:
            self._send(self._dispatch.abandon(self, frame))
        elif type(frame) is protocol.Connect:
            self._refuse(frame.id, BadRequest("connected already"))
        else:
            self._begin()
            self._owner.run(self._answer(frame), "request")

    def _take_first(self, frame: protocol.ClientFrame) -> None:
        if type(frame) is not protocol.Connect:
            self._refuse(frame.id, Unauthorized("the first frame is connect"))
            return
        self._waiting = deque()
        self._owner.run(self._owner.welcome(self, frame), "connect")

    def _refuse(self, frame_id: int | None, problem: Problem, code: Close = Close.BAD_FRAMES) -> None:
        """A frame that is not of the documented form. Repeated nonsense ends the connection; for a text too long or a
        cursor out of range the client may come back."""
        if self._bad_frames is None:
            self._bad_frames = Window()
        if self._bad_frames.is_over(self._clock.monotonic_s(), BAD_FRAMES_MAX - 1, BAD_FRAMES_WINDOW_S):
            self.close(code)
        else:
            self._send(encode_error(frame_id, problem))

    def _pong(self, frame: protocol.Ping) -> None:
        if self.socket is not None and self.socket.count_ping():
            self.close(Close.TOO_MANY_REQUESTS)
        elif frame.id is not None:
            self._send(encode_frame(Pong(id=frame.id)))

    async def _answer(self, frame: protocol.ClientFrame) -> None:
        if type(frame) is protocol.Refresh:
            self._finish(await self._refresh(frame))
        else:
            self._finish(await self._dispatch.answer(self, frame))

    async def _refresh(self, frame: protocol.Refresh) -> bytes | None:
        try:
            await self._owner.refresh(self, frame.token)
        except Exception as error:
            return self._dispatch.refuse(frame.id, error)
        return encode_ok(frame.id) if frame.id is not None else None

    def _take_mark(self, frame: protocol.ClientFrame) -> None:
        self._begin()
        if self._marks is not None:
            self._marks.append(frame)
            return
        self._marks = deque((frame,))
        self._owner.run(self._run_marks(self._marks), "marks")

    async def _run_marks(self, marks: deque[protocol.ClientFrame]) -> None:
        while marks:
            self._finish(await self._dispatch.answer(self, marks.popleft()))
        self._marks = None

    def _take_acks(self, frame: protocol.Delivered) -> None:
        """Watermarks fold together while an earlier one is under way: a busy reader costs little."""
        if frame.id is not None:
            self._acks_answer_ids.append(frame.id)
        if self._acks is None:
            self._acks = dict(frame.acks)
            self._begin()
            self._owner.run(self._run_acks(), "acks")
            return
        for conversation_id, seq_no in frame.acks.items():
            if len(self._acks) < ACKS_MAX * 10 or conversation_id in self._acks:
                self._acks[conversation_id] = max(seq_no, self._acks.get(conversation_id, 0))

    async def _run_acks(self) -> None:
        while self._acks:
            acks, self._acks = self._acks, {}
            answer_ids, self._acks_answer_ids = self._acks_answer_ids, []
            try:
                await self._dispatch.deliver(self, acks)
                answers = [encode_ok(frame_id) for frame_id in answer_ids]
            except Exception as error:  # the next acknowledgement says all of it again
                problem = problem_of(error, self._clock)
                answers = [encode_error(frame_id, problem) for frame_id in answer_ids]
            for answer in answers:
                self._send(answer)
        self._acks = None
        self._finish(None)

    # --- how much is under way ---

    def _begin(self) -> None:
        self.in_flight += 1
        if self.in_flight >= IN_FLIGHT_PER_SOCKET_MAX or self._dispatch.refusals.is_hot(self.user_id):
            self._hold_input()

    def _finish(self, answer: bytes | None) -> None:
        self.in_flight -= 1
        self._send(answer)
        if self.is_welcome and (self._waiting is not None or self._dispatch.refusals.is_over(self.user_id)):
            self._go_on()

    def _go_on(self) -> None:
        """If there is room. Who is refused too often waits for the next turn, and is then heard one by one."""
        refusals = self._dispatch.refusals
        if refusals.is_over(self.user_id) and self._is_open():
            self._hold_input()
            refusals.at_next_turn(self.user_id, self._go_on)
            return
        most = 0 if refusals.is_hot(self.user_id) else IN_FLIGHT_PER_SOCKET_MAX // 2
        if self._waiting is not None and self.in_flight <= most:
            self._release_input()

    def _hold_input(self) -> None:
        if self._waiting is None:
            self._waiting = deque()
        if self.socket is not None:
            self.socket.pause_reading()

    def _wait(self, frame: protocol.ClientFrame) -> None:
        """During a connect the socket is read on, or its end would go unseen; but not for long."""
        assert self._waiting is not None
        self._waiting.append(frame)
        if len(self._waiting) >= WAITING_FRAMES_MAX and self.socket is not None:
            self.socket.pause_reading()

    def _release_input(self) -> None:
        """Takes what waits, in order, as far as there is room."""
        waiting = self._waiting or deque()
        self._waiting = None
        while waiting and not self._is_holding() and self._is_open():
            self._take(waiting.popleft())
        if self._is_holding():
            self._waiting = waiting
        elif self.socket is not None:
            self.socket.resume_reading()

    def _is_holding(self) -> bool:
        return self._waiting is not None

    def _is_open(self) -> bool:
        return self.socket is not None and not self.socket.is_closing

    def _send(self, frame: bytes | None) -> None:
        if frame is not None and self.socket is not None:
            self.socket.send(frame)

    # --- the steps of a connect; welcome.py takes them ---

    def become(self, identity: Identity, device: str | None) -> None:
        """From here on it is this user's; events are held until what was missed has been said."""
        self.user_id = identity.user_id
        self.device = device
        self.keep(identity)
        self._held = []

    def keep(self, identity: Identity) -> None:
        self.expires_ms, self.issued_ms = identity.expires_ms, identity.issued_ms or 0

    def greet(self, hello: bytes, catch_up: Coroutine[Any, Any, None] | None) -> None:
        """Says hello, then what was missed, then goes live. What the client said meanwhile is taken now."""
        self.is_welcome = True
        self._send(hello)
        if catch_up is None:
            self.go_live()
        else:
            self._catching_up = self._owner.run(catch_up, "resume")
        if self._waiting is not None:
            self._release_input()

    def go_live(self) -> None:
        held, self._held = self._held or (), None
        for event in held:
            self.push(event)

    def turn_away(self, frame_id: int | None, problem: Problem, code: Close) -> None:
        self._held = None
        if frame_id is not None:
            self._send(encode_error(frame_id, problem))
        self.close(code)

    # --- the sweep ---

    def sweep(self, now_s: float, now_ms: int) -> None:
        """Twice a second: is the peer alive, and is its token?"""
        socket = self.socket
        if socket is None or socket.is_closing:
            return
        if socket.is_heard:
            socket.is_heard = False
            self.quiet_since_s = self.pinged_s = now_s
        elif now_s - self.quiet_since_s >= IDLE_S:
            self.close(Close.NO_PONG)
        elif now_s - self.pinged_s >= PING_INTERVAL_S:
            self.pinged_s = now_s
            socket.send_ping()
        if self.is_welcome:
            if now_ms >= self.expires_ms:
                self.close(Close.TOKEN_EXPIRED)
        elif now_s - self.opened_s >= CONNECT_S and not self._is_holding():
            self.close(Close.NO_CONNECT)
