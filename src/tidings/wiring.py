"""Builds the object graph: the only place that names concrete adapters. Everything else is handed what it uses.

`open_core` is a node without its sockets: what CLI verbs and tests use; node.py puts the gateway on top. A guest uses
the Valkey of a node that runs on the same data folder, else it starts it for its own time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tidings.bounds import SIGNALS_MAX
from tidings.clock import Clock
from tidings.config import Settings
from tidings.config_values import SettingsError
from tidings.messaging.access import Access
from tidings.messaging.admitting import Admitting
from tidings.messaging.conversations import Directory
from tidings.messaging.deliver import Deliver
from tidings.messaging.errands import Errands
from tidings.messaging.history import History
from tidings.messaging.holds import Holds
from tidings.messaging.inbox import Inbox
from tidings.messaging.indexing import Indexing
from tidings.messaging.limiter import Limit, Limiter
from tidings.messaging.numbering import Numbering
from tidings.messaging.presence import Presences
from tidings.messaging.rebuild import Rebuilds
from tidings.messaging.receipts import Receipts
from tidings.messaging.repair import Repair
from tidings.messaging.resume import Resume
from tidings.messaging.rows import Rows
from tidings.messaging.send import Sends
from tidings.messaging.signals import Signals
from tidings.messaging.slots import Slots
from tidings.messaging.storing import Storing
from tidings.messaging.tending import Tending
from tidings.messaging.ticks import Ticks
from tidings.messaging.typists import Typists
from tidings.messaging.unread import Unread
from tidings.messaging.verify import Verify
from tidings.messaging.watching import Watching
from tidings.routing.bus import Bus
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router
from tidings.stores import scripts, scripts_routing, scripts_ticks
from tidings.stores.keys import Keys
from tidings.stores.keyspace_embedded import EmbeddedValkey
from tidings.stores.keyspace_folder import running_socket
from tidings.stores.keyspace_remote import SingleKeyspace, open_keyspace
from tidings.stores.ports import Tables
from tidings.stores.scripts import Scripts
from tidings.stores.scripts_ticks import TickScripts
from tidings.stores.tables_sqlite import open_sqlite
from tidings.telemetry import Metrics

LUA = (*scripts.SOURCES.values(), *scripts_ticks.SOURCES.values(), *scripts_routing.SOURCES.values())


@dataclass(frozen=True, kw_only=True)
class Stores:
    """What remains, opened."""

    settings: Settings
    clock: Clock
    metrics: Metrics
    keyspace: SingleKeyspace
    tables: Tables
    keys: Keys


@dataclass(frozen=True, kw_only=True)
class Core(Stores):
    """A node without its sockets."""

    hub: Hub
    bus: Bus
    registry: Registry
    router: Router
    access: Access
    limiter: Limiter
    rebuilds: Rebuilds
    unread: Unread
    inbox: Inbox
    receipts: Receipts
    history: History
    resume: Resume
    indexing: Indexing
    sends: Sends
    repair: Repair
    signals: Signals
    tending: Tending
    directory: Directory
    verify: Verify


@asynccontextmanager
async def open_core(
    settings: Settings, clock: Clock | None = None, *, is_guest: bool = False
) -> AsyncIterator[Core]:
    """The stores opened and the use cases on top of them. A guest may use the Valkey of a running node."""
    clock, metrics = clock or Clock(), Metrics()
    async with AsyncExitStack() as stack:
        url, prefix = await _keyspace_url(settings, clock, stack, is_guest)
        keyspace = await open_keyspace(url, LUA, clock, metrics.keyspace_commands.inc)
        stack.push_async_callback(keyspace.close)
        tables = await open_tables(settings, clock, metrics)
        stack.push_async_callback(tables.close)
        yield build(
            Stores(
                settings=settings,
                clock=clock,
                metrics=metrics,
                keyspace=keyspace,
                tables=tables,
                keys=Keys(prefix),
            )
        )


async def _keyspace_url(
    settings: Settings, clock: Clock, stack: AsyncExitStack, is_guest: bool
) -> tuple[str, str]:
    """The URL to connect to, and the tenant's prefix."""
    if settings.keyspace == "embedded":
        if is_guest and (shared := running_socket(settings.data)) is not None:
            return shared, ""
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


