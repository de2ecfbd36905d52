"""Builds the object graph: the only place that names concrete adapters. Everything else is handed what it uses.

`open_node` is a whole node, listening, as an async context: the CLI serves it, tests and benchmarks use the same one.
`open_core` is the node without its sockets, for CLI verbs. A verb uses the Valkey of a node that runs on the same data
folder, else it starts it for its own time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from tidings.bounds import DRAIN_S, READY_S
from tidings.clock import Clock
from tidings.config import Settings
from tidings.config_values import SettingsError
from tidings.errors import StoreError
from tidings.gateway.auth import AuthSettings
from tidings.gateway.build import GatewaySettings, build_gateway
from tidings.gateway.server import GatewayServer, loop_factory
from tidings.gateway.usecases import UseCases
from tidings.messaging.access import Access
from tidings.messaging.admitting import Admitting
from tidings.messaging.conversations import Directory
from tidings.messaging.deliver import Deliver
from tidings.messaging.history import History
from tidings.messaging.holds import Holds
from tidings.messaging.inbox import Inbox
from tidings.messaging.indexing import Indexing
from tidings.messaging.limiter import Limit, Limiter
from tidings.messaging.numbering import Numbering
from tidings.messaging.rebuild import Rebuilds
from tidings.messaging.receipts import Receipts
from tidings.messaging.repair import Repair
from tidings.messaging.resume import Resume
from tidings.messaging.rows import Rows
from tidings.messaging.send import Sends
from tidings.messaging.slots import Slots
from tidings.messaging.storing import Storing
from tidings.messaging.unread import Unread
from tidings.messaging.verify import Report as UnreadReport
from tidings.messaging.verify import Verify
from tidings.model import ApiKey
from tidings.routing.hub import Hub
from tidings.stores.keys import Keys
from tidings.stores.keyspace_embedded import EmbeddedValkey
from tidings.stores.keyspace_folder import running_socket
from tidings.stores.keyspace_remote import SingleKeyspace, open_keyspace
from tidings.stores.ports import Tables
from tidings.stores.scripts import SOURCES, Scripts
from tidings.stores.tables_sqlite import open_sqlite
from tidings.telemetry import Metrics

log = logging.getLogger("tidings.node")
T = TypeVar("T")


@dataclass(frozen=True)
class Core:
    """A node without its sockets."""

    settings: Settings
    clock: Clock
    metrics: Metrics
    keyspace: SingleKeyspace
    tables: Tables
    keys: Keys
    hub: Hub
    access: Access
    limiter: Limiter
    rebuilds: Rebuilds
    unread: Unread
    inbox: Inbox
    receipts: Receipts
    history: History
    resume: Resume
    sends: Sends
    repair: Repair
    directory: Directory
    verify: Verify


@asynccontextmanager
async def open_core(
    settings: Settings, clock: Clock | None = None, *, is_guest: bool = False
) -> AsyncIterator[Core]:
    """The stores opened and the use cases on top of them. A guest may use the Valkey of a running node."""
    clock = clock or Clock()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        url, prefix = await _keyspace_url(settings, clock, stack, is_guest)
        keyspace = await open_keyspace(url, SOURCES.values(), clock, metrics.keyspace_commands.inc)
        stack.push_async_callback(keyspace.close)
        tables = await _open_tables(settings, clock, metrics)
        stack.push_async_callback(tables.close)
        yield _build(settings, clock, metrics, keyspace, tables, Keys(prefix))


async def _keyspace_url(
    settings: Settings, clock: Clock, stack: AsyncExitStack, is_guest: bool
) -> tuple[str, str]:
    """The URL to connect to, and the tenant's prefix."""
    if settings.keyspace == "embedded" and is_guest and (shared := running_socket(settings.data)) is not None:
        return shared, ""
    if settings.keyspace == "embedded":
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        valkey = await EmbeddedValkey.start(settings.data, clock)
        stack.push_async_callback(valkey.stop)
        return valkey.url, ""
    parts = urlsplit(settings.keyspace)
    if parts.scheme == "redis+cluster":
        raise SettingsError("keyspace: redis+cluster:// is not supported by this version yet; use redis:// or unix://")
    query = dict(parse_qsl(parts.query))
    prefix = query.pop("prefix", "")
    return urlunsplit(parts._replace(query=urlencode(query))), prefix


