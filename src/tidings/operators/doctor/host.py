"""Checks of the machine: the limits of the kernel, the data folder, and the time of a commit on its disk.

These calls block, so they run in a thread. The only trace is a file of 4 KiB in the data folder while the disk is
timed, and none after it. The folder itself is never made.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tidings.bounds import (
    DOCTOR_DISK_BYTES_MIN,
    DOCTOR_DISK_SHARE_MIN,
    DOCTOR_FSYNC_S,
    DOCTOR_FSYNCS,
    DOCTOR_OPEN_FILES_MIN,
)
from tidings.clock import Clock
from tidings.stores.findings import Finding, advice, human_bytes, ok, quantile, unknown, wrong

BACKLOG_MIN = 2_048  # a node asks the kernel for this; the kernel grants no more than somaxconn
_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs")
_OVERCOMMIT = "proc/sys/vm/overcommit_memory"
_HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
_BACKLOG = "proc/sys/net/core/somaxconn"


def check_kernel(*, has_valkey: bool, root: Path = Path("/")) -> Iterator[Finding]:
    """`has_valkey`: the keyspace runs on this machine too. `root`: the folder with proc and sys."""
    yield check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield _check_backlog(root / _BACKLOG)
    if has_valkey:
        yield _check_overcommit(root / _OVERCOMMIT)
        yield _check_huge_pages(root / _HUGE_PAGES)


def check_open_files(limit: int) -> Finding:
    if limit >= DOCTOR_OPEN_FILES_MIN or limit == resource.RLIM_INFINITY:
        return ok("host.open_files", f"{limit} open files")
    fix = "ulimit -n 65536, or LimitNOFILE=65536 in the systemd unit"
    return advice("host.open_files", f"{limit} open files at most, and each connection is one", fix)


def _read(file: Path) -> str | None:
    try:
        return file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _check_backlog(file: Path) -> Finding:
    found = _read(file)
    if found is None:
        return unknown("host.backlog", f"/{_BACKLOG} cannot be read here")
    if int(found) < BACKLOG_MIN:
        says = f"net.core.somaxconn is {found}: a storm of reconnects is refused by the kernel"
        return advice("host.backlog", says, f"sysctl -w net.core.somaxconn={2 * BACKLOG_MIN}")
    return ok("host.backlog", f"net.core.somaxconn is {found}")


def _check_overcommit(file: Path) -> Finding:
    found = _read(file)
    if found is None:
        return unknown("host.overcommit", f"/{_OVERCOMMIT} cannot be read here")
    if found != "1":
        says = f"vm.overcommit_memory is {found}: Valkey may fail to rewrite its AOF when half of the memory is used"
        return advice("host.overcommit", says, "sysctl -w vm.overcommit_memory=1")
    return ok("host.overcommit", "vm.overcommit_memory is 1")


def _check_huge_pages(file: Path) -> Finding:
    found = _read(file)
    if found is None:
        return unknown("host.huge_pages", f"/{_HUGE_PAGES} cannot be read here")
    if "[always]" in found:
        says = "transparent huge pages are always on: Valkey stalls and grows while it rewrites its AOF"
        return advice("host.huge_pages", says, f"echo madvise > /{_HUGE_PAGES}")
    return ok("host.huge_pages", "transparent huge pages are not forced on Valkey")


# --- the disk -------------------------------------------------------------------------------------


def check_disk(folder: Path, clock: Clock, *, root: Path = Path("/")) -> Iterator[Finding]:
    """Check the disk of the data folder, or the disk on which it would be made."""
    there = _nearest(folder)
    yield _check_space(there)
    yield from _check_file_system(there, root)
    if there != folder:
        yield ok("host.data", f"{folder} does not exist yet; the first start makes it")
        if not os.access(there, os.W_OK):
            yield wrong("host.data", f"{there} cannot be written", f"mkdir -m 700 {folder} as a user who may")
        return
    yield _check_privacy(folder)
    yield _check_writes(folder, clock)


def _nearest(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _check_space(folder: Path) -> Finding:
    disk = os.statvfs(folder)
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    says = f"{human_bytes(free)} of {human_bytes(size)} are free under {folder}"
    fix = f"free some space: du -xh {folder} | sort -h | tail; or a larger disk"
    is_nearly_full = free < DOCTOR_DISK_SHARE_MIN * size
    if free < DOCTOR_DISK_BYTES_MIN:
        room = "the disk is full" if is_nearly_full else f"the disk has less than {human_bytes(DOCTOR_DISK_BYTES_MIN)}"
        return wrong("host.disk", f"{room}: {says}", fix)
    if is_nearly_full:
        return advice("host.disk", f"the disk is nearly full: {says}", fix)
    if disk.f_files and disk.f_favail < DOCTOR_DISK_SHARE_MIN * disk.f_files:
        return advice("host.disk", f"{disk.f_favail} inodes are left under {folder}", f"df -i {folder}")
    return ok("host.disk", says)


def _check_file_system(folder: Path, root: Path) -> Iterator[Finding]:
    kind = _file_system(folder, _read(root / "proc/mounts") or "")
    if kind in _NETWORK_FILE_SYSTEMS:
        says = f"{folder} is on {kind}: SQLite's log does not work over a network, and an AOF loses what was synced"
        yield wrong("host.file_system", says, "TIDINGS_DATA on a local disk")


def _file_system(folder: Path, mounts: str) -> str:
    """The type of the longest mount point above the folder."""
    rows = [line.split()[1:3] for line in mounts.splitlines() if len(line.split()) > 2]
    above = [(place, kind) for place, kind in rows if folder.resolve().is_relative_to(place)]
    return max(above, key=lambda row: len(row[0]), default=("", ""))[1]


def _check_privacy(folder: Path) -> Finding:
    mode = folder.stat().st_mode & 0o777
    if mode & 0o077:
        return advice("host.data", f"{folder} has mode {mode:o}: other users can read it", f"chmod 700 {folder}")
    return ok("host.data", f"{folder} is readable by its owner only")


def _check_writes(folder: Path, clock: Clock) -> Finding:
    """Measure the time of a commit: write, sync, remove."""
    probe = folder / f".doctor.{clock.random_id(6)}"
    try:
        times_s = list(_timed_writes(probe, clock))
    except OSError as error:
        why = error.strerror or str(error)
        fix = f"df -h {folder}; ls -ld {folder}; mount | grep ' ro[,)]'"
        return wrong("host.write", f"{folder} cannot be written: {why}", fix)
    finally:
        with suppress(OSError):
            probe.unlink()
    p50_ms, p99_ms = (1000 * quantile(times_s, share) for share in (0.5, 0.99))
    says = f"a write with fsync takes {p50_ms:.1f} ms (p99 {p99_ms:.1f} ms) in {folder}"
    if p99_ms > 1000 * DOCTOR_FSYNC_S:
        return advice("host.write", f"the disk is slow: {says}", "TIDINGS_DATA on a disk with a write cache (SSD)")
    return ok("host.write", says)


def _timed_writes(probe: Path, clock: Clock) -> Iterator[float]:
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for _ in range(DOCTOR_FSYNCS):
            began_s = clock.monotonic_s()
            os.write(descriptor, b"\0" * 4096)
            os.fsync(descriptor)
            yield clock.monotonic_s() - began_s
    finally:
        os.close(descriptor)
