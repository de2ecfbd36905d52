"""Processes: CPU and memory that a server uses, the node and its Valkey apart.

CPU is utime+stime of every process, read as the kernel's process clocks: the same sum as in /proc/<pid>/stat, in
nanoseconds instead of ticks. Linux only; where nothing is found there, a server is measured from outside alone.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from tidings.config.values import is_loopback

Parts = dict[str, list[int]]  # "node", "valkey" and "postgresql" -> process ids
TREE = "postgresql"  # the part whose process stands for all its children, which come and go
LISTEN = "0A"  # the state in /proc/net/tcp


def cpu_s(parts: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Seconds of CPU that the processes of each part have used so far."""
    return {name: sum(map(_tree_s if name == TREE else _own_s, pids)) for name, pids in parts.items()}


def _own_s(pid: int) -> float:
    return time.clock_gettime(_clock_of(pid))


def _tree_s(pid: int) -> float:
    """A process with its children, and with those that have ended: the kernel adds them to their parent, in ticks."""
    living_s = 0.0
    for one in descendants(pid):
        with suppress(OSError):  # it ended meanwhile
            living_s += _own_s(one)
    ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    return living_s + sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pids: Sequence[int]) -> int:
    """Resident memory of processes, as the kernel counts it."""
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def _clock_of(pid: int) -> int:
    """The clock that counts a process's CPU time, in the kernel's encoding (see clock_getcpuclockid)."""
    return (~pid << 3) | 2


def descendants(pid: int) -> list[int]:
    """The process and all its children, and theirs."""
    parents = {int(entry.name): parent_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found = [pid]
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found


def parent_of(pid: int) -> int:
    """0 when it ended meanwhile."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def parts_of(pid: int) -> Parts:
    """A node by its process id: its processes, and the Valkey among them."""
    parts: Parts = {"node": [], "valkey": []}
    for one in descendants(pid):
        name = Path(f"/proc/{one}/comm").read_text()
        parts["valkey" if name.startswith("valkey") else "node"].append(one)
    return parts


def parts_behind(url: str) -> Parts:
    """The node that listens where a URL on this machine leads; nothing where it is not to be seen. A part that is
    elsewhere, such as a Valkey that is not the node's child, is left out: it would count as free."""
    where = urlsplit(url)
    if sys.platform != "linux" or not is_loopback(where.hostname or ""):
        return {}
    with suppress(OSError):  # it ended meanwhile, or is not ours to look at
        for pid in listeners(where.port or 80):
            return {name: pids for name, pids in parts_of(pid).items() if pids}
    return {}


def listeners(port: int) -> list[int]:
    """The processes that listen on a TCP port of this machine, as far as we may look."""
    wanted = {f"socket:[{inode}]" for name in ("tcp", "tcp6") for inode in _listening(Path("/proc/net", name), port)}
    found = []
    for entry in Path("/proc").iterdir() if wanted else ():
        if entry.name.isdigit():
            with suppress(OSError):
                if any(os.readlink(link) in wanted for link in (entry / "fd").iterdir()):
                    found.append(int(entry.name))
    return sorted(found)


def _listening(table: Path, port: int) -> Iterator[str]:
    """Inodes of the sockets in a table of /proc/net that listen on the port. Addresses there are in hexadecimal."""
    for line in table.read_text().splitlines()[1:] if table.exists() else ():
        fields = line.split()
        if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]
