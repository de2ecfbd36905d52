"""Servers under test: one or several `tidings serve`, or the textbook server with a Valkey of its own, for a time.

Each listens on a free loopback port, keeps its data in a folder that goes away with it, and is stopped by its own
process id. Whoever measures asks `parts` for the process ids whose CPU counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.common import ROOT
from tidings.benchmarks.own_node import SECRET, await_ready, child, folder, free_port, is_answering, own_node
from tidings.benchmarks.people import Signed
from tidings.benchmarks.target import Target as Server
from tidings.stores.keyspace_embedded import find_binary

__all__ = ["Server", "folder", "nodes", "textbook", "tidings"]

tidings = own_node


@contextmanager
def nodes(data: Path, count: int) -> Iterator[list[Server]]:
    """Several nodes that share a Valkey and an SQLite file. Each one's parts are its own process and that Valkey."""
    with ExitStack() as stack:
        valkey_pid = stack.enter_context(_valkey(data))
        stores = {"TIDINGS_KEYSPACE": f"unix://{data / 'v.sock'}", "TIDINGS_TABLES": f"sqlite://{data / 'tidings.db'}"}
        found: list[Server] = []
        for number in range(count):
            own = data / f"node{number}"
            own.mkdir()
            server = stack.enter_context(own_node(own, **stores))
            found.append(Server(server.url, server.people, {"node": server.parts["node"], "valkey": [valkey_pid]}))
        yield found


@contextmanager
def textbook(data: Path) -> Iterator[Server]:
    """The textbook server and its Valkey."""
    port = free_port()
    words = [sys.executable, "-m", "bench.textbook", "--port", str(port), "--valkey", str(data / "v.sock")]
    url, log = f"http://127.0.0.1:{port}", data / "node.log"
    with _valkey(data) as valkey_pid, child([*words, "--data", str(data)], {}, log, ROOT) as node:
        await_ready(node, lambda: is_answering(f"{url}/readyz"), log)
        yield Server(url, Signed(SECRET), {"node": [node.pid], "valkey": [valkey_pid]})


@contextmanager
def _valkey(data: Path) -> Iterator[int]:
    """A Valkey with the persistence of the embedded one, on `v.sock` of the folder; its process id."""
    link = data / "v.sock"
    words = [str(find_binary()), "--port", "0", "--unixsocket", str(link), "--dir", str(data), "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", "everysec"]
    with child(words, {}, data / "valkey.log") as valkey:
        await_ready(valkey, link.exists, data / "valkey.log")
        yield valkey.pid