async def open_tables(settings: Settings, clock: Clock, metrics: Metrics) -> Tables:
    if not settings.tables.startswith("sqlite"):
        scheme = settings.tables.partition(":")[0]
        raise SettingsError(f"tables: {scheme}:// is not supported by this version yet; use sqlite:///path")
    path = sqlite_path(settings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return await open_sqlite(
        path,
        count_read=lambda table, rows: metrics.rows_read[table].inc(rows),
        count_write=lambda table, rows: metrics.writes[table].inc(rows),
        clock=clock,
    )


def sqlite_path(settings: Settings) -> Path:
    if "://" in settings.tables:
        return Path(settings.tables.removeprefix("sqlite://"))
    return settings.data / "tidings.db"


# --- the graph, in the order of the imports: routing, reading, sending --------------------------------


def build(stores: Stores) -> Core:
    settings, keyspace, keys, tables, clock = (
        stores.settings,
        stores.keyspace,
        stores.keys,
        stores.tables,
        stores.clock,
    )
    lua = Scripts(keys, unread_cap=settings.unread.cap, unread_ttl_s=settings.unread.ttl_days * 86_400)
    epoch_changes = _EpochChanges(keyspace)
    hub = Hub()
    bus = Bus(keyspace, keys, settings.node.id)
    registry = Registry(keyspace, keys, hub, bus, clock, settings.node.id)
    router = Router(hub, registry, bus)
    access = Access(tables, keyspace, keys)
    slots = Slots(tables, clock, partial(_count_repair, stores.metrics))
    rebuilds, unread, inbox = _reading(stores, lua, access, router)
    ticks = Ticks(keyspace, TickScripts(keys), tables)
    receipts = Receipts(
        access=access,
        messages=tables,
        statuses=tables,
        conversations=tables,
        unread=unread,
        ticks=ticks,
        router=router,
    )
    indexing = Indexing(keyspace, lua, tables, epoch_changes, registry.lease_time_ms)
    deliver = Deliver(
        hub=hub,
        access=access,
        slots=slots,
        inbox=inbox,
        unread=unread,
        router=router,
        bus=bus,
        clock=clock,
        node_id=settings.node.id,
        has_others=lambda: registry.has_others,
        count_deliveries=stores.metrics.deliveries.inc,
    )
    limiter, repair, sends = _sending(stores, lua, access, slots, indexing, deliver, epoch_changes)
    signals = _signals(stores, access, hub, registry, bus)
    return Core(
        **{field.name: getattr(stores, field.name) for field in dataclasses.fields(stores)},
        hub=hub,
        bus=bus,
        registry=registry,
        router=router,
        access=access,
        limiter=limiter,
        rebuilds=rebuilds,
        unread=unread,
        inbox=inbox,
        receipts=receipts,
        history=History(access, tables, slots, unread, receipts),
        resume=Resume(access, tables, slots, inbox, unread, receipts),
        indexing=indexing,
        sends=sends,
        repair=repair,
        signals=signals,
        tending=Tending(
            hub=hub,
            bus=bus,
            registry=registry,
            router=router,
            deliver=deliver,
            repair=repair,
            sends=sends,
            signals=signals,
            clock=clock,
        ),
        directory=Directory(
            access=access,
            conversations=tables,
            accounts=tables,
            sends=sends,
            inbox=inbox,
            router=router,
            keyspace=keyspace,
            scripts=lua,
            clock=clock,
            members_max=settings.members_max,
        ),
        verify=Verify(tables, keyspace, lua, rebuilds),
    )


def _reading(stores: Stores, lua: Scripts, access: Access, router: Router) -> tuple[Rebuilds, Unread, Inbox]:
    """What a member sees."""
    keyspace, tables, metrics = stores.keyspace, stores.tables, stores.metrics
    is_delivered_seen = stores.settings.unread.policy == "when_offline"
    rebuilds = Rebuilds(
        keyspace,
        lua,
        tables,
        stores.clock,
        is_delivered_seen=is_delivered_seen,
        count_rebuild=lambda what: metrics.rebuilds[what].inc(),
    )
    unread = Unread(access, tables, keyspace, lua, rebuilds, router, is_delivered_seen=is_delivered_seen)
    inbox = Inbox(access, tables, keyspace, lua, rebuilds, unread, partial(_count_repair, metrics))
    return rebuilds, unread, inbox


def _sending(
    stores: Stores,
    lua: Scripts,
    access: Access,
    slots: Slots,
    indexing: Indexing,
    deliver: Deliver,
    epoch_changes: _EpochChanges,
) -> tuple[Limiter, Repair, Sends]:
    """The pipeline."""
    keyspace, keys, tables, clock, metrics = (
        stores.keyspace,
        stores.keys,
        stores.tables,
        stores.clock,
        stores.metrics,
    )
    node_id = stores.settings.node.id
    limiter = Limiter(
        keyspace,
        lua,
        clock,
        _limits(stores.settings),
        lambda class_name, n: metrics.rate_limited[class_name].inc(n),
    )
    rows = Rows(tables, clock)
    repair = Repair(
        keyspace=keyspace,
        keys=keys,
        access=access,
        slots=slots,
        indexing=indexing,
        deliver=deliver,
        rows=rows,
        clock=clock,
        node_id=node_id,
        epoch_changes=epoch_changes,
        count_repair=partial(_count_repair, metrics),
    )
    holds = Holds()
    numbering = Numbering(keyspace, lua, tables, access, clock, node_id)
    sends = Sends(
        access=access,
        holds=holds,
        admitting=Admitting(limiter, holds, keyspace, keys, clock),
        numbering=numbering,
        storing=Storing(tables, numbering, clock),
        indexing=indexing,
        deliver=deliver,
        rows=rows,
        repair=repair,
        messages=tables,
        conversations=tables,
        clock=clock,
        measures=metrics,
    )
    return limiter, repair, sends


def _signals(stores: Stores, access: Access, hub: Hub, registry: Registry, bus: Bus) -> Signals:
    """Presence and typing."""
    keyspace, keys, clock = stores.keyspace, stores.keys, stores.clock
    errands = Errands(SIGNALS_MAX)
    watching = Watching(
        access=access,
        hub=hub,
        registry=registry,
        bus=bus,
        keyspace=keyspace,
        keys=keys,
        clock=clock,
        node_id=stores.settings.node.id,
    )
    presences = Presences(
        access=access,
        watching=watching,
        hub=hub,
        registry=registry,
        keyspace=keyspace,
        keys=keys,
        errands=errands,
        clock=clock,
    )
    return Signals(watching, Typists(access, watching, errands, clock), presences, errands)


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


def _count_repair(metrics: Metrics, what: str, n: int) -> None:
    metrics.repairs[what].inc(n)
