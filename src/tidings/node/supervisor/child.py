"""Child: one worker process, as the supervisor sees it: its start, its answers and its end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tidings.bounds import WORKER_START_S, WORKER_STOP_S
from tidings.node.channel import Channel
from tidings.node.supervisor.worker import Order, send_order

Ask = Callable[[str], Awaitable[str]]


class Child:
    """`number` is the place of the worker. A child that replaces another has its number."""

    def __init__(self, number: int, order: Order, ask: Ask) -> None:
        self.number = number
        self.node_id = order.node_id
        self.page = ""  # the metrics that it reported last
        self.reason = ""  # why it could not start, in its own words
        self.is_store_down = False  # a store was the reason
        self.is_ready = False
        self._order = order
        self._ask = ask
        self._settled = asyncio.Event()  # it is ready, or it has ended
        self._process: Process | None = None
        self._channel: Channel | None = None
        self._ended: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process. It is a session of its own: Ctrl-C is for the supervisor, which drains the workers."""
        ours, theirs = socket.socketpair()
        send_order(ours, self._order)
        ours.setblocking(False)
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tidings.node.supervisor.worker",
                str(theirs.fileno()),
                stdin=DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._channel = await Channel.over(ours, self._answer)
        self._ended = asyncio.create_task(self._follow(self._process, self._channel), name=f"worker {self.number}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def wait_ready(self) -> bool:
        """False: it ended, or did not listen in time and was killed."""
        try:
            async with asyncio.timeout(WORKER_START_S):
                await self._settled.wait()
        except TimeoutError:
            self.reason = f"it did not listen within {WORKER_START_S:g} s"
            self._signal(signal.SIGKILL)
            await self.wait_ended()
        return self.is_ready

    async def wait_ended(self) -> None:
        assert self._ended is not None
        await asyncio.shield(self._ended)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    async def stop(self) -> None:
        """Drain the worker. It is killed when it takes longer than it may."""
        self.terminate()
        try:
            async with asyncio.timeout(WORKER_STOP_S):
                await self.wait_ended()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.wait_ended()

    async def state(self) -> str:
        """The state that it reports. A child that is not ready yet is not asked: it may be busy with its imports."""
        if not self.is_ready:
            return "starting" if self.is_alive else "down"
        return await self._tell("state") or "down"

    async def read_page(self) -> str:
        """Its metrics now, or its last ones when it does not answer."""
        if self.is_ready:
            self.page = await self._tell("page") or self.page
        return self.page

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def has_left(self) -> bool:
        """Whether it ended as if it had been asked to."""
        return self._process is not None and self._process.returncode == 0

    def last_words(self) -> str:
        """How it ended, and why if it said so."""
        code = self._process.returncode if self._process is not None else None
        how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return f"{how}: {self.reason}" if self.reason else how

    async def _follow(self, process: Process, channel: Channel) -> None:
        """Keep the channel until the process has ended."""
        talking = asyncio.create_task(channel.run(), name=f"channel {self.number}")
        await process.wait()
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        self.is_ready = False
        self._settled.set()

    async def _answer(self, what: str, text: str) -> str:
        if what == "ready":
            self.is_ready = True
            self._settled.set()
            return ""
        if what in ("failed", "store"):
            self.reason, self.is_store_down = text, what == "store"
            return ""
        return await self._ask(what)

    async def _tell(self, what: str) -> str:
        assert self._channel is not None
        try:
            return await self._channel.ask(what)
        except (TimeoutError, ConnectionError):
            return ""

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
