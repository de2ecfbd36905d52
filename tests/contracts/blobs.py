"""What every adapter of the Blobs port must do. The fixture `blobs` is the adapter."""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts import fresh
from tidings.clock import Clock
from tidings.errors import Missing
from tidings.stores.blobs.ports import Blob, Blobs


async def listed(blobs: Blobs, folder: str) -> list[Blob]:
    found = [blob async for chunk in blobs.list(folder) for blob in chunk]
    return sorted(found, key=lambda blob: blob.name)


class BlobsContract:
    @pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 4_000], ids=["nothing", "a byte", "a megabyte"])
    async def test_what_was_put_is_read_back_byte_for_byte(self, blobs: Blobs, data: bytes) -> None:
        name = f"{fresh('folder')}/a@b/c=d/1-2.3.abc"
        assert await blobs.put(name, data)
        assert await blobs.get(name) == data

    async def test_a_name_is_put_once(self, blobs: Blobs) -> None:
        name = f"{fresh('folder')}/object"
        assert await blobs.put(name, b"first")
        assert not await blobs.put(name, b"second")
        assert await blobs.get(name) == b"first"

    async def test_of_many_who_put_one_name_at_once_one_wins(self, blobs: Blobs) -> None:
        name = f"{fresh('folder')}/object"
        wins = await asyncio.gather(*(blobs.put(name, b"%d" % number) for number in range(8)))
        assert wins.count(True) == 1
        assert await blobs.get(name) == b"%d" % wins.index(True)

    async def test_what_is_not_there_is_missing(self, blobs: Blobs) -> None:
        name = f"{fresh('folder')}/object"
        with pytest.raises(Missing):
            await blobs.get(name)
        await blobs.put(name, b"x")
        with pytest.raises(Missing):
            await blobs.get(name + "-other")

    async def test_what_was_deleted_is_gone_and_may_be_put_again(self, blobs: Blobs) -> None:
        name = f"{fresh('folder')}/object"
        await blobs.put(name, b"first")
        for _ in range(2):
            await blobs.delete(name)
        with pytest.raises(Missing):
            await blobs.get(name)
        assert await blobs.put(name, b"second")
        assert await blobs.get(name) == b"second"

    async def test_a_folder_is_listed_with_all_below_it_and_nothing_else(self, blobs: Blobs) -> None:
        folder, before_ms = fresh("folder"), Clock().now_ms()
        names = [f"{folder}/one", f"{folder}/two/three", f"{folder}/two/four"]
        for name in (*names, f"{folder}-beside/one"):
            await blobs.put(name, b"four")
        found = await listed(blobs, folder)
        assert [blob.name for blob in found] == sorted(names)
        assert {blob.size_bytes for blob in found} == {4}
        assert all(abs(blob.modified_ms - before_ms) < 60_000 for blob in found)
        assert [blob.name for blob in await listed(blobs, f"{folder}/two")] == sorted(names[1:])
        assert await listed(blobs, fresh("folder")) == []

    async def test_more_than_one_page_is_listed_completely(self, blobs: Blobs) -> None:
        folder = fresh("folder")
        await asyncio.gather(*(blobs.put(f"{folder}/{number % 7}/{number}", b"x") for number in range(1_100)))
        assert len({blob.name for blob in await listed(blobs, folder)}) == 1_100
