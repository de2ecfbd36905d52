"""Servers under test: several nodes on shared stores, or the textbook server with a Valkey of its own.

Each server listens on a free loopback port, keeps its data in a folder that goes away with it, and is stopped by its
process id. `parts` has the process ids whose CPU counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tidings.stores.keyspace.embedded import find_binary
from tidings_proof.bench.load.people import Signed
from tidings_proof.bench.target.own_node import SECRET, await_ready, child, is_answering, own_node
from tidings_proof.bench.target.target import Target
from tidings_proof.world.ports import free_port


@contextmanager
def nodes(data: Path, count: int, **settings: str) -> Iterator[list[Target]]:
    """Several nodes that share a Valkey and an SQLite file. Each one's parts are its own process and that Valkey."""
    with ExitStack() as stack:
        valkey_pid = stack.enter_context(_valkey(data))
        stores = {"TIDINGS_KEYSPACE": f"unix://{data / 'v.sock'}", "TIDINGS_TABLES": f"sqlite://{data / 'tidings.db'}"}
        found: list[Target] = []
        for number in range(count):
            own = data / f"node{number}"
            own.mkdir()
            server = stack.enter_context(own_node(own, **stores, **settings))
            found.append(Target(server.url, server.people, {"node": server.parts["node"], "valkey": [valkey_pid]}))
        yield found


@contextmanager
def textbook(data: Path, seed: Callable[[Path], None] = lambda data: None) -> Iterator[Target]:
    """The textbook server and its Valkey, which `seed` finds running."""
    port = free_port()
    words = [sys.executable, "-m", "tidings_proof.bench.target.textbook", "--port", str(port)]
    words += ["--valkey", str(data / "v.sock"), "--data", str(data)]
    url, log = f"http://127.0.0.1:{port}", data / "node.log"
    with _valkey(data) as valkey_pid:
        seed(data)
        with child(words, {"TEXTBOOK_SECRET": SECRET}, log) as node:
            await_ready(node, lambda: is_answering(f"{url}/readyz"), log)
            yield Target(url, Signed(SECRET), {"node": [node.pid], "valkey": [valkey_pid]})


@contextmanager
def _valkey(data: Path) -> Iterator[int]:
    """A Valkey with the persistence of the embedded one, on `v.sock` of the folder; its process id."""
    link = data / "v.sock"
    words = [str(find_binary()), "--port", "0", "--unixsocket", str(link), "--dir", str(data), "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", "everysec"]
    with child(words, {}, data / "valkey.log") as valkey:
        await_ready(valkey, link.exists, data / "valkey.log")
        yield valkey.pid
