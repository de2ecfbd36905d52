"""The folder of an embedded Valkey: whose it is, and where its socket lies."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings.errors import Unavailable
from tidings.stores.keyspace.embedded_folder import (
    DataInUse,
    ValkeyFolder,
    make_private,
    open_folder,
    running_socket,
    socket_path,
)
from tidings_proof.world.valkey import start_valkey


async def test_a_folder_has_one_owner_who_is_named_to_the_next(tmp_path: Path) -> None:
    folder = await open_folder(tmp_path / "data")
    assert running_socket(tmp_path / "data") == folder.url
    with pytest.raises(DataInUse) as caught:
        await open_folder(tmp_path / "data")
    assert f"TIDINGS_KEYSPACE={folder.url}" in str(caught.value) and caught.value.url == folder.url
    folder.release()
    assert running_socket(tmp_path / "data") is None
    (await open_folder(tmp_path / "data")).release()


async def test_looking_for_a_running_node_makes_nothing_and_disturbs_nobody(tmp_path: Path) -> None:
    assert running_socket(tmp_path / "data") is None
    assert not (tmp_path / "data").exists()
    folder = await open_folder(tmp_path / "data")
    for _ in range(3):
        assert running_socket(tmp_path / "data") == folder.url
    folder.release()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """pytest's own folders may be too long for a socket themselves."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


async def test_a_long_path_has_its_socket_in_a_private_folder_elsewhere(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    data = tmp_path / ("long" * 30)
    folder = await open_folder(data)
    assert folder.socket.parent.parent == short_folder and len(os.fsencode(folder.socket)) <= 107
    assert stat.S_IMODE(folder.socket.parent.stat().st_mode) == 0o700
    assert running_socket(data) == folder.url
    assert socket_path(data / "valkey") != socket_path(tmp_path / ("more" * 30) / "valkey")
    folder.release()
    assert not folder.socket.parent.exists()


def test_a_folder_that_is_not_really_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(Unavailable, match="not a folder of ours"):
        make_private(tmp_path / "link")


def test_an_open_folder_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    make_private(tmp_path / "open")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700


async def test_a_log_that_grew_too_long_is_set_aside_once(tmp_path: Path) -> None:
    folder = await open_folder(tmp_path)
    for text in (b"first" * 10, b"second" * 10):
        with folder.open_log() as log:
            log.write(text)
        folder.trim_log(20)
    assert folder.log_size() == 0
    assert (folder.path / "valkey.log.1").read_bytes() == b"second" * 10
    folder.release()


async def test_only_what_the_server_said_since_its_start_counts(tmp_path: Path) -> None:
    folder = await open_folder(tmp_path)
    old = b"1:M # Bad file format reading the append only file\n"
    with folder.open_log() as log:
        log.write(old + b"2:M * Valkey is starting oO\n2:M # WARNING overcommit\n")
    assert not folder.complains_of_aof()
    assert folder.last_log_lines()[-1] == "2:M # WARNING overcommit"
    with folder.open_log() as log:
        log.write(old)
    assert folder.complains_of_aof()
    folder.release()


async def test_servers_are_found_by_the_folder_they_work_in(tmp_path: Path) -> None:
    mine, other = start_valkey(tmp_path / "mine"), start_valkey(tmp_path / "other")
    try:
        assert ValkeyFolder(tmp_path / "mine", -1).workers() == [mine.pid]
    finally:
        mine.stop()
        other.stop()
    assert ValkeyFolder(tmp_path / "mine", -1).workers() == []
