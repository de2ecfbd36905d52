from __future__ import annotations

import errno
import io
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.file_bytes import FileBytesContract, begin
from tidings.bounds import FILE_PART_BYTES, FILE_PARTS_MAX
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.blobs.folder_files import FolderFiles, parts_of
from tidings.stores.blobs.ports import BadSize, FileBytes, Part


class TestFolder(FileBytesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> FileBytes:
        return FolderFiles(tmp_path / "a folder", Clock())


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_part_of_another_size_leaves_nothing(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path, Clock())

    async def chunks(*given: bytes) -> AsyncIterator[bytes]:
        for chunk in given:
            yield chunk

    for given in ((b"1234",), (b"123", b"456"), ()):
        with pytest.raises(BadSize):
            await files.write("f1", Part(0, 5), chunks(*given))
    assert files_below(tmp_path) == []


async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path, Clock())

    async def chunks() -> AsyncIterator[bytes]:
        yield b"123"
        raise ConnectionResetError

    with pytest.raises(Exception):  # noqa: B017 - whatever breaks off
        await files.write("f1", Part(0, 5), chunks())
    assert files_below(tmp_path) == []


class NearlyFull(io.FileIO):
    """A file of a disk that takes three bytes at a time, and no more than `room`."""

    room = 1_000

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "no space left on device")
        taken = super().write(memoryview(data)[: min(3, self.room)])
        self.room -= taken
        return taken


async def test_a_part_that_the_disk_takes_piece_by_piece_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FolderFiles(tmp_path, Clock())
    monkeypatch.setattr("tidings.stores.blobs.folder_files._create", lambda new: NearlyFull(new, "xb"))
    (tmp_path / ".new").mkdir()
    upload, (part,) = await begin(files, "f1", 5)
    await upload.send(part, b"hello")
    await files.finish("f1", [part], "")
    assert b"".join([chunk async for chunk in files.read("f1", [part], 0, 5)]) == b"hello"


async def test_a_part_that_the_disk_takes_the_beginning_of_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FolderFiles(tmp_path, Clock())
    monkeypatch.setattr("tidings.stores.blobs.folder_files._create", lambda new: NearlyFull(new, "xb"))
    monkeypatch.setattr(NearlyFull, "room", 4)
    (tmp_path / ".new").mkdir()
    upload, (part,) = await begin(files, "f1", 5)
    with pytest.raises(Unavailable):
        await upload.send(part, b"hello")
    assert files_below(tmp_path) == []


async def test_nobody_else_may_read_a_part(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "blobs", Clock())
    upload, (part,) = await begin(files, "a/f1", 5)
    await upload.send(part, b"hello")
    paths = list((tmp_path / "blobs").rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o700}


def test_a_large_file_has_larger_parts_and_not_more_of_them() -> None:
    assert parts_of(FILE_PART_BYTES + 1) == [Part(0, FILE_PART_BYTES), Part(FILE_PART_BYTES, FILE_PART_BYTES + 1)]
    parts = parts_of(10 * FILE_PARTS_MAX * FILE_PART_BYTES + 7)
    assert len(parts) == FILE_PARTS_MAX and parts[-1].end == 10 * FILE_PARTS_MAX * FILE_PART_BYTES + 7
