from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers.azurite import CREDENTIALS as AZURE
from tests.support.servers.moto_server import CREDENTIALS as S3
from tests.support.servers.moto_server import GOOGLE_CREDENTIALS as GOOGLE
from tidings.clock import Clock
from tidings.stores.blobs.azure_files import AzureFiles
from tidings.stores.blobs.folder_files import FolderFiles
from tidings.stores.blobs.open_files import open_files
from tidings.stores.blobs.s3_files import S3Files
from tidings.stores.blobs.signed_files import SignedFiles


def test_the_scheme_of_the_url_picks_the_way_of_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**S3, **AZURE}.items():
        monkeypatch.setenv(name, value)
    assert isinstance(open_files(tmp_path.as_uri(), Clock()), FolderFiles)
    assert list(tmp_path.iterdir()) == []
    assert isinstance(open_files("s3://bucket/prefix?region=eu-west-1", Clock()), S3Files)
    assert isinstance(open_files("az://container/prefix", Clock()), AzureFiles)
    assert type(open_files("gs://bucket/prefix", Clock())) is SignedFiles
    for name, value in GOOGLE.items():
        monkeypatch.setenv(name, value)
    assert isinstance(open_files("gs://bucket/prefix", Clock()), S3Files)


async def test_google_is_asked_at_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in GOOGLE.items():
        monkeypatch.setenv(name, value)
    assert await open_files("gs://bucket/prefix", Clock()).origin() == "https://storage.googleapis.com"


def test_s3_without_keys_that_can_be_read_gets_one_put_for_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.stores.blobs.open_files.open_any_keys", lambda region, clock: None)
    assert type(open_files("s3://bucket/prefix?region=eu-west-1", Clock())) is SignedFiles
