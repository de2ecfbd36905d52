"""A node that listens: the gateway on top of the core, from the first byte to SIGTERM; and what CLI verbs do.

`open_node` is an async context, so the command line, tests and benchmarks run the very same thing.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from tidings.bounds import CLOCK_OFF_S_MAX, CLOCKS_APART_S, DRAIN_S, READY_S
from tidings.clock import Clock
from tidings.config import Settings
from tidings.config_values import SettingsError
from tidings.errors import StoreError, Unavailable
from tidings.gateway.auth import AuthSettings
from tidings.gateway.build import GatewaySettings, build_gateway
from tidings.gateway.http_devices import DeviceRoutes
from tidings.gateway.routes import Route
from tidings.gateway.server import GatewayServer, loop_factory
from tidings.gateway.usecases import UseCases
from tidings.messaging.verify import Report as UnreadReport
from tidings.opening import open_tables, require_tables, sqlite_path
from tidings.stores.calls import plain
from tidings.telemetry import Metrics
from tidings.wiring import Core, open_core
from tidings.wiring_admin import Admin

log = logging.getLogger("tidings.node")
T = TypeVar("T")


@dataclass(frozen=True)
class Node:
    """A node that listens."""

    core: Core
    gateway: GatewayServer
    port: int


@asynccontextmanager
async def open_node(
    settings: Settings, clock: Clock | None = None, sources: Mapping[str, str] | None = None
) -> AsyncIterator[Node]:
    """Starts, listens; leaving drains and stops it. `sources`: where each setting came from, for the admin page."""
    async with open_core(settings, clock) as core:
        admin = Admin(core, sources)
        gateway = _gateway(core, admin)
        admin.is_draining = lambda: gateway.is_draining
        core.router.on_revoked = gateway.forget_user
        core.tending.on_missed = gateway.recheck
        await _bury_predecessor(core)
        await _check_clock(core)
        await core.tending.start()
        await core.limiting.start()
        core.due.start()
        core.notify.start()
        core.cold.archiving.start()
        admin.samples.start()
        try:
            port = await _listen(gateway, settings)
            yield Node(core, gateway, port)
        finally:
            await _leave(core, gateway, admin)


async def _bury_predecessor(core: Core) -> None:
    """Who owned the embedded Valkey before us is dead, for we hold its folder: nobody needs to wait for its lease."""
    if core.settings.keyspace == "embedded":
        note = core.settings.data / "node.id"
        if note.exists():
            await core.registry.bury(note.read_text("utf-8").strip())
        note.touch(mode=0o600)
        note.write_text(core.node_id, "utf-8")


async def _check_clock(core: Core) -> None:
    """Leases are compared by the nodes' own clocks: one that is far off would take live nodes for dead, and they it. It
    is told, not refused: a node that is alone serves as well with a wrong clock."""
    if core.settings.keyspace == "embedded":
        return  # the clock is the same
    before_ms = core.clock.now_ms()
    seconds, micros = await core.keyspace.one(plain(core.keys.nodes, b"TIME"))
    off_s = (before_ms + core.clock.now_ms()) / 2000 - int(seconds) - int(micros) / 1e6
    says = f"this machine's clock is {abs(off_s):.1f} s {'ahead of' if off_s > 0 else 'behind'} the keyspace's"
    if abs(off_s) > CLOCK_OFF_S_MAX:
        log.error("%s: several nodes would take each other for dead; set both by NTP", says)
    elif abs(off_s) > CLOCKS_APART_S:
        log.warning("%s; set both by NTP", says)


async def _listen(gateway: GatewayServer, settings: Settings) -> int:
    try:
        return await gateway.start(settings.host, settings.port)
    except OSError as error:
        why = "the port is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise Unavailable(
            f"cannot listen on {settings.host}:{settings.port}: {why}; choose with --host and --port"
        ) from None


def _gateway(core: Core, admin: Admin) -> GatewayServer:
    settings = core.settings
    cases = UseCases(
        hub=core.hub,
        sends=core.sends,
        rewrites=core.rewrites,
        directory=core.directory,
        unread=core.unread,
        inbox=core.inbox,
        history=core.history,
        receipts=core.receipts,
        limiter=core.limiter,
        resume=core.resume,
        registry=core.registry,
        router=core.router,
        signals=core.signals,
        notify=core.notify,
        audit=core.limiting.audit,
        activity=core.limiting.activity,
        overrides=core.limiting.overrides,
    )
    try:
        return build_gateway(
            GatewaySettings(
                auth=AuthSettings(**asdict(settings.auth)),
                allowed_origins=settings.allowed_origins,
                is_dev=settings.dev,
            ),
            cases,
            core.tables,
            core.clock,
            readiness=partial(_readiness, core),
            metrics_page=lambda: (core.metrics.render(), CONTENT_TYPE_LATEST),
            on_connections=core.metrics.connections.set,
            more_routes=[*_device_routes(core), *admin.routes()],
        )
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _device_routes(core: Core) -> list[Route]:
    push = core.settings.push
    return DeviceRoutes(
        core.devices,
        core.clock,
        providers=core.pushing.providers.keys(),
        webpush_hosts=push.webpush_hosts,
        vapid_public_key=getattr(core.pushing.providers.get("webpush"), "public_key", None),
    ).routes()


async def _readiness(core: Core) -> dict[str, str]:
    """Each store by name."""
    try:
        async with asyncio.timeout(READY_S):
            await core.tables.ping()
        tables = "up"
    except (StoreError, TimeoutError):
        tables = "down"
    core.metrics.store_up.labels("tables").set(float(tables == "up"))
    return {"tables": tables, "keyspace": "up" if core.keyspace.is_up() else "down"}


async def _leave(core: Core, gateway: GatewayServer, admin: Admin) -> None:
    """Tell the clients, finish what is under way, write what waits, go; DRAIN_S at most."""
    try:
        async with asyncio.timeout(DRAIN_S):
            await gateway.drain()
            outcomes = await asyncio.gather(core.sends.drain(), core.receipts.flush(), return_exceptions=True)
            for error in outcomes:
                if isinstance(error, BaseException):
                    raise error
    except (TimeoutError, StoreError) as error:
        log.warning("left without finishing everything: %s", str(error) or "out of time")
    finally:
        await gateway.stop()
        await admin.samples.stop()
        await core.signals.close()
        await core.limiting.stop()
        await core.cold.archiving.stop()
        await core.due.stop()
        await core.notify.stop()
        await core.tending.stop()
        await core.tracing.close()


# --- what the command line calls ------------------------------------------------------------------


def serve(settings: Settings, on_ready: Callable[[int], None], sources: Mapping[str, str] | None = None) -> int:
    """Runs a node until SIGTERM, Ctrl-C or an operator's word. The exit code."""

    async def run() -> int:
        stopped = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stopped.set)
        async with open_node(settings, sources=sources) as node:
            node.core.tending.on_leave = stopped.set
            _spare_the_collector()
            on_ready(node.port)
            await stopped.wait()
            log.info("draining")
        return 0

    return _run(run())


