"""The bytes of files in a folder: streamed through the node, a chunk at a time, so that memory stays flat.

A part is a file of its own. It is written aside, synced, and then gets its name, so a part is whole or not there. The
parts of an upload lie in `<folder>.new`. `finish` gives that folder its last name in one step: a part that comes later
is in a folder that nobody reads. A file is read part after part; nothing is ever copied together.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tidings.bounds import FILE_CHUNK_BYTES, FILE_PART_BYTES, FILE_PARTS_MAX
from tidings.clock import Clock
from tidings.errors import Missing, Unavailable
from tidings.stores.blobs.obstore import make_private, sync
from tidings.stores.blobs.ports import BadSize, Part, Signed, no_names

NEW = ".new"  # the end of the name of a file that is not finished


def parts_of(size: int, part_bytes: int = FILE_PART_BYTES) -> list[Part]:
    """Parts of equal size, but for the last one; larger parts where there would be too many."""
    part_bytes = max(part_bytes, -(-size // FILE_PARTS_MAX))
    return [Part(start, min(start + part_bytes, size)) for start in range(0, size, part_bytes)] or [Part(0, 0)]


def object_of(folder: str, part: Part) -> str:
    return f"{folder}/{part.start:016d}"


class FolderFiles:
    is_direct = False

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._clock = clock

    async def origin(self) -> str:
        return ""

    def parts(self, size: int) -> list[Part]:
        return parts_of(size)

    async def sign_parts(self, folder: str, parts: Sequence[Part], mime: str, *, expires_s: int) -> list[Signed]:
        raise AssertionError("a folder signs nothing")

    async def sign_read(self, name: str, *, mime: str, disposition: str, expires_s: int) -> str:
        raise AssertionError("a folder signs nothing")

    async def write(self, folder: str, part: Part, chunks: AsyncIterator[bytes]) -> None:
        path, new = self._root / object_of(folder + NEW, part), self._root / NEW / self._clock.random_id(8)
        try:
            out = await asyncio.to_thread(_create, new)
            try:
                await _fill(out, part.size, chunks)
                await asyncio.to_thread(_keep, out, new, path)
            finally:
                out.close()
                new.unlink(missing_ok=True)
        except OSError as error:
            raise _unavailable("write", error) from None

    async def put(self, folder: str, size: int, chunks: AsyncIterator[bytes]) -> None:
        whole = Part(0, size)
        await self.write(folder, whole, chunks)
        await self.finish(folder, [whole], "")

    async def finish(self, folder: str, parts: Sequence[Part], mime: str) -> None:
        try:
            await asyncio.to_thread(self._finish, self._root / folder, parts)
        except OSError as error:
            raise _unavailable("finish", error) from None

    def unfinished(self, folder: str) -> AsyncIterator[str]:
        return no_names()

    async def abandon(self, folder: str) -> None:
        pass

    def _finish(self, path: Path, parts: Sequence[Part]) -> None:
        if not _is_whole(path, parts):
            unfinished = path.with_name(path.name + NEW)
            if not _is_whole(unfinished, parts):
                raise Missing("a part is not there", store="blobs", op="finish")
            os.rename(unfinished, path)
            sync(path.parent)

    async def read(self, folder: str, parts: Sequence[Part], start: int, end: int) -> AsyncIterator[bytes]:
        for part in parts:
            low, high = max(start, part.start), min(end, part.end)
            if low >= high:
                continue
            try:
                file = await asyncio.to_thread(open, self._root / object_of(folder, part), "rb")
            except FileNotFoundError:
                raise Missing("a part is not there", store="blobs", op="read") from None
            except OSError as error:
                raise _unavailable("read", error) from None
            with file:
                while low < high:
                    chunk = await asyncio.to_thread(_read_at, file, low - part.start, min(FILE_CHUNK_BYTES, high - low))
                    if not chunk:
                        raise Missing("a part is shorter than it was", store="blobs", op="read")
                    low += len(chunk)
                    yield chunk


async def _fill(out: BinaryIO, size: int, chunks: AsyncIterator[bytes]) -> None:
    """Write the chunks as they come. Raises BadSize as soon as the size is known to be wrong."""
    waiting, came = bytearray(), 0
    async for chunk in chunks:
        came += len(chunk)
        if came > size:
            raise BadSize
        waiting += chunk
        if len(waiting) >= FILE_CHUNK_BYTES:
            await asyncio.to_thread(_write, out, waiting)
            waiting = bytearray()
    if came != size:
        raise BadSize
    await asyncio.to_thread(_write, out, waiting)


def _write(out: BinaryIO, data: bytearray) -> None:
    """Write all of it: a disk that is nearly full takes a part without an error, and refuses the rest."""
    left = memoryview(data)
    while left:
        left = left[out.write(left) :]


def _create(new: Path) -> BinaryIO:
    make_private(new.parent)
    return open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)


def _keep(out: BinaryIO, new: Path, path: Path) -> None:
    """Sync the bytes before the file gets its name, and the name before the caller gets an answer."""
    os.fsync(out.fileno())
    while True:
        make_private(path.parent)
        with suppress(FileNotFoundError):  # the folder was finished, or removed as empty, at this moment
            os.replace(new, path)
            break
        if not new.exists():
            raise FileNotFoundError(f"{new} was cleared away as an old file")
    sync(path.parent)


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _is_whole(path: Path, parts: Sequence[Part]) -> bool:
    try:
        return all((path / f"{part.start:016d}").stat().st_size == part.size for part in parts)
    except FileNotFoundError:
        return False


def _unavailable(op: str, error: OSError) -> Unavailable:
    return Unavailable(f"blobs: {error.strerror or error}", store="blobs", op=op)
