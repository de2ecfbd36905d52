"""A network that fails on demand: a proxy between two processes that can be cut, frozen, slowed and made to drop.

Stopping a process does not lose what its peer's kernel has already taken; cutting the connection does. It stands
between clients and nodes, between nodes and the keyspace, and between a primary and its replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tidings.clock import Dice

CHUNK_BYTES = 65_536
DRIP_BYTES = 64  # what a dripping link lets through at a time
DRIP_S = 0.02  # and how often
Place = int | Path  # a loopback port, or a unix socket


class Proxy:
    """Listens on a loopback port, or on a unix socket; new connections are passed on to `target`."""

    def __init__(self, target: Place, listen: Place = 0, dice: Dice | None = None) -> None:
        self.target = target
        self.listen = listen
        self.port = 0
        self.delay_s = 0.0  # at most; each piece waits a random part of it
        self.is_dripping = False
        self._dice = dice or Dice(1)
        self._is_cut = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.Task[None]] = set()

    @property
    def is_used(self) -> bool:
        """Somebody is connected through it."""
        return bool(self._pairs)

    async def open(self) -> None:
        if isinstance(self.listen, Path):
            self.listen.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._accept, str(self.listen))
            return
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.listen, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    # --- trouble ------------------------------------------------------------------------------------

    async def cut(self) -> None:
        """Every connection ends, what is on its way is lost, and new ones are ended at once."""
        self._is_cut = True
        await self.drop()

    async def drop(self, share: float = 1.0) -> None:
        """So many of the connections end, in the middle of whatever they carry."""
        pairs = [pair for pair in self._pairs if self._dice.random() < share]
        for pair in pairs:
            pair.cancel()
        await asyncio.gather(*pairs, return_exceptions=True)

    def freeze(self) -> None:
        """Connections stay and nothing passes: neither side can tell that the other is gone."""
        self._flowing.clear()

    def mend(self) -> None:
        """Everything passes again, at once."""
        self._is_cut, self.delay_s, self.is_dripping = False, 0.0, False
        self._flowing.set()

    async def switch(self, target: Place) -> None:
        """Everybody is cut off, and finds another server behind the same address."""
        await self.cut()
        self.target = target
        self.mend()

    # --- carrying -----------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        pair = asyncio.create_task(self._join(reader, writer), name="proxy")
        self._pairs.add(pair)
        pair.add_done_callback(self._pairs.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far: asyncio.StreamWriter | None = None
        try:
            await self._flowing.wait()
            far_reader, far = await self._connect()
            ways = [asyncio.ensure_future(way) for way in (self._carry(reader, far), self._carry(far_reader, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # nobody listens there: the client is told by the end of its connection
        finally:
            for each in (writer, far):
                if each is not None:
                    each.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, Path):
            return await asyncio.open_unix_connection(str(self.target))
        return await asyncio.open_connection("127.0.0.1", self.target)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(DRIP_BYTES if self.is_dripping else CHUNK_BYTES):
                if self.delay_s or self.is_dripping:
                    await asyncio.sleep(DRIP_S if self.is_dripping else self.delay_s * self._dice.random())
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def open_proxy(target: Place) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
