"""A whole real node for a test suite, within the test's own process and gone with it.

`async with tidings.testing.server() as node:` is the node that production runs: an embedded Valkey, SQLite and sockets,
in a temporary folder and on a free port. Nothing is faked, so what a test shows is what users will see. Several may run
at once.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

from tidings.bounds import Limit
from tidings.clock import Clock as NodeClock
from tidings.config.settings import Auth, Limits, Settings
from tidings.gateway.auth import hash_api_key
from tidings.gateway.tokens import new_bot_key
from tidings.node.node import Node, open_node
from tidings.stores.tables.values import ApiKey
from tidings_client import Client, Clock, Drafts, Server, sign_token

GENEROUS = Limit(1_000_000, 60)  # a test is no flood; the limiter is there all the same


class TestServer:
    """TestServer: a running node. It closes every client that it made."""

    __test__ = False  # not a test itself, whatever its name

    def __init__(self, node: Node, secret: str, api_key: str, stack: AsyncExitStack) -> None:
        self.node = node
        self.api_key = api_key
        self.secret = secret
        self.port = node.port
        self.url = f"http://127.0.0.1:{node.port}"
        self._stack = stack

    def token(self, user_id: str, ttl_s: int = 3600) -> str:
        """A token of the user, as the team's own backend would make it."""
        return sign_token(self.secret, user_id, ttl_s)

    async def client(
        self,
        user_id: str,
        *,
        device: str | None = None,
        drafts: Drafts | None = None,
        resume: Mapping[str, int] | None = None,
        since: int | None = None,
        clock: Clock | None = None,
    ) -> Client:
        """A connected client of the user. The options are those of Client."""
        token = self.token(user_id)
        made = Client(self.url, token, device=device, drafts=drafts, resume=resume, since=since, clock=clock)
        return await self._stack.enter_async_context(made)

    async def bot_key(self, user_id: str) -> str:
        """A key with which the user signs in as a bot."""
        clock = NodeClock()
        return await _put_key(self.node, new_bot_key(user_id, clock), "bot", clock)

    def server(self) -> Server:
        """A client for the team's own backend."""
        made = Server(self.url, self.api_key)
        self._stack.push_async_callback(made.close)
        return made


@asynccontextmanager
async def server(settings: Settings | None = None) -> AsyncIterator[TestServer]:
    """Start a node with data, port and secret of its own. Its limits are generous, unless `settings` says otherwise."""
    clock = NodeClock()
    settings = settings or Settings(limits=Limits(send=GENEROUS, connect=GENEROUS, create=GENEROUS))
    folder = Path(tempfile.mkdtemp(prefix="tidings-"))
    secret = settings.auth.secret or clock.random_id(32)
    settings = dataclasses.replace(settings, port=0, data=folder, auth=Auth(secret=secret))
    try:
        async with open_node(settings, clock) as node, AsyncExitStack() as stack:
            api_key = await _put_key(node, f"tk_{clock.random_id(32)}", "admin", clock)
            yield TestServer(node, secret, api_key, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _put_key(node: Node, key: str, role: Literal["admin", "bot"], clock: NodeClock) -> str:
    made = ApiKey(key_hash=hash_api_key(key), name="testing", role=role, created_ms=clock.now_ms())
    await node.core.tables.accounts.put_api_key(made)
    return key
