"""Channel: questions and answers between the supervisor and one worker, over a pair of sockets.

Both ends are alike: each may ask, and each answers what it is asked. A message is one line of JSON. The end of the
channel means that the other process is gone, so it is also the lifeline of a worker.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable

import msgspec

from tidings.bounds import WORKER_ASK_S, WORKER_LINE_BYTES_MAX, WORKER_QUESTIONS_MAX
from tidings.tasks import TaskSet

Answer = Callable[[str, str], Awaitable[str]]  # (what, text) -> text


class _Line(msgspec.Struct, omit_defaults=True):
    """A question has a `what`; an answer has only the number of its question."""

    number: int
    what: str = ""
    text: str = ""


_decode = msgspec.json.Decoder(_Line).decode
_encode = msgspec.json.Encoder().encode


class Channel:
    """One end. `run` must be running for `ask` to be answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[str]] = {}
        self._tasks = TaskSet(WORKER_QUESTIONS_MAX)

    @classmethod
    async def over(cls, link: socket.socket, answer: Answer) -> Channel:
        return cls(*await asyncio.open_connection(sock=link, limit=WORKER_LINE_BYTES_MAX), answer)

    async def ask(self, what: str, text: str = "", within_s: float = WORKER_ASK_S) -> str:
        """Raises TimeoutError when the other end does not answer in time, ConnectionError when it is gone."""
        number = next(self._numbers)
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open[number] = answered
        try:
            self._send(_Line(number, what, text))
            async with asyncio.timeout(within_s):
                return await answered
        finally:
            self._open.pop(number, None)

    async def run(self) -> None:
        """Answer questions and take answers until the other end is gone."""
        try:
            while line := await self._reader.readline():
                self._take(_decode(line))
        except (OSError, ValueError, msgspec.DecodeError):
            pass  # the other end died in the middle of a line
        finally:
            for answered in self._open.values():
                if not answered.done():
                    answered.set_exception(ConnectionResetError("the other process is gone"))
            self._writer.close()
            await self._tasks.close()

    def _take(self, line: _Line) -> None:
        if line.what:
            self._tasks.run(self._reply(line), f"channel {line.what}")
        elif (answered := self._open.get(line.number)) is not None and not answered.done():
            answered.set_result(line.text)

    async def _reply(self, line: _Line) -> None:
        self._send(_Line(line.number, text=await self._answer(line.what, line.text)))

    def _send(self, line: _Line) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the other process is gone")
        self._writer.write(_encode(line) + b"\n")
