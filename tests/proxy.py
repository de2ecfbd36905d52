"""A TCP proxy that a test can cut, mend, and point at another server: a network that fails on demand.

Stopping a process does not lose what its peer's kernel has already taken; cutting the connection does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

CHUNK_BYTES = 65_536


class Proxy:
    """Listens on a loopback port; `target` is the port that new connections are passed on to."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._is_cut = False
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.Task[None]] = set()

    @property
    def is_used(self) -> bool:
        """Somebody is connected through it."""
        return bool(self._pairs)

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    async def cut(self) -> None:
        """Every connection ends, what is on its way is lost, and new ones are ended at once."""
        self._is_cut = True
        pairs = tuple(self._pairs)
        for pair in pairs:
            pair.cancel()
        await asyncio.gather(*pairs, return_exceptions=True)

    def mend(self) -> None:
        self._is_cut = False

    async def switch(self, target: int) -> None:
        """Everybody is cut off, and finds another server behind the same address."""
        await self.cut()
        self.target = target
        self.mend()

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
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.target)
            ways = [asyncio.ensure_future(way) for way in (_carry(reader, far), _carry(far_reader, writer))]
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


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def open_proxy(target: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(target)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
