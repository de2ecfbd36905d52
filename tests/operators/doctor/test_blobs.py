"""Blobs are tried before the archive does: put, read back, deleted; nothing stays, nothing is made."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tests.support.doctor_targets import fill, settings_for, small_disk
from tests.support.servers.moto_server import BUCKET, S3Server
from tests.support.servers.moto_server import s3 as s3
from tests.support.servers.moto_server import s3_credentials as s3_credentials
from tidings.clock import Clock
from tidings.operators.doctor import blobs as module
from tidings.operators.doctor.blobs import check_blobs
from tidings.stores.blobs.obstore import FolderBlobs


async def test_a_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    (tmp_path / "blobs").mkdir(mode=0o700)
    (finding,) = await check_blobs(settings, Clock())
    assert finding.level == "ok" and "read back and deleted" in finding.says
    assert [file for file in (tmp_path / "blobs").rglob("*") if file.is_file()] == []


async def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    (finding,) = await check_blobs(settings_for(tmp_path), Clock())
    assert finding.level == "ok" and os.listdir(tmp_path) == []


async def test_a_folder_on_a_full_disk_is_wrong(tmp_path: Path) -> None:
    with small_disk(tmp_path / "d") as folder:
        (folder / "blobs").mkdir()
        fill(folder)
        (finding,) = await check_blobs(settings_for(folder), Clock())
    assert finding.level == "wrong" and "No space left" in finding.says and "TIDINGS_BLOBS" in finding.fix


async def test_a_bucket_that_does_not_answer_is_wrong_and_no_secret_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.bounds.BLOBS_RETRIES", 0)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    url = "s3://bucket/prefix?endpoint=http://127.0.0.1:1&region=eu-west-1"
    (finding,) = await check_blobs(dataclasses.replace(settings_for(tmp_path), blobs=url), Clock())
    assert finding.level == "wrong" and finding.says.startswith("s3://bucket/prefix: ")
    assert "a-secret" not in finding.says + finding.fix


@pytest.mark.long
@pytest.mark.usefixtures("s3_credentials")
async def test_a_bucket_is_tried_and_a_missing_one_is_wrong(tmp_path: Path, s3: S3Server) -> None:
    settings = settings_for(tmp_path)
    (finding,) = await check_blobs(dataclasses.replace(settings, blobs=s3.url("p")), Clock())
    assert finding.level == "ok", finding.says
    url = s3.url("p").replace(f"s3://{BUCKET}/", "s3://nowhere/")
    (finding,) = await check_blobs(dataclasses.replace(settings, blobs=url), Clock())
    assert finding.level == "wrong"


async def test_a_store_that_gives_back_something_else_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(FolderBlobs):
        async def get(self, name: str) -> bytes:
            return (await super().get(name))[:-1]

    (tmp_path / "blobs").mkdir()
    monkeypatch.setattr(module, "open_blobs", lambda url, clock: Forgetful(tmp_path / "blobs", clock))
    (finding,) = await check_blobs(settings_for(tmp_path), Clock())
    assert finding.level == "wrong" and "other bytes" in finding.says
