from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import httpx2 as httpx
import pytest

from tests.contracts.file_bytes import TWO_PARTS, FileBytesContract, PartsContract, finish
from tests.support.servers.azurite import Azurite
from tests.support.servers.azurite import azure_credentials as azure_credentials
from tests.support.servers.azurite import azurite as azurite
from tidings.clock import Clock
from tidings.errors import Missing
from tidings.stores.blobs.azure_files import AzureFiles, block_id
from tidings.stores.blobs.open_files import open_files
from tidings.stores.blobs.ports import FileBytes, Part

_prefixes = itertools.count(1)


class TestAzure(FileBytesContract, PartsContract):
    @pytest.fixture
    def files(self, azurite: Azurite, azure_credentials: None) -> FileBytes:
        files = open_files(azurite.url(f"prefix{next(_prefixes)}"), Clock())
        assert isinstance(files, AzureFiles)
        return files

    async def test_a_url_that_was_changed_is_refused(self, files: FileBytes) -> None:
        parts = files.parts(TWO_PARTS)
        signed = await files.sign_parts("a/f1", parts, "text/plain", expires_s=60)
        async with httpx.AsyncClient(timeout=60) as http:
            elsewhere = signed[0].url.replace("a/f1.new", "a/f2.new")
            assert (await http.put(elsewhere, content=b"x")).status_code == 403

    async def test_without_the_key_of_the_account_a_link_is_the_librarys(
        self, azurite: Azurite, azure_credentials: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as hidden:
            hidden.setattr("tidings.stores.blobs.azure_files._KEYS", ())
            files = open_files(azurite.url("keyless"), Clock())
        await files.put("a/f1", 5, one_chunk(b"hello"))
        url = await files.sign_read("a/f1/0000000000000000", mime="image/png", disposition="inline", expires_s=60)
        async with httpx.AsyncClient(timeout=60) as http:
            assert ((await http.get(url)).content, "rscd" in url) == (b"hello", False)

    async def test_an_upload_that_nobody_began_is_not_finished(self, files: FileBytes) -> None:
        with pytest.raises(Missing):
            await finish(files, "a/nothing", files.parts(TWO_PARTS))


async def one_chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data


def test_the_blocks_of_a_file_have_names_of_one_length() -> None:
    assert len({len(block_id(Part(start, start + 1))) for start in (0, 5, 10**15)}) == 1
