"""One signed PUT for each file: the way of object stores that take no parts from us, tried with an S3."""

from __future__ import annotations

import itertools

import httpx2 as httpx
import pytest

from tests.contracts.file_bytes import FileBytesContract, begin, finish
from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tidings.stores.blobs.folder_files import object_of
from tidings.stores.blobs.obstore import open_store
from tidings.stores.blobs.ports import FileBytes
from tidings.stores.blobs.signed_files import SignedFiles

_prefixes = itertools.count(1)


class TestOnePut(FileBytesContract):
    @pytest.fixture
    def files(self, s3: S3Server, s3_credentials: None) -> FileBytes:
        return SignedFiles(open_store(s3.url(f"signed/prefix{next(_prefixes)}")), {})

    async def test_a_signed_url_reads_the_object(self, files: FileBytes) -> None:
        upload, parts = await begin(files, "a/f1", 5)
        await upload.send(parts[0], b"hello")
        await finish(files, "a/f1", parts)
        url = await files.sign_read(object_of("a/f1", parts[0]), mime="", disposition="", expires_s=60)
        assert "X-Amz-Expires=60" in url
        async with httpx.AsyncClient(timeout=60) as http:
            assert (await http.get(url)).content == b"hello"

    async def test_a_large_file_is_one_part(self, files: FileBytes) -> None:
        assert len(files.parts(1 << 30)) == 1
