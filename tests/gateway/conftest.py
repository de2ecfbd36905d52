"""A gateway on a free port with stand-ins behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.gateway.standins import Accounts, Directory, InboxOf, Limiter, Log, Marks, Registry, Resume, Router
from tests.gateway.wire import Wire, http
from tidings.clock import Clock
from tidings.gateway.auth import AuthSettings, hash_api_key, mint_token
from tidings.gateway.build import GatewaySettings, build_gateway
from tidings.gateway.usecases import UseCases
from tidings.model import ApiKey
from tidings.routing.hub import Hub

SECRET = "a secret of the tests, long enough for HS256"


class TestClock(Clock):
    """Real time that a test can push forward."""

    __test__ = False

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + round(self.ahead_s * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


class Gateway:
    """The server, what is behind it, and the ways in."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.clock = TestClock()
        self.hub = Hub()
        self.registry = Registry()
        self.log = Log(self.hub)
        self.accounts = Accounts()
        self.limiter = Limiter()
        self.marks = Marks()
        self.inbox = InboxOf()
        self.directory = Directory(self.accounts)
        self.resume = Resume()
        self.stores = {"tables": "up", "keyspace": "up"}
        self.counts: list[int] = []
        self.port = 0
        self.server = build_gateway(
            settings,
            self.cases(),
            self.accounts,
            self.clock,
            readiness=self._readiness,
            metrics_page=lambda: (b"tidings_connections 1\n", "text/plain; version=0.0.4"),
            on_connections=self.counts.append,
        )

    def cases(self) -> UseCases:
        behind: Any = self
        return UseCases(
            hub=self.hub,
            registry=behind.registry,
            router=Router(self.hub),
            sends=behind.log,
            rewrites=behind.log,
            directory=behind.directory,
            unread=behind.marks,
            inbox=behind.inbox,
            history=behind.log,
            receipts=behind.log,
            limiter=behind.limiter,
            resume=behind.resume,
        )

    async def _readiness(self) -> dict[str, str]:
        return self.stores

    def token(self, user_id: str = "alice", ttl_s: int = 3600) -> str:
        return mint_token(SECRET, user_id, ttl_s=ttl_s, now_ms=self.clock.now_ms())

    async def api_key(self, role: Any = "admin") -> str:
        key = f"key-of-{role}"
        await self.accounts.put_api_key(ApiKey(key_hash=hash_api_key(key), name=role, role=role, created_ms=0))
        return key

    async def wire(self, user_id: str = "alice", **fields: Any) -> Wire:
        """A connected device."""
        wire = await Wire.open(self.port)
        hello = await wire.connect(self.token(user_id), **fields)
        assert hello["type"] == "hello"
        return wire

    async def rest(
        self, method: str, path: str, body: Any = None, user_id: str = "alice", **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        named = {"Authorization": f"Bearer {self.token(user_id)}"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await http(self.port, method, path, body, named)

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not is_so():
                await asyncio.sleep(0.005)

    def later(self, seconds: float) -> None:
        """Time passes for everyone, and the sweep notices."""
        self.clock.ahead_s += seconds
        self.server.sweep()


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with opened(GatewaySettings(AuthSettings(secret=SECRET))) as made:
        yield made


class opened:
    """A gateway of these settings for the time of a block."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._gateway = Gateway(settings)

    async def __aenter__(self) -> Gateway:
        self._gateway.port = await self._gateway.server.start("127.0.0.1", 0)
        return self._gateway

    async def __aexit__(self, *exc: object) -> None:
        await self._gateway.server.stop()
