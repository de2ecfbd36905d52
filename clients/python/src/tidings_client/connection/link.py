"""One WebSocket on websockets, from its opening to its end, and whether the server is still alive behind it.

`Link` joins the pieces of a frame and keeps the close code; it does not know the meaning of a frame. `Liveness` does no
I/O. Received bytes prove that the server is alive, unless this program stood still meanwhile: stopped, asleep with its
machine, or too busy to read. Bytes that are read after such a pause may be old, from a server that has given this
client up since. They prove nothing until the server answers a ping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import cast
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from tidings_client.bounds import HANDSHAKE_S, SERVER_FRAME_BYTES_MAX
from tidings_client.clock import Clock
from tidings_client.connection.addresses import shown_url
from tidings_client.connection.dialing import dial, is_secure, proxy_of, tls_context
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


class Link(asyncio.Protocol):
    """`lost` is done when the socket is gone. Its result is the close code, or None when no code was received."""

    def __init__(self, url: str, on_text: Callable[[bytes], None], clock: Clock) -> None:
        self.lost: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.liveness = Liveness(clock)
        self.is_paused = False
        self._on_text = on_text
        self._url = url
        self._protocol = ClientProtocol(parse_uri(url), max_size=SERVER_FRAME_BYTES_MAX)
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pieces = bytearray()
        self._writer: asyncio.StreamWriter | None = None

    @classmethod
    async def open(cls, url: str, on_text: Callable[[bytes], None], clock: Clock) -> Link:
        """Open the socket. Raises Disconnected when no server answers."""
        made = cls(url, on_text, clock)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await made._shake_hands()
        except (OSError, EOFError, WebSocketException) as error:
            made._give_up()
            raise Disconnected(f"cannot connect to {shown_url(url)}: {error or type(error).__name__}") from None
        except BaseException:
            made._give_up()
            raise
        return made

    async def _shake_hands(self) -> None:
        parts = urlsplit(self._url)
        proxy = proxy_of(parts)
        is_tls_needed = is_secure(parts) or (proxy is not None and is_secure(proxy))
        reader, self._writer = await dial(parts, await tls_context() if is_tls_needed else None, proxy)
        self._writer.transport.set_protocol(self)
        if reader.at_eof() or self._writer.transport.is_closing():
            raise ConnectionResetError("closed before the handshake")
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        await self._opened

    def _give_up(self) -> None:
        self._opened.cancel()  # nobody asks for its error
        self.cut()

    # --- callbacks of the transport ---

    def data_received(self, data: bytes) -> None:
        if self.lost.done():
            return
        self.liveness.received()
        self._protocol.receive_data(data)
        self._flush()
        self._see_handshake()
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.CONT) and self.is_open:
                self._take(event)
        if self._protocol.parser_exc is not None or self._protocol.close_rcvd is not None:
            self._hang_up()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._see_handshake()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(error or ConnectionResetError("closed within the handshake"))
        if not self.lost.done():
            closing = self._protocol.close_rcvd
            self.lost.set_result(
                None if closing is None or closing.code == CloseCode.NO_STATUS_RCVD else int(closing.code)
            )

    def _see_handshake(self) -> None:
        if self._opened.done():
            return
        if self._protocol.handshake_exc is not None:
            self._opened.set_exception(self._protocol.handshake_exc)
        elif self._protocol.state is not State.CONNECTING:
            self._opened.set_result(None)

    def _take(self, frame: Frame) -> None:
        if frame.fin and not self._pieces:
            self._on_text(bytes(frame.data))
            return
        self._pieces += frame.data
        if frame.fin:
            whole, self._pieces = bytes(self._pieces), bytearray()
            self._on_text(whole)

    def _flush(self) -> None:
        """Write what the protocol wants to say: frames, and the answers to pings and to a close."""
        if self._writer is not None and not self._writer.transport.is_closing():
            for data in filter(None, self._protocol.data_to_send()):
                self._writer.write(data)

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.transport.close()

    # --- what the session uses ---

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    def send(self, raw: bytes) -> None:
        if self.is_open and self._protocol.state is State.OPEN:
            self._protocol.send_text(raw)
            self._flush()

    def pause(self, is_paused: bool) -> None:
        """Stop or resume reading. While the socket is not read, the server sees that this client is slow."""
        if self._writer is None or not self.is_open or is_paused == self.is_paused:
            return
        self.is_paused = is_paused
        transport = cast(asyncio.ReadTransport, self._writer.transport)
        if is_paused:
            transport.pause_reading()
        else:
            transport.resume_reading()
            self.liveness.doubt()

    def close(self) -> None:
        if self.is_open and self._protocol.state is State.OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
        self._hang_up()

    def cut(self) -> None:
        """End the socket without a close frame: the server is not there any more."""
        if self._writer is not None and self.is_open:
            self._writer.transport.abort()
