"""One WebSocket on picows, from its opening to its end, and whether the server is still alive behind it.

`Link` joins the pieces of a frame and keeps the close code; it does not know the meaning of a frame. `Liveness` does no
I/O. Received bytes prove that the server is alive, unless this program stood still meanwhile: stopped, asleep with its
machine, or too busy to read. Bytes that are read after such a pause may be old, from a server that has given this
client up since. They prove nothing until the server answers a ping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import cast

import picows
from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from tidings_client.bounds import HANDSHAKE_S, SERVER_FRAME_BYTES_MAX
from tidings_client.clock import Clock
from tidings_client.errors import Disconnected


class Verdict(Enum):
    FINE = auto()
    PING = auto()  # nothing was received for an interval
    PROVE = auto()  # received bytes prove nothing until the answer to a ping is `proven`
    CUT = auto()


class Liveness:
    """Judge the server twice in an interval. `alive_s` is the last time at which the server was certainly alive."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._interval_s = float("inf")
        self._awake_s, self._awake_ms = clock.monotonic_s(), clock.now_ms()
        self.alive_s = self._awake_s
        self._is_sure = True
        self._is_asked = False
        self._doubts_count = 0

    def begin(self, interval_s: float) -> None:
        """Start the time of the first tick."""
        self._interval_s = interval_s
        self._wake()

    def received(self) -> None:
        """Record that bytes were received."""
        if self._is_late():
            self.doubt()
        if self._is_sure:
            self.alive_s = self._clock.monotonic_s()

    def doubt(self) -> None:
        """Distrust what is received: nothing was read for a while. An answer on its way proves nothing either."""
        self._is_sure = self._is_asked = False
        self._doubts_count += 1

    def tick(self) -> Verdict:
        if self._is_late():
            self.doubt()
        self._wake()
        if not self._is_sure:
            return self._ask()
        quiet_s = self._clock.monotonic_s() - self.alive_s
        if quiet_s >= 2 * self._interval_s:
            return Verdict.CUT
        return Verdict.PING if quiet_s >= self._interval_s else Verdict.FINE

    @property
    def proof(self) -> int:
        """The number of the doubt that a ping sent now would end."""
        return self._doubts_count

    def proven(self, proof: int) -> None:
        """Trust the server again, if no newer doubt exists than the ping was sent for."""
        if proof == self._doubts_count:
            self._is_sure = True
            self.alive_s = self._clock.monotonic_s()

    def _ask(self) -> Verdict:
        """Ask for a proof once; it must arrive before the next tick."""
        if self._is_asked:
            return Verdict.CUT
        self._is_asked = True
        return Verdict.PROVE

    def _wake(self) -> None:
        self._awake_s, self._awake_ms = self._clock.monotonic_s(), self._clock.now_ms()

    def _is_late(self) -> bool:
        """Whether the tick is overdue by either clock: the monotonic clock stands still while a machine sleeps."""
        away_s = max(self._clock.monotonic_s() - self._awake_s, (self._clock.now_ms() - self._awake_ms) / 1000)
        return away_s > self._interval_s


class Link(WSListener):
    """`lost` is done when the socket is gone. Its result is the close code, or None when no code was received."""

    def __init__(self, on_text: Callable[[bytes], None], clock: Clock) -> None:
        self.lost: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.liveness = Liveness(clock)
        self.is_paused = False
        self._on_text = on_text
        self._code: int | None = None
        self._pieces = bytearray()
        self._transport: WSTransport | None = None

    @classmethod
    async def open(cls, url: str, on_text: Callable[[bytes], None], clock: Clock) -> Link:
        """Open the socket. Raises Disconnected when no server answers."""
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                _, made = await picows.ws_connect(
                    lambda: cls(on_text, clock), url, max_frame_size=SERVER_FRAME_BYTES_MAX, logger_name="tidings"
                )
        except (OSError, picows.WSError, TimeoutError) as error:
            raise Disconnected(f"cannot connect to {url}: {error or type(error).__name__}") from None
        if not isinstance(made, cls):  # the socket closed within the handshake, and picows made no listener
            raise Disconnected(f"cannot connect to {url}: closed within the handshake")
        return made

    # --- callbacks of picows ---

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self.liveness.received()
        if frame.msg_type == WSMsgType.CLOSE:
            self._code = int(cast(int, frame.get_close_code())) or None
            with suppress(Exception):  # the server may be gone already, and cannot receive an answer
                transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif frame.msg_type in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            self._take(frame)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if not self.lost.done():
            self.lost.set_result(self._code)

    def _take(self, frame: WSFrame) -> None:
        if frame.fin and not self._pieces:
            self._on_text(frame.get_payload_as_bytes())
            return
        self._pieces += frame.get_payload_as_bytes()
        if len(self._pieces) > SERVER_FRAME_BYTES_MAX:
            self.cut()
        elif frame.fin:
            whole, self._pieces = bytes(self._pieces), bytearray()
            self._on_text(whole)

    # --- what the session uses ---

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    def send(self, raw: bytes) -> None:
        if self._transport is not None and self.is_open:
            self._transport.send(WSMsgType.TEXT, raw)

    def pause(self, is_paused: bool) -> None:
        """Stop or resume reading. While the socket is not read, the server sees that this client is slow."""
        if self._transport is None or not self.is_open or is_paused == self.is_paused:
            return
        self.is_paused = is_paused
        if is_paused:
            self._transport.underlying_transport.pause_reading()
        else:
            self._transport.underlying_transport.resume_reading()
            self.liveness.doubt()

    def close(self) -> None:
        if self._transport is not None and self.is_open:
            self._transport.send_close(WSCloseCode.OK)
            self._transport.disconnect()

    def cut(self) -> None:
        """End the socket without a close frame: the server is not there any more."""
        if self._transport is not None and self.is_open:
            self._transport.underlying_transport.abort()
