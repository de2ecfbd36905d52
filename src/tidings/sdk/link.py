"""One WebSocket on picows, from its opening to its end. The thin shell around session.py.

Frames become whole texts; the close code is kept. `liveness` is told of whatever is heard, pings of the server among
it. Nothing here knows what a frame means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import picows
from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from tidings.bounds import CLIENT_FRAME_BYTES_MAX, CLIENT_HANDSHAKE_S
from tidings.clock import Clock
from tidings.sdk.liveness import Liveness
from tidings.sdk.refusals import Disconnected


class Link(WSListener):
    """`lost` is done when the socket is gone: with its close code, or None when there was none."""

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
        """Raises Disconnected when nobody is there."""
        try:
            async with asyncio.timeout(CLIENT_HANDSHAKE_S):
                _, made = await picows.ws_connect(
                    lambda: cls(on_text, clock), url, max_frame_size=CLIENT_FRAME_BYTES_MAX, logger_name="tidings"
                )
        except (OSError, picows.WSError, TimeoutError) as error:
            raise Disconnected(f"cannot connect to {url}: {error or type(error).__name__}") from None
        if not isinstance(made, cls):  # it went within the handshake, and picows made nobody to tell
            raise Disconnected(f"cannot connect to {url}: closed within the handshake")
        return made

    # --- what picows calls ---

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self.liveness.hear()
        if frame.msg_type == WSMsgType.CLOSE:
            self._code = int(cast(int, frame.get_close_code())) or None
            with suppress(Exception):  # the peer may be gone already; then there is nobody to answer
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
        if len(self._pieces) > CLIENT_FRAME_BYTES_MAX:
            self.cut()
        elif frame.fin:
            whole, self._pieces = bytes(self._pieces), bytearray()
            self._on_text(whole)

    # --- what session.py calls ---

    @property
    def is_open(self) -> bool:
        return not self.lost.done()

    def send(self, raw: bytes) -> None:
        if self._transport is not None and self.is_open:
            self._transport.send(WSMsgType.TEXT, raw)

    def pause(self, is_paused: bool) -> None:
        """Whether the socket is left unread: then the server sees that we are slow."""
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
        """Without a word: the peer is not there any more."""
        if self._transport is not None and self.is_open:
            self._transport.underlying_transport.abort()
