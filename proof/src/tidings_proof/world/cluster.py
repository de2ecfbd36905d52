"""A real cluster on one machine: primaries on loopback ports, replicas where they are wanted, slots that move.

Each server also has a unix socket, through which it is spoken to without any code that is under test. Used by the
world of a torture run, and by tests.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess

READY_S = 60.0
NODE_TIMEOUT_MS = 2_000


def binary_of(name: str) -> Path | None:
    """Of a server of the matrix. None: it is not installed here."""
    if name == "valkey":
        return ValkeyProcess(Path(), ()).binary
    found = shutil.which("redis-server")
    return Path(found) if found else None


class Server(ValkeyProcess):
    """One server of a cluster."""

    def __init__(
        self, folder: Path, binary: Path | None = None, args: Sequence[str] = (), *, is_tls: bool = False
    ) -> None:
        self.port, self.bus_port = free_port(), free_port()
        folder.mkdir(parents=True, exist_ok=True)
        cluster = (
            *("--tls-port" if is_tls else "--port", str(self.port)),
            *("--cluster-port", str(self.bus_port), "--bind", "127.0.0.1"),
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
            *("--cluster-config-file", "nodes.conf", "--repl-diskless-sync-delay", "0"),
            *("--repl-ping-replica-period", "1"),  # a replica is listed once it has heard something
        )
        super().__init__(folder, (*cluster, *args), binary)

    def say(self, *words: str | int) -> str:
        """One command that must not be refused."""
        answer = self.command(*(str(word) for word in words)).decode()
        assert not answer.startswith("-"), (words, answer)
        return answer

    def id(self) -> str:
        return self.say("CLUSTER", "MYID").splitlines()[1]

    def info(self, section: str, name: str) -> str:
        lines = self.say("INFO", section).splitlines()
        return next(line.partition(":")[2] for line in lines if line.startswith(f"{name}:"))

    def is_whole(self, size: int) -> bool:
        """As this server sees it: everything is served, everybody is known."""
        said = self.say("CLUSTER", "INFO")
        return "cluster_state:ok" in said and f"cluster_known_nodes:{size}\r" in said

    def owner_of(self, slot: int) -> str | None:
        """The id of whoever serves a slot, as far as this server has heard."""
        for line in self.say("CLUSTER", "NODES").splitlines()[1:]:
            words = line.split()
            if _has_slot(words[8:], slot):
                return words[0]
        return None

    def meet(self, other: Server) -> None:
        self.say("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus_port)


class Cluster:
    """Three primaries share the slots evenly; `replicas` are added by the test."""

    def __init__(
        self, folder: Path, binary: Path | None = None, args: Sequence[str] = (), *, pair: Path | None = None
    ) -> None:
        """`pair`: key and certificate; then the servers speak nothing but TLS, with each other too."""
        self._folder = folder
        self._binary = binary
        self._is_tls = pair is not None
        self._args = (*args, *(_tls_args(pair) if pair else ()))
        self.servers: list[Server] = []

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"redis+cluster://{hosts}{'?tls=true' if self._is_tls else ''}"

    def start(self, size: int = 3) -> Cluster:
        for _ in range(size):
            self.add_server()
        for number, server in enumerate(self.servers):
            first, last = (16_384 * n // size for n in (number, number + 1))
            server.say("CLUSTER", "ADDSLOTSRANGE", first, last - 1)
            server.say("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                self.servers[0].meet(server)
        self.settle()
        return self

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def add_server(self) -> Server:
        """Alone, until it meets somebody."""
        folder = self._folder / str(len(self.servers))
        server = Server(folder, self._binary, self._args, is_tls=self._is_tls)
        server.start()
        self.servers.append(server)
        return server

    def add_replica(self, primary: Server) -> Server:
        """In step with its primary when this returns. It never promotes itself: a test says when."""
        replica = self.add_server()
        replica.say("CONFIG", "SET", "cluster-replica-no-failover", "yes")
        primary.meet(replica)
        wait_until(lambda: primary.id() in replica.say("CLUSTER", "NODES"))
        replica.say("CLUSTER", "REPLICATE", primary.id())
        wait_until(lambda: replica.info("replication", "master_link_status") == "up")
        self.settle()
        wait_until(lambda: all(f":{replica.port}\r" in server.say("CLUSTER", "SLOTS") for server in self.servers))
        return replica

    def settle(self) -> None:
        """Until every server that runs sees the same whole cluster."""
        wait_until(lambda: all(server.is_whole(len(self.servers)) for server in self.servers))

    def serving(self, slot: int) -> Server:
        """By the server that says so itself."""
        for server in self.servers:
            if server.owner_of(slot) == server.id():
                return server
        raise AssertionError(f"nobody serves slot {slot}")

    def begin_move(self, slot: int, to: Server) -> Server:
        """Begin to move a slot, whose keys may then be here or there; return the server that the slot leaves."""
        source = self.serving(slot)
        to.say("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id())
        source.say("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id())
        return source

    def end_move(self, slot: int, source: Server, to: Server) -> None:
        keys = [line for line in source.say("CLUSTER", "GETKEYSINSLOT", slot, 1000).splitlines()[2::2] if line]
        if keys:
            source.say("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
        for server in (to, source):
            server.say("CLUSTER", "SETSLOT", slot, "NODE", to.id())

    def agree(self, slot: int, owner: Server) -> None:
        """Until everybody has heard of a move: moves in two directions at once may leave a slot to nobody."""
        wait_until(lambda: all(server.owner_of(slot) == owner.id() for server in self.servers))

    def move(self, slots: Iterable[int], to: Server) -> None:
        for slot in slots:
            self.end_move(slot, self.begin_move(slot, to), to)
            self.agree(slot, to)


def _tls_args(pair: Path) -> tuple[str, ...]:
    files = ("--tls-cert-file", str(pair), "--tls-key-file", str(pair), "--tls-ca-cert-file", str(pair))
    return (*files, "--tls-auth-clients", "no", "--tls-cluster", "yes", "--tls-replication", "yes")


@contextmanager
def running_cluster(
    folder: Path, *, binary: Path | None = None, args: Sequence[str] = (), pair: Path | None = None
) -> Iterator[Cluster]:
    cluster = Cluster(folder, binary, args, pair=pair)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def wait_until(condition: Callable[[], bool], within_s: float = READY_S) -> None:
    clock, pause = Clock(), threading.Event()
    deadline_s = clock.monotonic_s() + within_s
    while not condition():
        assert clock.monotonic_s() < deadline_s, "not in time"
        pause.wait(0.01)


def _has_slot(ranges: Sequence[str], slot: int) -> bool:
    for each in ranges:
        first, _, last = each.partition("-")
        if first.isdigit() and int(first) <= slot <= int(last or first):
            return True
    return False
