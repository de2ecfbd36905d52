"""A gateway on a free port with stand-ins behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.support.clocks import AheadClock
from tests.support.gateway.raw_websocket import Wire, http
from tests.support.gateway.standins import (
    Accounts,
    Blocks,
    Consent,
    Directory,
    InboxOf,
    Kept,
    Limiter,
    LiveStatus,
    Log,
    Marks,
    Notify,
    OverrideRows,
    People,
    Reactions,
    Registry,
    Resume,
    Router,
    Search,
    ThreadsOf,
)
from tidings.config.settings import Auth, Settings
from tidings.gateway.auth import hash_api_key
from tidings.gateway.dispatch import UseCases
from tidings.gateway.tokens import mint_token
from tidings.messaging.limits.overrides import Overrides
from tidings.messaging.limits.policy import Limits
from tidings.node.gateway import build_connections, build_server
from tidings.routing.hub import Hub
from tidings.stores.tables.values import ApiKey

SECRET = "a secret of the tests, long enough for HS256"


class Gateway:
    """The server, what is behind it, and the ways in."""

    def __init__(self, settings: Settings) -> None:
        self.clock = AheadClock()
        self.hub = Hub()
        self.registry = Registry()
        self.log = Log(self.hub)
        self.accounts = Accounts()
        self.limiter = Limiter()
        self.marks = Marks()
        self.threads = ThreadsOf()
        self.inbox = InboxOf()
        self.directory = Directory(self.accounts)
        self.blocks = Blocks()
        self.reactions = Reactions()
        self.consent = Consent()
        self.people = People()
        self.search = Search()
        self.resume = Resume()
        self.router = Router(self.hub)
        self.live_status = LiveStatus()
        self.notify = Notify()
        self.kept = Kept()
        self.overrides = OverrideRows()
        self.stores = {"tables": "up", "keyspace": "up"}
        self.counts: list[int] = []
        self.port = 0
        cases = self.cases()
        auth, connections = build_connections(settings, cases, self.accounts, self.clock, self.counts.append)
        self.server = build_server(
            settings,
            cases,
            self.accounts,
            auth,
            connections,
            self.clock,
            readiness=self._readiness,
            metrics_page=self._metrics_page,
            signed_in_on_page=lambda user_id: None,
        )

    async def _metrics_page(self) -> tuple[bytes, str]:
        return b"tidings_connections 1\n", "text/plain; version=0.0.4"

    def cases(self) -> UseCases:
        """The stand-ins have the methods that the gateway calls, and no others."""
        behind: Any = self
        return UseCases(
            hub=self.hub,
            registry=behind.registry,
            router=behind.router,
            sends=behind.log,
            rewrites=behind.log,
            reactions=behind.reactions,
            reactors=behind.reactions,
            directory=behind.directory,
            rules=behind.directory,
            blocks=behind.blocks,
            consent=behind.consent,
            people=behind.people,
            search=behind.search,
            unread=behind.marks,
            threads=behind.threads,
            inbox=behind.inbox,
            flags=behind.inbox,
            history=behind.log,
            streams=behind.log,
            receipts=behind.log,
            resume=behind.resume,
            live_status=behind.live_status,
            notify=behind.notify,
            limiter=behind.limiter,
            overrides=Overrides(self.overrides, Limits({}), self.clock, lambda: None),
            audit=behind.kept,
            activity=behind.kept,
        )

    async def _readiness(self) -> dict[str, str]:
        return self.stores

    def token(self, user_id: str = "alice", ttl_s: int = 3600) -> str:
        return mint_token(Auth(secret=SECRET), user_id, ttl_s=ttl_s, now_ms=self.clock.now_ms())

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
        async with asyncio.timeout(60):
            while not is_so():
                await asyncio.sleep(0.005)

    def later(self, seconds: float) -> None:
        """Time passes for everyone, and the sweep notices."""
        self.clock.ahead_s += seconds
        self.server.sweep()


class opened:
    """A gateway for the time of a block."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._gateway = Gateway(settings or Settings(auth=Auth(secret=SECRET)))

    async def __aenter__(self) -> Gateway:
        self._gateway.port = await self._gateway.server.start("127.0.0.1", 0)
        return self._gateway

    async def __aexit__(self, *exc: object) -> None:
        await self._gateway.server.stop()
