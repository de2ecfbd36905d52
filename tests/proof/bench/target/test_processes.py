"""What processes use, as the kernel says."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from tidings_proof.bench.target.processes import (
    TREE,
    cpu_s,
    descendants,
    listeners,
    parts_behind,
    parts_of,
    rss_bytes,
)
from tidings_proof.bench.target.target import Target


def test_cpu_is_what_proc_says_in_finer_units() -> None:
    until_s = time.process_time() + 0.05
    while time.process_time() < until_s:
        pass
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    ticks_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    read_s = cpu_s({"node": [os.getpid()], "valkey": []})
    assert read_s["valkey"] == 0
    assert abs(read_s["node"] - ticks_s) < 0.1
    assert read_s["node"] >= 0.05


def test_children_of_a_process_are_found() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= set(descendants(os.getpid()))
        assert child.stdin is not None
        child.stdin.write(b"\n")


def test_the_cpu_of_a_tree_has_children_that_live_and_children_that_have_ended() -> None:
    work = "import time\nwhile time.process_time() < 0.15: pass"
    waits = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}])\nprint(1, flush=True)\ninput()"
    words = [sys.executable, "-c", waits]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        own_s, tree_s = cpu_s({"node": [child.pid], TREE: [child.pid]}).values()
        assert tree_s - own_s >= 0.05
        above_s = cpu_s({TREE: [os.getpid()]})[TREE]
        assert above_s >= own_s
        child.stdin.write(b"\n")


def test_resident_memory_is_what_the_kernel_says() -> None:
    before = rss_bytes([os.getpid()])
    size = 20 * 1024 * 1024
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:  # the heap may have free pages
        kept.write(b"x" * size)
        assert rss_bytes([os.getpid()]) - before >= size * 0.9


def test_a_node_is_found_by_the_port_it_listens_on(target: Target) -> None:
    assert parts_behind(target.url) == target.parts


def test_whoever_listens_is_found_until_it_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert listeners(port) == [os.getpid()]
        assert "valkey" not in parts_behind(f"http://127.0.0.1:{port}") or parts_of(os.getpid())["valkey"]
    assert parts_behind(f"http://127.0.0.1:{port}") == {}


def test_a_server_elsewhere_has_no_parts() -> None:
    assert parts_behind("http://tidings.example:8000") == {}


def test_the_parts_of_a_process_without_a_valkey_are_all_the_node() -> None:
    parts = parts_of(os.getpid())
    assert os.getpid() in parts["node"]
