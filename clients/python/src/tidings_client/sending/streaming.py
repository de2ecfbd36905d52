"""A message that is written piece by piece: readers see every piece, and the message survives lost connections.

`async with client.streaming(conversation_id) as out: await out.write(token)`. After a reconnect the begin is sent again
with the same message_id. The server answers how much it has, and the rest follows. A body that raises leaves the
message without an end: the server keeps the text, and marks the message as interrupted after a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from tidings_client.bounds import STREAM_PIECE_CHARS
from tidings_client.connection.session import Session
from tidings_client.errors import Disconnected, Problem
from tidings_client.forms import Append, Begin, End
from tidings_client.values import Sent


class Begun(Sent, frozen=True, kw_only=True):
    """The answer to the begin of a streamed message: the server has `offset` characters of it."""

    offset: int


class Streaming:
    """The writer of one message. `is_duplicate`: the message was begun before, so nothing is written again."""

    def __init__(
        self, session: Session, begin: Begin, connection_id: Callable[[], str | None], on_begun: Callable[[Sent], None]
    ) -> None:
        self._session = session
        self._begin = begin
        self._connection_id = connection_id
        self._on_begun = on_begun
        self._text = begin.text
        self._sent = 0  # characters that this connection has taken
        self._on: str | None = None  # the connection on which the message was begun
        self.seq = 0
        self.is_duplicate = False

    async def __aenter__(self) -> Streaming:
        sent, is_own = await self._first()
        self.seq, self.is_duplicate = sent.seq, sent.duplicate and not is_own
        self._sent, self._on = min(sent.offset, len(self._text)), self._connection_id()
        if not self.is_duplicate:
            self._on_begun(sent)
        return self

    async def _first(self) -> tuple[Begun, bool]:
        """Begin. True: the answer to an earlier try was lost, so a message that is there is our own."""
        await self._session.up()
        try:
            return await self._session.request_once(self._begin, Begun), False
        except Disconnected:
            is_own = True
        except Problem as problem:
            if not problem.is_temporary:
                raise
            is_own = problem.code in ("unavailable", "internal")  # any other refusal has stored nothing
        return await self._session.request(self._begin, Begun), is_own

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self.is_duplicate:
            await self._end()

    async def write(self, text: str) -> None:
        """Add a piece. It waits only while there is no connection."""
        if not self.is_duplicate:
            self._text += text
            await self._catch_up()

    async def _catch_up(self) -> None:
        while self._sent < len(self._text):
            if not self._session.is_up or self._on != self._connection_id():
                await self._resume()
            piece = self._text[self._sent : self._sent + STREAM_PIECE_CHARS]
            begin = self._begin
            frame = Append(
                conversation_id=begin.conversation_id, message_id=begin.message_id, offset=self._sent, text=piece
            )
            if self._session.send(frame):
                self._sent += len(piece)

    async def _resume(self) -> None:
        """Begin again on this connection, and go on from what the server has."""
        sent = await self._session.request(self._begin, Begun)
        self._sent, self._on = min(sent.offset, len(self._text)), self._connection_id()

    async def _end(self) -> None:
        frame = End(conversation_id=self._begin.conversation_id, message_id=self._begin.message_id)
        is_begun_again, backoff = False, self._session.backoff()
        while True:
            await self._session.up()
            try:
                if self._on != self._connection_id():
                    await self._resume()
                await self._catch_up()
                await self._session.request_once(frame, Sent)
                return
            except Disconnected:
                continue  # an end that was stored is answered as stored once more
            except Problem as problem:
                if problem.code == "not_found" and not is_begun_again:
                    is_begun_again, self._on = True, None  # the node dropped it: it may have been taken up elsewhere
                elif not problem.is_temporary:
                    raise
                else:
                    await asyncio.sleep(backoff.next_s(problem.retry_after_ms))
