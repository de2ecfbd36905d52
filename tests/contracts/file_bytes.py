"""What every adapter of the FileBytes port must do. The fixture `files` is the adapter."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import httpx2 as httpx
import pytest

from tests.contracts import fresh
from tidings.errors import Missing
from tidings.stores.blobs.ports import BadSize, FileBytes, Part


async def send(files: FileBytes, folder: str, part: Part, data: bytes) -> None:
    """Send a part the way a client does."""
    sent = data[part.start : part.end]
    if files.is_direct:
        signed = await files.sign_part(folder, part, "text/plain", expires_s=60)
        async with httpx.AsyncClient() as http:
            assert (await http.put(signed.url, content=sent, headers=signed.headers)).status_code == 200
        return

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(sent), 70_001):
            yield sent[at : at + 70_001]

    await files.write(folder, part, chunks())


async def read(files: FileBytes, folder: str, parts: list[Part], start: int, end: int) -> bytes:
    return b"".join([chunk async for chunk in files.read(folder, parts, start, end)])


class FileBytesContract:
    @pytest.mark.parametrize("size", [0, 1, 6 * 1024 * 1024], ids=["nothing", "a byte", "two parts of a folder"])
    async def test_a_finished_file_is_read_back_byte_for_byte(self, files: FileBytes, size: int) -> None:
        folder, data = f"{fresh('folder')}/f1", os.urandom(size)
        parts = files.parts(size)
        assert parts[0].start == 0 and parts[-1].end == size
        for part in reversed(parts):
            await send(files, folder, part, data)
        await files.finish(folder, parts)
        await files.finish(folder, parts)
        assert await read(files, folder, parts, 0, size) == data
        if size:
            assert await read(files, folder, parts, size // 2, size // 2 + 1) == data[size // 2 : size // 2 + 1]

    @pytest.mark.parametrize("size", [0, 1, 6 * 1024 * 1024], ids=["nothing", "a byte", "six megabytes"])
    async def test_a_file_that_the_server_stores_is_whole(self, files: FileBytes, size: int) -> None:
        folder, data = f"{fresh('folder')}/f1", os.urandom(size)

        async def chunks(end: int) -> AsyncIterator[bytes]:
            for at in range(0, end, 1_000_003):
                yield data[at : min(at + 1_000_003, end)]

        await files.put(folder, size, chunks(size))
        assert await read(files, folder, [Part(0, size)], 0, size) == data
        if size:
            with pytest.raises(BadSize):
                await files.put(f"{folder}2", size, chunks(size - 1))
            with pytest.raises(Missing):
                await read(files, f"{folder}2", [Part(0, size)], 0, size)

    async def test_only_a_store_that_clients_reach_has_an_origin(self, files: FileBytes) -> None:
        assert (await files.origin()).startswith("http") == files.is_direct

    async def test_without_all_parts_nothing_is_finished(self, files: FileBytes) -> None:
        folder = f"{fresh('folder')}/f1"
        with pytest.raises(Missing):
            await files.finish(folder, files.parts(5))
        with pytest.raises(Missing):
            await read(files, folder, files.parts(5), 0, 5)

    async def test_a_part_that_is_sent_again_replaces_the_first(self, files: FileBytes) -> None:
        folder, (part,) = f"{fresh('folder')}/f1", files.parts(5)
        await send(files, folder, part, b"first")
        await send(files, folder, part, b"later")
        await files.finish(folder, [part])
        assert await read(files, folder, [part], 0, 5) == b"later"

    async def test_a_part_that_comes_after_the_end_changes_nothing(self, files: FileBytes) -> None:
        folder, (part,) = f"{fresh('folder')}/f1", files.parts(5)
        await send(files, folder, part, b"first")
        await files.finish(folder, [part])
        await send(files, folder, part, b"later")
        await files.finish(folder, [part])
        assert await read(files, folder, [part], 0, 5) == b"first"

    async def test_a_file_of_another_size_is_not_finished(self, files: FileBytes) -> None:
        folder, (part,) = f"{fresh('folder')}/f1", files.parts(5)
        await send(files, folder, part, b"first")
        with pytest.raises(Missing):
            await files.finish(folder, [Part(0, 6)])
