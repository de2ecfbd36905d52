"""Packing: an export as a folder of files, or as a zip that is sent while it is made."""

from __future__ import annotations

import asyncio
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from tidings.errors import BadRequest
from tidings.messaging.transfer.exporting import Piece


async def to_folder(pieces: AsyncIterator[Piece], folder: Path) -> int:
    """Write the pieces as files that only their owner reads, and return their bytes. Raises BadRequest."""
    make_folder(folder)
    size = 0
    async for piece in pieces:
        with create(folder / piece.name) as out:
            async for chunk in piece.chunks:
                size += await asyncio.to_thread(out.write, chunk)
            await asyncio.to_thread(os.fsync, out.fileno())
    return size


def make_folder(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadRequest(f"{folder} is there already; name a new folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def create(path: Path) -> BinaryIO:
    """A new file that only its owner reads. Raises FileExistsError."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)


async def to_zip(pieces: AsyncIterator[Piece]) -> AsyncIterator[bytes]:
    """The bytes of a zip, a chunk at a time. Compression runs beside the loop."""
    out = _Out()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        async for piece in pieces:
            about = zipfile.ZipInfo(piece.name)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
            with packed.open(about, "w", force_zip64=True) as file:
                async for chunk in piece.chunks:
                    await asyncio.to_thread(file.write, chunk)
                    if made := out.take():
                        yield made
            yield out.take()
    yield out.take()


class _Out:
    """A file that can only be written, and that gives away what it has."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def write(self, data: bytes, /) -> int:
        self._waiting += data
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def take(self) -> bytes:
        taken = bytes(self._waiting)
        self._waiting.clear()
        return taken
