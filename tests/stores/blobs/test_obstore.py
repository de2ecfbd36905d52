"""The contract of blobs on a folder and on S3; who may read the folder; and what a store in trouble says."""

from __future__ import annotations

import itertools
import os
import stat
from pathlib import Path

import pytest

from tests.contracts.blobs import BlobsContract, listed
from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.blobs import obstore as blobs_obstore
from tidings.stores.blobs.obstore import open_blobs
from tidings.stores.blobs.ports import Blobs
from tidings_proof.world.ports import free_port

_prefixes = itertools.count(1)


class TestFolder(BlobsContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        return open_blobs((tmp_path / "a folder").as_uri(), Clock())


class TestS3(BlobsContract):
    @pytest.fixture
    def blobs(self, s3: S3Server, s3_credentials: None) -> Blobs:
        return open_blobs(s3.url(f"some/prefix{next(_prefixes)}"), Clock())

    @pytest.mark.long  # moto takes 200 puts a second
    async def test_more_than_one_page_is_listed_completely(self, blobs: Blobs) -> None:
        await super().test_more_than_one_page_is_listed_completely(blobs)


async def test_nobody_else_may_look_into_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "blobs"
    mask = os.umask(0)
    try:
        await open_blobs(root.as_uri(), Clock()).put("one/two/object", b"text")
    finally:
        os.umask(mask)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_dir()}
    assert modes == {0o700} == {stat.S_IMODE(root.stat().st_mode)}
    assert [stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_file()] == [0o600]


async def test_a_folder_is_made_when_something_is_put_there(tmp_path: Path) -> None:
    blobs = open_blobs((tmp_path / "blobs").as_uri(), Clock())
    assert not (tmp_path / "blobs").exists()
    await blobs.put("object", b"x")
    assert (tmp_path / "blobs" / "object").read_bytes() == b"x"


def names_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def test_nothing_is_left_of_an_object_and_its_folder(tmp_path: Path) -> None:
    blobs = open_blobs(tmp_path.as_uri(), Clock())
    await blobs.put("one/object", b"x")
    await blobs.put("one/object", b"y")
    await blobs.delete("one/object")
    assert names_below(tmp_path) == [".new"]


async def test_what_a_killed_writer_left_is_cleared_when_it_is_old(tmp_path: Path) -> None:
    clock = Clock()
    blobs = open_blobs(tmp_path.as_uri(), clock)
    await blobs.put("one/object", b"x")
    old, young = tmp_path / ".new" / "old", tmp_path / ".new" / "young"
    for file, age_s in ((old, bounds.BLOBS_DEADLINE_S + 5), (young, 0)):
        file.write_bytes(b"half of a segment")
        at_s = clock.now_ms() / 1000 - age_s
        os.utime(file, (at_s, at_s))
    assert [blob.name for blob in await listed(blobs, "one")] == ["one/object"]
    assert (old.exists(), young.exists()) == (False, True)


async def test_a_writer_whose_file_was_cleared_says_so_and_may_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, link = open_blobs(tmp_path.as_uri(), Clock()), os.link

    def stopped(new: Path, path: Path) -> None:
        """For so long that somebody else took the file for a dead writer's."""
        monkeypatch.setattr(os, "link", link)
        new.unlink()
        link(new, path)

    monkeypatch.setattr(os, "link", stopped)
    with pytest.raises(Unavailable, match="blobs: "):
        await blobs.put("one/object", b"x")
    assert await blobs.put("one/object", b"x") and await blobs.get("one/object") == b"x"


@pytest.mark.parametrize("is_read_first", [False, True])
async def test_every_folder_that_was_made_is_synced_into_the_one_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read_first: bool
) -> None:
    synced: set[Path] = set()
    sync = blobs_obstore.sync

    def seen_sync(folder: Path) -> None:
        synced.add(folder)
        sync(folder)

    monkeypatch.setattr(blobs_obstore, "sync", seen_sync)
    blobs = open_blobs((tmp_path / "data" / "blobs").as_uri(), Clock())
    if is_read_first:
        await listed(blobs, "one")
    await blobs.put("one/two/object", b"x")
    below = ("data", "data/blobs", "data/blobs/one", "data/blobs/one/two")
    assert synced == {tmp_path, *(tmp_path / name for name in below)}


async def test_a_store_that_does_not_answer_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, s3_credentials: None
) -> None:
    monkeypatch.setattr(bounds, "BLOBS_RETRIES", 0)
    blobs = open_blobs(f"s3://bucket?endpoint=http://127.0.0.1:{free_port()}&region=eu-west-1", Clock())
    works = {
        "put": blobs.put("a", b"x"),
        "get": blobs.get("a"),
        "delete": blobs.delete("a"),
        "list": listed(blobs, "a"),
    }
    for op, work in works.items():
        with pytest.raises(Unavailable) as trouble:
            await work
        assert (trouble.value.store, trouble.value.op) == ("blobs", op)
        assert str(trouble.value).startswith("blobs: ") and "\n" not in str(trouble.value)


async def test_a_bucket_that_is_not_there_takes_nothing(s3: S3Server, s3_credentials: None) -> None:
    blobs = open_blobs(s3.url("x").replace("s3://tidings/", "s3://nowhere/"), Clock())
    with pytest.raises(Unavailable):
        await blobs.put("a", b"x")


@pytest.mark.parametrize("url", ["gs://bucket/prefix", "az://container/prefix?endpoint=http://127.0.0.1:1"])
def test_other_clouds_are_opened_by_their_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert open_blobs(url, Clock()) is not None
