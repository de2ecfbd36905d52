from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.contracts.file_bytes import TWO_PARTS, FileBytesContract, PartsContract, begin, finish, read
from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import google_credentials as google_credentials
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tests.support.servers.store_front import StoreFront, fronted
from tidings.clock import Clock
from tidings.errors import Missing
from tidings.stores.blobs.folder_files import object_of
from tidings.stores.blobs.obstore import open_blobs
from tidings.stores.blobs.open_files import open_files
from tidings.stores.blobs.ports import FileBytes, Part
from tidings.stores.blobs.s3_files import S3Files

_prefixes = itertools.count(1)


class TestS3(FileBytesContract, PartsContract):
    is_strict = False

    @pytest.fixture
    def files(self, s3: S3Server, s3_credentials: None) -> FileBytes:
        return open_files(s3.url(f"parts/prefix{next(_prefixes)}"), Clock())

    async def test_the_url_of_a_part_binds_its_number_and_its_length(self, files: FileBytes) -> None:
        parts = files.parts(TWO_PARTS)
        signed = await files.sign_parts("a/f1", parts, "text/plain", expires_s=60)
        asked = [parse_qs(urlsplit(one.url).query) for one in signed]
        assert [one["partNumber"] for one in asked] == [["1"], ["2"]]
        assert {tuple(one["X-Amz-SignedHeaders"]) for one in asked} == {("content-length;host",)}
        assert len({one["uploadId"][0] for one in asked}) == 1

    async def test_uploads_under_way_are_listed_by_their_folder(self, files: FileBytes) -> None:
        names = [object_of(f"b/c/f{number}", files.parts(1)[0]) for number in range(3)]
        for name in names:
            await begin(files, name.rpartition("/")[0], TWO_PARTS)
        await begin(files, "b/other/f1", TWO_PARTS)
        assert sorted([name async for name in files.unfinished("b/c")]) == names
        await files.abandon("b/c/f1")
        assert sorted([name async for name in files.unfinished("b/c")]) == [names[0], names[2]]

    async def test_an_upload_that_was_begun_twice_is_finished_once(self, files: FileBytes) -> None:
        """The answer to the first beginning was lost."""
        data = os.urandom(TWO_PARTS)
        lost, parts = await begin(files, "a/f1", TWO_PARTS)
        await lost.send(parts[0], os.urandom(TWO_PARTS))
        upload, _ = await begin(files, "a/f1", TWO_PARTS)
        for part in parts:
            await upload.send(part, data)
        await finish(files, "a/f1", parts)
        assert await read(files, "a/f1", parts, 0, TWO_PARTS) == data
        await files.abandon("a/f1")
        assert [name async for name in files.unfinished("a")] == []


class TestGoogle(PartsContract):
    """Google's store, in S3's protocol. What Google does not take is refused on the way."""

    is_strict = False

    @pytest.fixture
    async def url(self, s3: S3Server, google_credentials: None) -> AsyncIterator[str]:
        async with fronted(s3, s3.google_url(f"google/prefix{next(_prefixes)}"), StoreFront) as front:
            yield front.url

    @pytest.fixture
    def files(self, url: str) -> FileBytes:
        return open_files(url, Clock())

    async def test_an_empty_file_and_one_that_the_server_stores_are_whole(self, files: FileBytes) -> None:
        upload, parts = await begin(files, "a/f1", 0)
        assert await upload.send(parts[0], b"") == 200
        await finish(files, "a/f1", parts)
        await files.put("a/f2", TWO_PARTS, halves(os.urandom(TWO_PARTS)))
        assert await read(files, "a/f1", parts, 0, 0) == b""
        assert len(await read(files, "a/f2", [Part(0, TWO_PARTS)], 0, TWO_PARTS)) == TWO_PARTS

    async def test_uploads_that_nobody_finished_are_listed_and_go(self, files: FileBytes) -> None:
        await begin(files, "b/f1", 5)
        assert [name async for name in files.unfinished("b")] == [f"b/f1/{0:016d}"]
        await files.abandon("b/f1")
        assert [name async for name in files.unfinished("b")] == []

    async def test_old_texts_are_put_twice_read_listed_and_deleted(self, url: str) -> None:
        blobs = open_blobs(url, Clock())
        for _ in range(2):
            await blobs.put("c/one", b"text")
        assert await blobs.get("c/one") == b"text"
        assert [blob.name async for chunk in blobs.list("c") for blob in chunk] == ["c/one"]
        for _ in range(2):
            await blobs.delete("c/one")
        with pytest.raises(Missing):
            await blobs.get("c/one")

    async def test_only_the_key_for_google_signs(self, files: FileBytes) -> None:
        (signed,) = await files.sign_parts("a/f1", files.parts(5), "text/plain", expires_s=60)
        read = await files.sign_read("a/f1/0", mime="text/plain", disposition="inline", expires_s=60)
        for url in (signed.url, read):
            (credential,) = parse_qs(urlsplit(url).query)["X-Amz-Credential"]
            assert credential.split("/")[::2] == ["of-the-tests", "auto", "aws4_request"]
            assert "X-Amz-Security-Token" not in url and "&X-Amz-Expires=60&" in url


async def halves(data: bytes) -> AsyncIterator[bytes]:
    yield data[: len(data) // 2]
    yield data[len(data) // 2 :]


async def test_a_bucket_without_a_prefix_lists_its_uploads(s3: S3Server, s3_credentials: None) -> None:
    files = open_files(s3.url(""), Clock())
    assert isinstance(files, S3Files)
    folder = f"bare{next(_prefixes)}"
    await begin(files, f"{folder}/f1", TWO_PARTS)
    assert [name async for name in files.unfinished(folder)] == [f"{folder}/f1/{0:016d}"]
