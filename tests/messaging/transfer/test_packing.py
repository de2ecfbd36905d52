"""Packing: a folder that only its owner reads, and a zip that is made piece by piece."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidings.errors import BadRequest
from tidings.messaging.transfer.exporting import Piece
from tidings.messaging.transfer.packing import to_folder, to_zip


async def chunks(*data: bytes) -> AsyncIterator[bytes]:
    for one in data:
        yield one


async def pieces() -> AsyncIterator[Piece]:
    yield Piece("export.jsonl", chunks(b"a\n" * 50_000, b"b\n"))
    yield Piece("files/f1", chunks(b""))
    yield Piece("manifest.json", chunks(b"{}"))


async def test_a_folder_has_a_file_for_each_piece(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert await to_folder(pieces(), folder) == 100_004
    assert (folder / "files" / "f1").read_bytes() == b""
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*")} == {0}
    with pytest.raises(BadRequest, match="new folder"):
        await to_folder(pieces(), folder)


async def test_a_zip_is_whole_though_it_was_never_in_one_place() -> None:
    made = b"".join([chunk async for chunk in to_zip(pieces())])
    with zipfile.ZipFile(io.BytesIO(made)) as packed:
        assert packed.testzip() is None
        assert packed.namelist() == ["export.jsonl", "files/f1", "manifest.json"]
        assert packed.read("export.jsonl") == b"a\n" * 50_000 + b"b\n"
