"""Thumbnails and sizes of pictures, made by a process of their own (thumbnailer.py) and never by the node.

The process gets the bytes on stdin, and has limits of memory, processor time and pixels. It is killed after its time.
Few run at once, and a thumbnail is made once: it is an object beside the bytes of its file, and goes with them. Without
Pillow there are neither sizes nor thumbnails.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tidings.bounds import FILE_LINK_S
from tidings.clock import Clock
from tidings.errors import Missing, NotFound
from tidings.messaging.files import bounds, thumbnailer
from tidings.messaging.files.downloads import DOWNLOAD_PATH, SHOWN, Downloads, Link, Opened
from tidings.messaging.files.record import FileRecord, file_folder
from tidings.messaging.files.tickets import Ticket, Tickets
from tidings.stores.blobs.ports import Blobs, FileBytes

MIME = "image/webp"
_HAS_PILLOW = importlib.util.find_spec("PIL") is not None


class Look:
    """The pictures that this node looks at, a few at a time."""

    def __init__(self, files: FileBytes, *, is_possible: bool = _HAS_PILLOW) -> None:
        self._files = files
        self.is_possible = is_possible
        self._free = asyncio.Semaphore(bounds.THUMBNAILS_AT_ONCE)

    async def measure(self, folder: str, value: FileRecord) -> tuple[int, int] | None:
        """Width and height. None: nobody knows."""
        found = await self.at(folder, value, 0)
        return found[0] if found is not None else None

    async def at(self, folder: str, value: FileRecord, size: int) -> tuple[tuple[int, int], bytes] | None:
        """Width and height, and a picture of at most this size, where it is not 0. None: it is no picture we know."""
        if value.mime not in SHOWN or value.bytes > bounds.THUMBNAIL_SOURCE_BYTES_MAX:
            return None
        return await self._look(self._files.read(folder, value.parts, 0, value.bytes), size)

    async def small(self, data: bytes, size: int) -> bytes | None:
        """A picture of at most this size. None: it is no picture we know."""
        found = await self._look(_once(data), size)
        return found[1] if found is not None else None

    async def _look(self, chunks: AsyncIterator[bytes], size: int) -> tuple[tuple[int, int], bytes] | None:
        if not self.is_possible:
            return None
        async with self._free:
            try:
                async with asyncio.timeout(bounds.THUMBNAIL_S):
                    return await self._run(chunks, size)
            except (TimeoutError, Missing):
                return None

    async def _run(self, chunks: AsyncIterator[bytes], size: int) -> tuple[tuple[int, int], bytes] | None:
        limits = (size, bounds.THUMBNAIL_PIXELS_MAX, bounds.THUMBNAIL_MEMORY_BYTES, bounds.THUMBNAIL_CPU_S)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(Path(thumbnailer.__file__)),
            *map(str, limits),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        try:
            feeding = asyncio.gather(_feed(process, chunks), return_exceptions=True)
            assert process.stdout is not None
            said = await process.stdout.read(bounds.THUMBNAIL_BYTES_MAX)
            await feeding
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        line, _, small = said.partition(b"\n")
        if code or not line:
            return None
        width, height = json.loads(line)
        return (width, height), small


async def _feed(process: asyncio.subprocess.Process, chunks: AsyncIterator[bytes]) -> None:
    assert process.stdin is not None
    try:
        async for chunk in chunks:
            process.stdin.write(chunk)
            await process.stdin.drain()
    finally:
        process.stdin.close()


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


@dataclass(eq=False, repr=False, kw_only=True)
class Thumbnails:
    downloads: Downloads
    look: Look
    blobs: Blobs
    files: FileBytes
    tickets: Tickets
    archive_id: Callable[[], Awaitable[str]]
    clock: Clock

    async def link(self, user_id: str, conversation_id: str, file_id: str, size: int) -> Link:
        """A link to the thumbnail. Raises NotFound: no such file, or nothing that can be shown small."""
        value = await self.downloads.readable(user_id, conversation_id, file_id)
        if not self.look.is_possible:
            raise NotFound("this server makes no thumbnails: it needs the extra `thumbnails`")
        folder = file_folder(await self.archive_id(), conversation_id, file_id)
        name = _name(folder, size)
        if not await self._exists(name):
            found = await self.look.at(folder, value, size)
            if found is None:
                raise NotFound("there is no thumbnail of this file")
            await self.blobs.put(name, found[1])
        expires_ms = self.clock.now_ms() + FILE_LINK_S * 1000
        if self.files.is_direct:
            shown = {"mime": "image/webp", "disposition": "inline"}
            return Link(await self.files.sign_read(name, **shown, expires_s=FILE_LINK_S), expires_ms)
        ticket = Ticket("read", user_id, conversation_id, file_id, expires_ms, thumbnail=size)
        return Link(f"{DOWNLOAD_PATH}{self.tickets.sign(ticket)}/thumbnail.webp", expires_ms)

    async def _exists(self, name: str) -> bool:
        folder = name.rpartition("/")[0]
        return any([blob.name == name async for chunk in self.blobs.list(folder) for blob in chunk])

    async def open(self, ticket: Ticket) -> Opened:
        """The bytes of a thumbnail. Raises NotFound."""
        folder = file_folder(await self.archive_id(), ticket.conversation_id, ticket.file_id)
        try:
            data = await self.blobs.get(_name(folder, ticket.thumbnail))
        except Missing:
            raise NotFound("no such file") from None

        async def read(start: int, end: int) -> AsyncIterator[bytes]:
            yield data[start:end]

        return Opened("thumbnail.webp", MIME, len(data), False, read)


def _name(folder: str, size: int) -> str:
    return f"{folder}/thumbnail{size}"
