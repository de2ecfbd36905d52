"""The machine: limits of the kernel, and a disk that is full, read-only, slow or far away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.doctor_targets import fill, make_read_only, named, small_disk
from tidings.clock import Clock
from tidings.operators.doctor.host import check_disk, check_kernel, check_open_files


def machine(root: Path, *, overcommit: str = "1", pages: str = "always [madvise] never", backlog: str = "4096") -> Path:
    for name, text in {
        "proc/sys/vm/overcommit_memory": overcommit,
        "proc/sys/net/core/somaxconn": backlog,
        "sys/kernel/mm/transparent_hugepage/enabled": pages,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def test_a_machine_that_is_set_up_well_has_nothing_to_complain_of(tmp_path: Path) -> None:
    findings = list(check_kernel(has_valkey=True, root=machine(tmp_path)))
    assert [finding.level for finding in findings[1:]] == ["ok", "ok", "ok"]


def test_each_limit_is_told_with_the_command_that_lifts_it(tmp_path: Path) -> None:
    root = machine(tmp_path, overcommit="0", pages="[always] madvise never", backlog="128")
    findings = list(check_kernel(has_valkey=True, root=root))
    assert named(findings, "host.overcommit").fix == "sysctl -w vm.overcommit_memory=1"
    assert named(findings, "host.huge_pages").fix.startswith("echo madvise >")
    assert named(findings, "host.backlog").fix == "sysctl -w net.core.somaxconn=4096"


def test_memory_settings_matter_only_where_valkey_runs(tmp_path: Path) -> None:
    names = {finding.name for finding in check_kernel(has_valkey=False, root=machine(tmp_path, overcommit="0"))}
    assert names == {"host.open_files", "host.backlog"}


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    findings = list(check_kernel(has_valkey=True, root=tmp_path))
    assert {finding.level for finding in findings[1:]} == {"unknown"}


def test_few_open_files_are_told() -> None:
    assert "ulimit -n" in check_open_files(1024).fix
    assert check_open_files(65_536).level == "ok"


def test_a_disk_with_room_is_timed_and_left_as_it_was(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    findings = list(check_disk(tmp_path, Clock()))
    assert "fsync takes" in named(findings, "host.write").says
    assert named(findings, "host.data").level == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_wrong_twice_over(tmp_path: Path) -> None:
    with small_disk(tmp_path / "d") as folder:
        fill(folder)
        findings = list(check_disk(folder, Clock()))
    assert named(findings, "host.disk").level == "wrong" and "is full" in named(findings, "host.disk").says
    assert "No space left" in named(findings, "host.write").says
    assert "du -xh" in named(findings, "host.disk").fix


def test_a_disk_that_is_too_small_is_not_called_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "d", "64m") as folder:
        finding = named(check_disk(folder, Clock()), "host.disk")
    assert finding.level == "wrong" and finding.says.startswith("the disk has less than 512.0 MiB: 64.0 MiB of 64.0")


def test_a_read_only_disk_is_wrong(tmp_path: Path) -> None:
    with small_disk(tmp_path / "d") as folder:
        make_read_only(folder)
        finding = named(check_disk(folder, Clock()), "host.write")
    assert finding.level == "wrong" and "Read-only" in finding.says


def test_a_folder_that_others_may_look_into_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert named(check_disk(tmp_path, Clock()), "host.data").fix == f"chmod 700 {tmp_path}"


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert named(check_disk(folder, Clock()), "host.data").level == "ok"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("kind", "is_wrong"), [("nfs4", True), ("ext4", False)])
def test_a_network_file_system_is_wrong_for_a_database(tmp_path: Path, kind: str, is_wrong: bool) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "mounts").write_text(f"/dev/sda / ext4 rw 0 0\nfar:/x {tmp_path} {kind} rw 0 0\n")
    found = [f.level for f in check_disk(tmp_path, Clock(), root=tmp_path) if f.name == "host.file_system"]
    assert found == (["wrong"] if is_wrong else [])