async def _open_tables(settings: Settings, clock: Clock, metrics: Metrics) -> Tables:
    if not settings.tables.startswith("sqlite"):
        scheme = settings.tables.partition(":")[0]
        raise SettingsError(f"tables: {scheme}:// is not supported by this version yet; use sqlite:///path")
    path = _sqlite_path(settings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return await open_sqlite(
        path,
        count_read=lambda table, rows: metrics.rows_read[table].inc(rows),
        count_write=lambda table, rows: metrics.writes[table].inc(rows),
        clock=clock,
    )


def _sqlite_path(settings: Settings) -> Path:
    if "://" in settings.tables:
        return Path(settings.tables.removeprefix("sqlite://"))
    return settings.data / "tidings.db"


def _build(
    settings: Settings, clock: Clock, metrics: Metrics, keyspace: SingleKeyspace, tables: Tables, keys: Keys
) -> Core:
    is_delivered_seen = settings.unread.policy == "when_offline"
    epoch_changes = _EpochChanges(keyspace)
    scripts = Scripts(keys, unread_cap=settings.unread.cap, unread_ttl_s=settings.unread.ttl_days * 86_400)

    def count_repair(what: str, n: int) -> None:
        metrics.repairs[what].inc(n)

    hub = Hub()
    access = Access(tables, keyspace, keys)
    limiter = Limiter(
        keyspace, scripts, clock, _limits(settings), lambda class_name, n: metrics.rate_limited[class_name].inc(n)
    )
    rebuilds = Rebuilds(
        keyspace,
        scripts,
        tables,
        clock,
        is_delivered_seen=is_delivered_seen,
        count_rebuild=lambda what: metrics.rebuilds[what].inc(),
    )
    unread = Unread(access, tables, keyspace, scripts, rebuilds, hub, is_delivered_seen=is_delivered_seen)
    inbox = Inbox(access, tables, keyspace, scripts, rebuilds, unread, count_repair)
    slots = Slots(tables, clock, count_repair)
    receipts = Receipts(access, tables, tables, tables, unread)
    deliver = Deliver(hub, slots, inbox, unread, metrics.deliveries.inc)
    indexing = Indexing(keyspace, scripts, tables, epoch_changes)
    repair = Repair(
        keyspace=keyspace,
        keys=keys,
        access=access,
        slots=slots,
        indexing=indexing,
        deliver=deliver,
        clock=clock,
        node_id=settings.node.id,
        epoch_changes=epoch_changes,
        count_repair=count_repair,
    )
    holds = Holds()
    numbering = Numbering(keyspace, scripts, tables, access, clock, settings.node.id)
    sends = Sends(
        access=access,
        holds=holds,
        admitting=Admitting(limiter, holds, keyspace, keys, clock),
        numbering=numbering,
        storing=Storing(tables, numbering, clock),
        indexing=indexing,
        deliver=deliver,
        rows=Rows(tables, clock),
        repair=repair,
        messages=tables,
        conversations=tables,
        clock=clock,
        measures=metrics,
    )
    directory = Directory(
        access=access,
        conversations=tables,
        accounts=tables,
        sends=sends,
        inbox=inbox,
        hub=hub,
        keyspace=keyspace,
        scripts=scripts,
        clock=clock,
        members_max=settings.members_max,
    )
    return Core(
        settings=settings,
        clock=clock,
        metrics=metrics,
        keyspace=keyspace,
        tables=tables,
        keys=keys,
        hub=hub,
        access=access,
        limiter=limiter,
        rebuilds=rebuilds,
        unread=unread,
        inbox=inbox,
        receipts=receipts,
        history=History(access, tables, slots, unread, receipts),
        resume=Resume(access, tables, slots, inbox, unread, receipts, keyspace, keys),
        sends=sends,
        repair=repair,
        directory=directory,
        verify=Verify(tables, keyspace, scripts, rebuilds),
    )


class _EpochChanges:
    """How often a primary of the keyspace has begun another life while we watched."""

    def __init__(self, keyspace: SingleKeyspace) -> None:
        self._count = 0
        keyspace.on_epoch(self._note)

    def __call__(self) -> int:
        return self._count

    def _note(self, old: str, new: str) -> None:
        self._count += 1


def _limits(settings: Settings) -> dict[str, Limit | None]:
    named = {name: getattr(settings.limits, name) for name in ("send", "read", "typing", "connect", "http")}
    return {name: Limit(limit.count, limit.window_s) if limit else None for name, limit in named.items()}


# --- a node ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A node that listens."""

    core: Core
    gateway: GatewayServer
    port: int


@asynccontextmanager
async def open_node(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Node]:
    """Starts, listens; leaving drains and stops it."""
    async with open_core(settings, clock) as core:
        gateway = _gateway(core)
        core.repair.start()
        port = await gateway.start(settings.host, settings.port)
        try:
            yield Node(core, gateway, port)
        finally:
            await _leave(core, gateway)


def _gateway(core: Core) -> GatewayServer:
    settings = core.settings
    auth = settings.auth
    cases = UseCases(
        hub=core.hub,
        sends=core.sends,
        directory=core.directory,
        unread=core.unread,
        inbox=core.inbox,
        history=core.history,
        receipts=core.receipts,
        limiter=core.limiter,
        resume=core.resume,
    )
    try:
        return build_gateway(
            GatewaySettings(
                auth=AuthSettings(auth.secret, auth.jwks_url, auth.issuer, auth.audience),
                allowed_origins=settings.allowed_origins,
                is_dev=settings.dev,
            ),
            cases,
            core.tables,
            core.clock,
            readiness=partial(_readiness, core),
            metrics_page=lambda: (core.metrics.render(), CONTENT_TYPE_LATEST),
            on_connections=core.metrics.connections.set,
        )
    except ValueError as error:
        raise SettingsError(str(error)) from None


async def _readiness(core: Core) -> dict[str, str]:
    """Each store by name."""
    try:
        async with asyncio.timeout(READY_S):
            await core.tables.ping()
        tables = "up"
    except (StoreError, TimeoutError):
        tables = "down"
    return {"tables": tables, "keyspace": "up" if core.keyspace.is_up() else "down"}


async def _leave(core: Core, gateway: GatewayServer) -> None:
    """Tell the clients, finish what is under way, write what waits, go; DRAIN_S at most."""
    try:
        async with asyncio.timeout(DRAIN_S):
            await gateway.drain()
            await core.sends.drain()
            await core.receipts.flush()
    except (TimeoutError, StoreError) as error:
        log.warning("left without finishing everything: %s", error or "out of time")
    finally:
        await gateway.stop()
        await core.repair.stop()


# --- what the command line calls ------------------------------------------------------------------


def serve(settings: Settings, on_ready: Callable[[int], None]) -> int:
    """Runs a node until SIGTERM or Ctrl-C. The exit code."""

    async def run() -> int:
        stopped = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stopped.set)
        async with open_node(settings) as node:
            on_ready(node.port)
            await stopped.wait()
            log.info("draining")
        return 0

    return _run(run())


def create_key(settings: Settings, name: str, role: Literal["admin", "readonly"]) -> str:
    """Makes a server key. Only its hash is kept."""

    async def run() -> str:
        key = f"tk_{Clock().random_id(32)}"
        tables = await _open_tables(settings, Clock(), Metrics())
        try:
            key_hash = hashlib.sha256(key.encode()).hexdigest()
            await tables.put_api_key(ApiKey(key_hash=key_hash, name=name, role=role, created_ms=Clock().now_ms()))
        finally:
            await tables.close()
        return key

    return _run(run())


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


def check_tables(settings: Settings, create: bool) -> TablesReport:
    """Opening creates what is missing; `check` refuses to."""

    async def run() -> TablesReport:
        if not create and not _sqlite_path(settings).exists():
            raise SettingsError(f"there are no tables at {_sqlite_path(settings)}; `tidings tables create` makes them")
        tables = await _open_tables(settings, Clock(), Metrics())
        try:
            await tables.ping()
            return TablesReport(str(_sqlite_path(settings)), await tables.store_epoch(), is_ok=True)
        finally:
            await tables.close()

    return _run(run())


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)