def _spare_the_collector() -> None:
    """What a node is made of stays for good, and what passes through it is freed by its count: it makes no cycles. A
    full collection finds nothing and stops the loop for 10 ms and more per thousand connections: it is made rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 20)


def verify_unread(settings: Settings, user_id: str | None, repair: bool) -> UnreadReport:
    async def run() -> UnreadReport:
        async with open_core(settings, is_guest=True) as core:
            return await core.verify.run(user_id, repair=repair)

    return _run(run())


class TablesReport(msgspec.Struct, frozen=True):
    """What `tidings tables` found."""

    tables: str
    store_epoch: str
    is_ok: bool
    differences: list[str] = []


def check_tables(settings: Settings, create: bool) -> TablesReport:
    """Opening an SQLite file creates what is missing; `check` refuses to."""

    async def run() -> TablesReport:
        name = _tables_name(settings)
        differences = await _prepare_tables(settings, create)
        if differences:
            return TablesReport(name, "", is_ok=False, differences=differences)
        tables, _ = await open_tables(settings, Clock(), Metrics())
        try:
            await tables.ping()
            return TablesReport(name, await tables.store_epoch(), is_ok=True)
        finally:
            await tables.close()

    return _run(run())


def _tables_name(settings: Settings) -> str:
    is_dynamodb = settings.tables.startswith("dynamodb:")
    return settings.tables if is_dynamodb else str(sqlite_path(settings))


async def _prepare_tables(settings: Settings, create: bool) -> list[str]:
    """What is missing or differs, after making it where that was asked."""
    if settings.tables.startswith("dynamodb:"):
        from tidings.stores import tables_dynamodb

        if create:
            await tables_dynamodb.create_tables(settings.tables)
        return await tables_dynamodb.check_tables(settings.tables)
    if not create:
        require_tables(settings)
    return []


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)
