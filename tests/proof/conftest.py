"""What the tests of torture share: a history, people on a node of this process, and a world without nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.devices.plain_client import token_for
from tidings.clock import Clock, Dice
from tidings.node.node import Node
from tidings_proof.judge.history import History
from tidings_proof.people.workload import Workload
from tidings_proof.world.proxy import Proxy

Gather = Callable[[], Awaitable[Workload]]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "history.jsonl", Clock())
    yield made
    made.close()


@pytest.fixture
async def front(node: Node) -> AsyncIterator[Proxy]:
    """The way to the node, which can be cut."""
    proxy = Proxy(node.port)
    await proxy.open()
    yield proxy
    await proxy.close()


@pytest.fixture
async def people(node: Node, front: Proxy, history: History) -> AsyncIterator[Workload]:
    """Four users with their devices, connected and doing nothing by themselves."""
    async with AsyncExitStack() as stack:
        made = Workload(
            lambda: [front.port], lambda user_id: token_for(node, user_id), history, Dice("people"), users=4
        )
        await made.gather()
        made.is_open = False
        made.start()
        stack.push_async_callback(made.stop)
        yield made
