"""One subscription: a connection that only listens, kept up until it is closed.

A message that is published while the connection is down is lost. So `on_subscribed` is called after every
(re)subscribe, and the listener, routing/bus.py, reads what it may have missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

import hiredis

from tidings.bounds import BUS_PROBE_S, KEYSPACE_COMMAND_S, KEYSPACE_CONNECT_S, KEYSPACE_RETRY_S
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.wire import Address, connect_to
from tidings.tasks import cancel, wait_at_most

log = logging.getLogger("tidings.keyspace")
_PROBES_MAX = round(KEYSPACE_COMMAND_S / BUS_PROBE_S)  # unanswered in a row: the server is gone
_pack = cast(Callable[[tuple[str, ...]], bytes], hiredis.pack_command)


class Feed:
    """Listens to one sharded channel, on the server that `locate` names before each attempt."""

    def __init__(
        self,
        locate: Callable[[], Address],
        channel: str,
        clock: Clock,
        on_message: Callable[[bytes], None],
        on_subscribed: Callable[[], None],
    ) -> None:
        self._locate = locate
        self._address = locate()
        self._channel = channel
        self._clock = clock
        self._on_message = on_message
        self._on_subscribed = on_subscribed
        self._ear: Ear | None = None
        self._is_cut = asyncio.Event()  # ends the keeper's pause early
        self._keeper: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self._ear is not None and self._ear.is_subscribed

    async def open(self) -> None:
        """Subscribe for the first time. Raises Unavailable. From then on the subscription is kept up."""
        self._ear = await self._subscribe()
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="feed")

    async def close(self) -> None:
        await cancel(self._keeper)
        if self._ear is not None:
            self._ear.cut()

    def follow(self) -> None:
        """Subscribe again if another server has the channel now."""
        if self.is_up and self._ear is not None and self._locate() != self._address:
            self._ear.cut()

    async def _subscribe(self) -> Ear:
        ear = Ear(self._on_message, self._is_cut.set)
        address = self._address = self._locate()
        try:
            async with asyncio.timeout(KEYSPACE_CONNECT_S):
                await connect_to(address, lambda: ear)
                if password := address.secret():
                    ear.say("AUTH", *([address.user] if address.user else []), password)
                ear.say("SSUBSCRIBE", self._channel)
                await ear.subscribed.wait()
        except asyncio.CancelledError:
            ear.cut()  # nobody holds it yet, so nobody else would end it
            raise
        except (OSError, TimeoutError) as error:
            ear.cut()
            why = str(error) or f"no answer within {KEYSPACE_CONNECT_S:g} s"
            raise Unavailable(f"{address.label}: no subscription ({why})") from error
        if not ear.is_subscribed:
            raise Unavailable(f"{address.label}: no subscription ({ear.refusal or 'it closed the connection'})")
        self._on_subscribed()
        return ear

    async def _keep(self) -> None:
        while True:
            await self._pause()
            if self._ear is not None and self._ear.is_subscribed:
                self._ear.probe()
                continue
            try:
                self._ear = await self._subscribe()
            except Unavailable as error:
                log.debug("subscription still down", extra={"cause": str(error)})

    async def _pause(self) -> None:
        """Wait until the next probe or the end of the subscription. After an end wait longer: the server may fail."""
        if self.is_up:
            self._is_cut.clear()
            await wait_at_most(self._is_cut, BUS_PROBE_S)
        if not self.is_up:
            await asyncio.sleep(KEYSPACE_RETRY_S * (0.5 + self._clock.random_fraction()))


class Ear(asyncio.Protocol):
    """One life of the connection."""

    def __init__(self, on_message: Callable[[bytes], None], on_cut: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_cut = on_cut
        self._reader = hiredis.Reader(notEnoughData=None)
        self._transport: asyncio.Transport | None = None
        self._probes = 0  # since anything was heard
        self.subscribed = asyncio.Event()  # set when the answer came, or never will
        self.is_subscribed = False
        self.refusal = ""

    def say(self, *words: str) -> None:
        if self._transport is not None:
            self._transport.write(_pack(words))

    def probe(self) -> None:
        """Send PING. A server that leaves too many of them without an answer is gone.

        Probes are counted, not seconds: a process that was stopped itself has not listened, and what was published
        meanwhile waits to be read.
        """
        self._probes += 1
        if self._probes > _PROBES_MAX:
            self.cut()
        else:
            self.say("PING")

    def cut(self) -> None:
        self.is_subscribed = False
        self.subscribed.set()
        if self._transport is not None:
            self._transport.abort()
        self._on_cut()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._probes = 0
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not None:
                self._take(reply)
        except hiredis.ProtocolError:
            self.cut()

    def connection_lost(self, error: Exception | None) -> None:
        self.cut()

    def _take(self, reply: Any) -> None:
        if isinstance(reply, list) and reply[0] == b"smessage":
            self._on_message(reply[2])
        elif isinstance(reply, list) and reply[0] == b"ssubscribe":
            self.is_subscribed = True
            self.subscribed.set()
        elif isinstance(reply, list) and reply[0] == b"sunsubscribe":
            self.cut()  # the slot moved to another server
        elif isinstance(reply, Exception):
            self.refusal = self.refusal or str(reply)[:160]  # a wrong password comes before what follows from it
            self.cut()
