from __future__ import annotations

import itertools

import httpx2 as httpx
import pytest

from tests.contracts.file_bytes import FileBytesContract, send
from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tidings.clock import Clock
from tidings.stores.blobs.folder_files import object_of
from tidings.stores.blobs.open_files import open_files
from tidings.stores.blobs.ports import FileBytes

_prefixes = itertools.count(1)


class TestS3(FileBytesContract):
    @pytest.fixture
    def files(self, s3: S3Server, s3_credentials: None) -> FileBytes:
        return open_files(s3.url(f"files/prefix{next(_prefixes)}"), Clock())

    async def test_a_signed_url_reads_the_object(self, files: FileBytes) -> None:
        parts = files.parts(5)
        await send(files, "a/f1", parts[0], b"hello")
        await files.finish("a/f1", parts)
        url = await files.sign_read(object_of("a/f1", parts[0]), expires_s=60)
        assert "X-Amz-Expires=60" in url
        async with httpx.AsyncClient() as http:
            assert (await http.get(url)).content == b"hello"
