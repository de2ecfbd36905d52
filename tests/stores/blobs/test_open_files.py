from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers.moto_server import CREDENTIALS
from tidings.clock import Clock
from tidings.stores.blobs.folder_files import FolderFiles
from tidings.stores.blobs.open_files import open_files
from tidings.stores.blobs.signed_files import SignedFiles


def test_the_scheme_of_the_url_picks_the_way_of_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    assert isinstance(open_files(tmp_path.as_uri(), Clock()), FolderFiles)
    assert list(tmp_path.iterdir()) == []
    assert isinstance(open_files("s3://bucket/prefix?region=eu-west-1", Clock()), SignedFiles)
