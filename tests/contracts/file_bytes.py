"""What every adapter of the FileBytes port must do. The fixture `files` is the adapter."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import httpx2 as httpx
import pytest

from tests.contracts import fresh
from tidings.errors import Missing, StoreError
from tidings.stores.blobs.folder_files import object_of
from tidings.stores.blobs.ports import BadSize, FileBytes, Part, Signed

TWO_PARTS = 6 * 1024 * 1024


class Upload:
    """A file that is on its way, the way a client sends it."""

    def __init__(self, files: FileBytes, folder: str, parts: list[Part], signed: list[Signed]) -> None:
        self._files = files
        self._folder = folder
        self._signed = dict(zip(parts, signed, strict=bool(signed)))

    async def send(self, part: Part, data: bytes) -> int:
        """Send a part, and return the status of the answer."""
        sent = data[part.start : part.end]
        if self._files.is_direct:
            signed = self._signed[part]
            async with httpx.AsyncClient(timeout=60) as http:
                return (await http.put(signed.url, content=sent, headers=signed.headers)).status_code

        async def chunks() -> AsyncIterator[bytes]:
            for at in range(0, len(sent), 70_001):
                yield sent[at : at + 70_001]

        await self._files.write(self._folder, part, chunks())
        return 204


async def begin(files: FileBytes, folder: str, size: int) -> tuple[Upload, list[Part]]:
    parts = files.parts(size)
    signed = await files.sign_parts(folder, parts, "text/plain", expires_s=60) if files.is_direct else []
    return Upload(files, folder, parts, signed), parts


async def finish(files: FileBytes, folder: str, parts: list[Part]) -> None:
    await files.finish(folder, parts, "text/plain")


async def read(files: FileBytes, folder: str, parts: list[Part], start: int, end: int) -> bytes:
    return b"".join([chunk async for chunk in files.read(folder, parts, start, end)])


class FileBytesContract:
    @pytest.mark.parametrize("size", [0, 1, TWO_PARTS], ids=["nothing", "a byte", "two parts"])
    async def test_a_finished_file_is_read_back_byte_for_byte(self, files: FileBytes, size: int) -> None:
        folder, data = f"{fresh('folder')}/f1", os.urandom(size)
        upload, parts = await begin(files, folder, size)
        assert parts[0].start == 0 and parts[-1].end == size
        for part in reversed(parts):
            assert await upload.send(part, data) < 300
        await finish(files, folder, parts)
        await finish(files, folder, parts)
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

    @pytest.mark.parametrize("size", [5, TWO_PARTS], ids=["one part", "two parts"])
    async def test_without_all_parts_nothing_is_finished(self, files: FileBytes, size: int) -> None:
        folder, data = f"{fresh('folder')}/f1", os.urandom(size)
        upload, parts = await begin(files, folder, size)
        for part in parts[1:]:
            await upload.send(part, data)
        with pytest.raises(Missing):
            await finish(files, folder, parts)
        with pytest.raises(Missing):
            await read(files, folder, parts, 0, size)
        await upload.send(parts[0], data)
        await finish(files, folder, parts)
        assert await read(files, folder, parts, 0, size) == data

    @pytest.mark.parametrize("size", [5, TWO_PARTS], ids=["one part", "two parts"])
    async def test_a_part_that_is_sent_again_replaces_the_first(self, files: FileBytes, size: int) -> None:
        folder, first, later = f"{fresh('folder')}/f1", os.urandom(size), os.urandom(size)
        upload, parts = await begin(files, folder, size)
        for part in (*parts, *parts):
            await upload.send(part, later if part in parts[:1] else first)
        await finish(files, folder, parts)
        end = parts[0].end
        assert await read(files, folder, parts, 0, size) == later[:end] + first[end:]

    @pytest.mark.parametrize("size", [5, TWO_PARTS], ids=["one part", "two parts"])
    async def test_a_part_that_comes_after_the_end_changes_nothing(self, files: FileBytes, size: int) -> None:
        folder, first, later = f"{fresh('folder')}/f1", os.urandom(size), os.urandom(size)
        upload, parts = await begin(files, folder, size)
        for part in parts:
            await upload.send(part, first)
        await finish(files, folder, parts)
        for part in parts:
            await upload.send(part, later)
        await finish(files, folder, parts)
        assert await read(files, folder, parts, 0, size) == first

    async def test_a_file_of_another_size_is_not_finished(self, files: FileBytes) -> None:
        folder = f"{fresh('folder')}/f1"
        upload, (part,) = await begin(files, folder, 5)
        await upload.send(part, b"first")
        with pytest.raises(Missing):
            await finish(files, folder, [Part(0, 6)])


class PartsContract:
    """A store whose parts are no objects until the file is finished, and that signs how a file is shown."""

    @pytest.mark.parametrize("size", [5, TWO_PARTS], ids=["one part", "two parts"])
    async def test_a_link_says_of_what_type_the_file_is_and_how_it_is_shown(self, files: FileBytes, size: int) -> None:
        folder, data = f"{fresh('folder')}/f1", os.urandom(size)
        upload, parts = await begin(files, folder, size)
        for part in parts:
            await upload.send(part, data)
        await finish(files, folder, parts)
        shown = {"mime": "image/png", "disposition": "attachment; filename*=UTF-8''a%20b%2B%26.png"}
        url = await files.sign_read(object_of(folder, parts[0]), **shown, expires_s=60)
        async with httpx.AsyncClient(timeout=60) as http:
            answer = await http.get(url)
            refused = await http.get(url.replace("attachment", "inline"))
        assert answer.content == data
        assert (answer.headers["content-type"], answer.headers["content-disposition"]) == tuple(shown.values())
        assert refused.status_code == 403 or not self.is_strict

    is_strict = True  # the server of the tests checks signatures

    async def test_an_upload_that_is_abandoned_cannot_be_finished(self, files: FileBytes) -> None:
        folder, data = f"{fresh('folder')}/f1", os.urandom(TWO_PARTS)
        upload, parts = await begin(files, folder, TWO_PARTS)
        for part in parts:
            await upload.send(part, data)
        await files.abandon(folder)
        await files.abandon(folder)
        with pytest.raises(Missing):
            await finish(files, folder, parts)
        assert [name async for name in files.unfinished(folder.partition("/")[0])] == []

    async def test_a_part_of_another_size_is_not_taken_for_the_whole(self, files: FileBytes) -> None:
        folder, data = f"{fresh('folder')}/f1", os.urandom(TWO_PARTS)
        upload, (first, last) = await begin(files, folder, TWO_PARTS)
        await upload.send(first, data)
        await upload.send(last, data[:-1])
        with pytest.raises(Missing):
            await finish(files, folder, [first, last])
        await upload.send(last, data)
        await finish(files, folder, [first, last])
        assert await read(files, folder, [first, last], 0, TWO_PARTS) == data

    async def test_two_that_finish_at_once_finish_one_file(self, files: FileBytes) -> None:
        folder, data = f"{fresh('folder')}/f1", os.urandom(TWO_PARTS)
        upload, parts = await begin(files, folder, TWO_PARTS)
        for part in parts:
            await upload.send(part, data)
        ended = await asyncio.gather(*(finish(files, folder, parts) for _ in range(4)), return_exceptions=True)
        assert all(one is None or isinstance(one, StoreError) for one in ended) and None in ended
        await finish(files, folder, parts)
        assert await read(files, folder, parts, 0, TWO_PARTS) == data
