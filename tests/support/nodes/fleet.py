"""Three nodes on shared stores behind the real haproxy, in each combination of tables and keyspace that we run on.

Clients know haproxy's port and nothing else, as outside of a test. `CELLS` is the matrix; each cell differs from the
others by two URLs only. In the cell of workers each of the three is two workers on one port.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.devices.plain_client import Client, sign
from tests.support.nodes.node_process import SECRET, NodeProcess, rest
from tests.support.nodes.worker_processes import Workers
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.haproxy import Haproxy, binary, running_haproxy
from tidings.clock import Clock
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings_proof.world.cluster import running_cluster
from tidings_proof.world.dynamodb import DynamoLocal
from tidings_proof.world.valkey import start_valkey

CELLS = ("sqlite-single", "sqlite-cluster", "dynamodb-single", "dynamodb-cluster", "sqlite-single-workers")
NODES = 3


class Fleet:
    """`people` are users that nobody else in the run has met."""

    def __init__(self, nodes: Sequence[NodeProcess], haproxy: Haproxy) -> None:
        self.nodes = nodes
        self.haproxy = haproxy
        self._numbers = itertools.count(1)

    @property
    def port(self) -> int:
        return self.haproxy.port

    def people(self, *names: str) -> list[str]:
        number = next(self._numbers)
        return [f"{name}{number}" for name in names]

    def token(self, user_id: str) -> str:
        return sign(SECRET, user_id, ttl_s=3600, now_ms=Clock().now_ms())

    def rest(self, method: str, path: str, body: Any = None, *, user_id: str) -> Any:
        """The body of an answer that is no error. A store that is too slow beside other work is asked again."""
        for _ in range(60):
            status, answer = rest(self.port, method, path, body, self.token(user_id))
            if status != 503:
                break
            time.sleep(0.5)
        assert status < 300, (status, answer)
        return answer

    def group(self, users: Sequence[str]) -> str:
        body = {"kind": "group", "members": list(users[1:]), "client_id": secrets.token_hex(8)}
        return str(self.rest("POST", "/v1/conversations", body, user_id=users[0])["conversation_id"])

    def direct(self, one: str, other: str) -> str:
        body = {"kind": "direct", "members": [other]}
        return str(self.rest("POST", "/v1/conversations", body, user_id=one)["conversation_id"])

    async def join(self, user_id: str, **fields: object) -> Client:
        return await Client(self.port, self.token(user_id)).connect(**fields)


@contextmanager
def running_fleet(cell: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Fleet]:
    """Whatever is missing here is named before anything is started."""
    tables, keyspace, *rest = cell.split("-")
    binary()
    with ExitStack() as stack:
        env = {
            "TIDINGS_TABLES": _tables(tables, request, folder),
            "TIDINGS_KEYSPACE": _keyspace(keyspace, stack, folder),
            "TIDINGS_BLOBS": f"file://{folder}/blobs",
            "TIDINGS_LIMITS_HTTP": "off",
            "TIDINGS_LIMITS_CONNECT": "off",
        }
        made = [
            Workers(folder / f"n{number}", **env) if rest else NodeProcess(folder / f"n{number}", env)
            for number in range(NODES)
        ]
        nodes = [stack.enter_context(node) for node in made]
        with ThreadPoolExecutor(NODES) as pool:
            list(pool.map(NodeProcess.start, nodes))
        haproxy = stack.enter_context(running_haproxy(folder / "h", [node.port for node in nodes]))
        yield Fleet(nodes, haproxy)


def _tables(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if kind == "sqlite":
        return f"sqlite://{folder}/shared.db"
    dynamodb: DynamoLocal = request.getfixturevalue("dynamodb")
    url = dynamodb.url(fresh_prefix())
    asyncio.run(dynamodb_adapter.create(url, Clock()))
    return url


def _keyspace(kind: str, stack: ExitStack, folder: Path) -> str:
    if kind == "cluster":
        return stack.enter_context(running_cluster(folder / "c")).url
    valkey = start_valkey(folder / "v")
    stack.callback(valkey.stop)
    return valkey.url
