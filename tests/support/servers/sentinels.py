"""A primary, a replica and three real sentinels, seen without code that is under test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from tidings.stores.keyspace.embedded import find_binary
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess, start_valkey

NAME = "mymaster"
DOWN_MS = 1_000  # a server that is silent for this long counts as down
CONF = """port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor {name} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {name} {down_ms}
sentinel failover-timeout {name} 10000
"""


class Watched:
    """The servers by port, and the ports of the sentinels."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.servers: dict[int, ValkeyProcess] = {}
        self.first = self._start_server(folder / "s0")
        self.second = self._start_server(folder / "s1", "--replicaof", "127.0.0.1", str(self.first))
        self.ports = [self._start_sentinel(folder / f"w{number}") for number in range(3)]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/{NAME}"

    def primary_port(self) -> int:
        """The port of the primary, as most sentinels name it."""
        named = [_ask(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1] for port in self.ports]
        return int(max(set(named), key=named.count))

    @property
    def primary(self) -> ValkeyProcess:
        return self.servers[self.primary_port()]

    def is_ready(self) -> bool:
        """Every sentinel knows both others and the replica, and the replica has its copy."""
        if "master_link_status:up" not in str(self.servers[self.second].ask("INFO", "replication")):
            return False
        known = [_fields(_ask(port, "SENTINEL", "MASTER", NAME)) for port in self.ports]
        return all((one[b"num-other-sentinels"], one[b"num-slaves"]) == (b"2", b"1") for one in known)

    def _start_server(self, folder: Path, *more: str) -> int:
        port = free_port()
        server = start_valkey(folder, args=["--port", str(port), "--bind", "127.0.0.1", *more])
        self._stack.callback(server.stop)
        self.servers[port] = server
        return port

    def _start_sentinel(self, folder: Path) -> int:
        port = free_port()
        folder.mkdir(parents=True)
        conf = folder / "sentinel.conf"
        conf.write_text(CONF.format(port=port, folder=folder, name=NAME, primary=self.first, down_ms=DOWN_MS))
        with (folder / "sentinel.log").open("wb") as log:
            process = subprocess.Popen([find_binary(), conf, "--sentinel"], stdin=subprocess.DEVNULL, stdout=log)
        self._stack.callback(_end, process)
        return port


@contextmanager
def running_sentinels(folder: Path) -> Iterator[Watched]:
    with ExitStack() as stack:
        yield Watched(folder, stack)


def _ask(port: int, *words: str) -> Any:
    with redis.Redis(port=port) as link:
        link.response_callbacks.clear()
        return link.execute_command(*words)


def _fields(words: Any) -> dict[bytes, bytes]:
    return words if isinstance(words, dict) else dict(zip(words[::2], words[1::2], strict=True))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
