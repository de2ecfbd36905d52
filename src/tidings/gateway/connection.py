"""Connection: one connected device, from its `connect` frame to its close.

The hub pushes events to it, and the frames of its client are answered on it. Sends go to their lane in the order they
arrive. Marks (read, unread, typing, watch) of one device run one after another, pages beside each other. At most
IN_FLIGHT_PER_SOCKET_MAX requests are under way; further frames wait unread in the socket. Before `hello` no frame is
answered and no event is written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from tidings.bounds import BAD_FRAMES_MAX, BAD_FRAMES_WINDOW_S, CONNECTIONS_PER_USER_MAX, IN_FLIGHT_PER_SOCKET_MAX
from tidings.clock import Clock
from tidings.errors import CLOSE_MEANING, BadRequest, Close, Problem, StoreUnavailable, TooLarge, Unauthorized
from tidings.gateway.dispatch import PAGES, Dispatch
from tidings.gateway.encode import EventEncoder, encode_error, encode_frame
from tidings.gateway.folded_acks import Batch, FoldedAcks, Marks, Reads, add_mark, take_reads
from tidings.gateway.live_gate import MOMENTARY, LiveGate
from tidings.gateway.socket import Socket, Window
from tidings.gateway.tokens import Identity
from tidings.protocol import client_frames as protocol
from tidings.protocol.server_frames import Pong
from tidings.pushes import Event, Resumed
from tidings.routing.hub import Hub

if TYPE_CHECKING:
    from tidings.gateway.connections import Connections

WAITING_FRAMES_MAX = 16  # frames read during a connect; more wait unread
_MARKS = (protocol.Read, protocol.Unread, protocol.Typing, protocol.Watch)


class Connection:
    __slots__ = (
        "_acks",
        "_bad_frames",
        "_clock",
        "_connecting",
        "_dispatch",
        "_encoder",
        "_gate",
        "_marks",
        "_owner",
        "_paid_acks",
        "_waiting",
        "connection_id",
        "device",
        "expires_ms",
        "failed_refreshes",
        "in_flight",
        "is_attached",
        "is_welcome",
        "issued_ms",
        "key_hash",
        "opened_s",
        "pinged_s",
        "slot",
        "socket",
        "user_id",
    )

    def __init__(self, owner: Connections, dispatch: Dispatch, encoder: EventEncoder, clock: Clock) -> None:
        self._owner = owner
        self._dispatch = dispatch
        self._encoder = encoder
        self._clock = clock
        self.socket: Socket | None = None
        self.user_id = ""  # nobody, until `become`
        self.connection_id = clock.random_id(12)
        self.device: str | None = None
        self.expires_ms = 0  # of its token
        self.issued_ms = 0.0
        self.key_hash: str | None = None  # of a bot: the key that it signed in with
        self.failed_refreshes = 0
        self.is_attached = False  # the hub knows it
        self.is_welcome = False  # hello was said
        self.opened_s = self.pinged_s = clock.monotonic_s()
        self.slot = 0  # of the wheel that says when it is looked at next
        self.in_flight = 0
        self._waiting: deque[protocol.ClientFrame] | None = None  # frames that were read while no more may be taken
        self._gate: LiveGate | None = LiveGate()  # None: every event is written at once
        self._marks: Marks | None = None  # None: no mark runs
        self._acks: FoldedAcks | None = None  # None: none are carried out
        self._paid_acks = 0  # acknowledgements that are paid for and still to come
        self._bad_frames: Window | None = None
        self._connecting: asyncio.Task[None] | None = None  # until the connection is live

    # --- the hub and the use cases call these ---

    def push(self, event: Event) -> None:
        """Write a live event, or leave it to the gate while a resume is under way."""
        gate = self._gate
        if gate is None or gate.lets_through(event):
            self._write(event)
        elif gate.is_overfull():
            self.close(Close.SLOW)

    def push_now(self, event: Event) -> None:
        """Write an event of the resume, ahead of the live events that the gate holds."""
        if type(event) is Resumed and self._gate is not None:
            self._gate.resumed(event.conversation_id, event.to_seq)
        self._write(event)

    def _write(self, event: Event) -> None:
        socket = self.socket
        if socket is not None:
            frame = self._encoder.encode(event)
            if type(event) in MOMENTARY:
                socket.send_if_quick(frame)
            else:
                socket.send(frame)

    def close(self, code: Close, reason: str = "") -> None:
        """Close the socket. From now on no event is written and no frame is taken."""
        if self.socket is not None:
            self.socket.close(code, reason or CLOSE_MEANING[code])

    async def drained(self) -> None:
        """Wait until the reader keeps up. A resume writes a lot, so it waits here between pages."""
        if self.socket is not None:
            await self.socket.drained()

    # --- the socket calls these ---

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
        """The close frame is on its way: the device is gone for everyone else."""
        self._leave()

    def lost(self) -> None:
        self._leave()
        self.socket = None
        self._owner.lost(self)

    def cut(self) -> None:
        """End the socket without a close frame, because the node ends."""
        if self.socket is not None:
            self.socket.cut()

    def _leave(self) -> None:
        self._waiting = None
        self._gate = None
        if self.is_welcome and self._connecting is not None:  # before hello the connect itself sees who left
            self._connecting.cancel()
            self._connecting = None
        if self.is_attached:
            self.is_attached = False
            self._owner.connector.disconnect(self)

    # --- frames ---

    def _take(self, frame: protocol.ClientFrame) -> None:
        if not self.is_welcome:
            self._take_first(frame)
        elif type(frame) is protocol.Send:
            self._begin()
            self._dispatch.send(self, frame, self.finish)
        elif type(frame) is protocol.Begin:
            self._begin()
            self._owner.run(self._finish_with(self._dispatch.begin(self, frame)), "begin")
        elif type(frame) is protocol.Append:
            self._send(self._dispatch.append(self, frame))
        elif type(frame) is protocol.Delivered:
            self._take_acks(frame)
        elif isinstance(frame, _MARKS):
            self._take_mark(frame)
        elif type(frame) is protocol.Ping:
            self._pong(frame)
        elif type(frame) is protocol.Abandon:
            self._begin()
            self._dispatch.abandon(self, frame)
            self._owner.run(self._answer(frame), "abandon")
        elif type(frame) is protocol.Connect:
            self._refuse(frame.id, BadRequest("this socket is connected already: send `connect` once"))
        else:
            self._begin()
            self._owner.run(self._answer(frame), "request")

    def _take_first(self, frame: protocol.ClientFrame) -> None:
        if type(frame) is not protocol.Connect:
            self._refuse(frame.id, Unauthorized("the first frame must be `connect`"))
            return
        self._waiting = deque()
        self._connecting = self._owner.run(self._owner.connector.connect(self, frame), "connect")

    def _refuse(self, frame_id: int | None, problem: Problem, code: Close = Close.BAD_FRAMES) -> None:
        """Answer a frame that is not of the documented form. Repeated nonsense ends the connection. The client may come
        back after texts that are too long and cursors out of range."""
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

    async def _finish_with(self, answer: Awaitable[bytes | None]) -> None:
        self.finish(await answer)

    async def _answer(self, frame: protocol.ClientFrame) -> None:
        if type(frame) is protocol.Refresh:
            self.finish(await self._owner.connector.refresh(self, frame))
        elif type(frame) is protocol.Abandon:
            self.finish(await self._dispatch.charge_abandon(self, frame))
        elif isinstance(frame, PAGES):
            async with self._dispatch.pages.of(self.user_id):
                answer = await self._dispatch.answer(self, frame) if self.is_open() else None
            self.finish(answer)
        else:
            self.finish(await self._dispatch.answer(self, frame))

    def _take_mark(self, frame: protocol.ClientFrame) -> None:
        self._begin()
        before, self._marks = self._marks, add_mark(self._marks, frame)
        if before is None:
            self._go_on_marking(self._marks)

    def _go_on_marking(self, marks: Marks) -> None:
        if not marks:
            self._marks = None
        elif isinstance(first := marks[0], list):
            self._owner.read_moments.join(self, first[0].conversation_id)
        else:
            self._owner.run(self._run_marks(marks), "marks")

    async def _run_marks(self, marks: Marks) -> None:
        while marks and not isinstance(first := marks[0], list):
            marks.popleft()
            self.finish(await self._dispatch.answer(self, first))
        self._go_on_marking(marks)

    def take_reads(self) -> list[Reads]:
        return take_reads(self._marks) if self._marks is not None else []

    def finish_reads(self, answers: Sequence[bytes | None]) -> None:
        self.finish(*answers)
        if self._marks is not None:
            self._go_on_marking(self._marks)

    def _take_acks(self, frame: protocol.Delivered) -> None:
        weight = 1 + len(frame.acks)
        is_paid = self._acks is None and weight <= self._paid_acks
        if is_paid:
            self._paid_acks -= weight
            if frame.id is None:
                self._dispatch.record_acks(self, frame.acks)
                return
        self._begin()
        if is_paid:
            self._dispatch.deliver_paid(self, Batch(frame.acks, [frame.id]))
            return
        if self._acks is not None:
            self._acks.add(frame)
            return
        self._acks = FoldedAcks()
        self._acks.add(frame)
        self._owner.ack_charges.join(self)

    def take_acks(self) -> Batch:
        assert self._acks is not None
        return self._acks.take()

    def acks_charged(self, paid: int) -> None:
        self._paid_acks = paid
        if self._acks:
            self._owner.ack_charges.join(self)
        else:
            self._acks = None

    # --- how much is under way ---

    def _begin(self) -> None:
        self.in_flight += 1
        if self.in_flight >= IN_FLIGHT_PER_SOCKET_MAX or self.user_id in self._dispatch.refusals.hot:
            self._hold_input()

    def finish(self, *answers: bytes | None) -> None:
        self.in_flight -= len(answers)
        for answer in answers:
            self._send(answer)
        if self.is_welcome and (self._waiting is not None or self.user_id in self._dispatch.refusals.hot):
            self._go_on()

    def _go_on(self) -> None:
        """Take waiting frames if there is room. A user who is refused too often waits for the next period, and then one
        frame is under way at a time."""
        refusals = self._dispatch.refusals
        if refusals.is_over(self.user_id) and self.is_open():
            self._hold_input()
            refusals.at_next_period(self.user_id, self._go_on)
            return
        most = 0 if self.user_id in refusals.hot else IN_FLIGHT_PER_SOCKET_MAX // 2
        if self._waiting is not None and self.in_flight <= most:
            self._release_input()

    def _hold_input(self) -> None:
        if self._waiting is None:
            self._waiting = deque()
        if self.socket is not None:
            self.socket.pause_reading()

    def _wait(self, frame: protocol.ClientFrame) -> None:
        """Keep a frame that comes during a connect. The socket is read on for a while, or its end would go unseen."""
        assert self._waiting is not None
        self._waiting.append(frame)
        if len(self._waiting) >= WAITING_FRAMES_MAX and self.socket is not None:
            self.socket.pause_reading()

    def _release_input(self) -> None:
        """Take the frames that wait, in their order, as far as there is room."""
        waiting = self._waiting or deque()
        self._waiting = None
        while waiting and not self.is_holding() and self.is_open():
            self._take(waiting.popleft())
        if self.is_holding():
            self._waiting = waiting
        elif self.socket is not None:
            self.socket.resume_reading()

    def is_holding(self) -> bool:
        """Whether frames wait: during a connect, or because enough requests are under way."""
        return self._waiting is not None

    def is_open(self) -> bool:
        return self.socket is not None and not self.socket.is_closing

    def _send(self, frame: bytes | None) -> None:
        if frame is not None and self.socket is not None:
            self.socket.send(frame)

    # --- the steps of a connect; connect.py takes them ---

    def become(self, identity: Identity, device: str | None, hub: Hub) -> None:
        """Belong to this user from here on. The hub knows the connection, and its live events wait in the gate.

        Raises TooLarge when the user has too many. The hub closes an older connection of the same device."""
        if not self.is_open():
            raise StoreUnavailable("the client left")
        self.user_id = identity.user_id
        self.device = device
        self.keep(identity)
        if not hub.attach(self):
            raise TooLarge(f"a user has {CONNECTIONS_PER_USER_MAX} connections to a node at most: close another one")
        self.is_attached = True

    def keep(self, identity: Identity) -> None:
        """Let the connection live as long as this token."""
        self.expires_ms, self.issued_ms = identity.expires_ms, identity.issued_ms or 0
        self.key_hash = identity.key_hash
        self._owner.kept(self)

    def greet(self, hello: bytes, *, is_resuming: bool) -> None:
        """Say hello, and take the frames that the client sent meanwhile. A resume goes live when it is done."""
        self.is_welcome = True
        self._send(hello)
        if not is_resuming:
            self.go_live()
        if self._waiting is not None:
            self._release_input()

    def go_live(self) -> None:
        self._connecting = None
        gate = self._gate
        if gate is not None:
            held = gate.go_live()
            if not gate.is_needed():
                self._gate = None
            for event in held:
                self._write(event)

    def turn_away(self, frame_id: int | None, problem: Problem, code: Close) -> None:
        if frame_id is not None:
            self._send(encode_error(frame_id, problem))
        self.close(code)
