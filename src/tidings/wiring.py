"""Builds the object graph: the only place that names concrete adapters. Everything else is handed what it uses.

`open_core` is a node without its sockets: what CLI verbs and tests use; node.py puts the gateway on top. A guest uses
the Valkey of a node that runs on the same data folder, else it starts it for its own time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True, kw_only=True)
class Stores:
    """What remains, opened; with the settings, the clock and the metrics that go with it."""

    settings: Settings
    clock: Clock
    metrics: Metrics
    keyspace: SingleKeyspace
    tables: Tables
    keys: Keys


def build(stores: Stores) -> Core:
    return Core(stores)


class Core:
    """A node without its sockets. Each part is a property, built when it is first asked for with exactly what it uses."""

    def __init__(self, stores: Stores) -> None:
        self.settings = stores.settings
        self.clock = stores.clock
        self.metrics = stores.metrics
        self.keyspace = stores.keyspace
        self.tables = stores.tables
        self.keys = stores.keys
        self.node_id = stores.settings.node.id
        self.epoch_changes = EpochChanges()
        stores.keyspace.on_epoch(self.epoch_changes.note)
        self.unread.on_read = self.receipts.read

    def _count_repair(self, what: str, n: int) -> None:
        self.metrics.repairs[what].inc(n)

    # --- routing ------------------------------------------------------------------------------------

    @cached_property
    def hub(self) -> Hub:
        return Hub()

    @cached_property
    def bus(self) -> Bus:
        return Bus(self.keyspace, self.keys, self.node_id)

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.keyspace, self.keys, self.hub, self.bus, self.clock, self.node_id)

    @cached_property
    def router(self) -> Router:
        return Router(self.hub, self.registry, self.bus)

    # --- what a member sees ---------------------------------------------------------------------------

    @cached_property
    def scripts(self) -> Scripts:
        unread = self.settings.unread
        return Scripts(self.keys, unread_cap=unread.cap, unread_ttl_s=unread.ttl_days * 86_400)

    @property
    def is_delivered_seen(self) -> bool:
        return self.settings.unread.policy == "when_offline"

    @cached_property
    def access(self) -> Access:
        return Access(self.tables, self.keyspace, self.keys)

    @cached_property
    def slots(self) -> Slots:
        return Slots(self.tables, self.clock, self._count_repair)

    @cached_property
    def rebuilds(self) -> Rebuilds:
        return Rebuilds(
            self.keyspace,
            self.scripts,
            self.tables,
            self.clock,
            is_delivered_seen=self.is_delivered_seen,
            count_rebuild=lambda what: self.metrics.rebuilds[what].inc(),
        )

    @cached_property
    def unread(self) -> Unread:
        return Unread(
            self.access,
            self.tables,
            self.keyspace,
            self.scripts,
            self.rebuilds,
            self.router,
            is_delivered_seen=self.is_delivered_seen,
        )

    @cached_property
    def inbox(self) -> Inbox:
        return Inbox(
            self.access, self.tables, self.keyspace, self.scripts, self.rebuilds, self.unread, self._count_repair
        )

    @cached_property
    def receipts(self) -> Receipts:
        return Receipts(
            access=self.access,
            messages=self.tables,
            statuses=self.tables,
            conversations=self.tables,
            unread=self.unread,
            ticks=Ticks(self.keyspace, TickScripts(self.keys), self.tables),
            router=self.router,
        )

    @cached_property
    def history(self) -> History:
        return History(self.access, self.tables, self.slots, self.unread, self.receipts)

    @cached_property
    def resume(self) -> Resume:
        return Resume(self.access, self.tables, self.slots, self.inbox, self.unread, self.receipts)

    @cached_property
    def verify(self) -> Verify:
        return Verify(self.tables, self.keyspace, self.scripts, self.rebuilds)

    # --- the pipeline ---------------------------------------------------------------------------------

    @cached_property
    def limiter(self) -> Limiter:
        refused = self.metrics.rate_limited
        return Limiter(
            self.keyspace, self.scripts, self.clock, _limits(self.settings), lambda name, n: refused[name].inc(n)
        )

    @cached_property
    def indexing(self) -> Indexing:
        return Indexing(
            self.keyspace, self.scripts, self.tables, self.epoch_changes, self.registry.lease_time_ms
        )

    @cached_property
    def deliver(self) -> Deliver:
        return Deliver(
            hub=self.hub,
            access=self.access,
            slots=self.slots,
            inbox=self.inbox,
            unread=self.unread,
            router=self.router,
            bus=self.bus,
            clock=self.clock,
            node_id=self.node_id,
            has_others=lambda: self.registry.has_others,
            count_deliveries=self.metrics.deliveries.inc,
        )

    @cached_property
    def rows(self) -> Rows:
        return Rows(self.tables, self.clock)

    @cached_property
    def repair(self) -> Repair:
        return Repair(
            keyspace=self.keyspace,
            keys=self.keys,
            access=self.access,
            slots=self.slots,
            indexing=self.indexing,
            deliver=self.deliver,
            rows=self.rows,
            clock=self.clock,
            node_id=self.node_id,
            epoch_changes=self.epoch_changes,
            count_repair=self._count_repair,
        )

    @cached_property
    def sends(self) -> Sends:
        holds = Holds()
        numbering = Numbering(self.keyspace, self.scripts, self.tables, self.access, self.clock, self.node_id)
        return Sends(
            access=self.access,
            holds=holds,
            admitting=Admitting(self.limiter, holds, self.keyspace, self.keys, self.clock),
            numbering=numbering,
            storing=Storing(self.tables, numbering, self.clock),
            indexing=self.indexing,
            deliver=self.deliver,
            rows=self.rows,
            repair=self.repair,
            messages=self.tables,
            conversations=self.tables,
            clock=self.clock,
            measures=self.metrics,
        )

    @cached_property
    def directory(self) -> Directory:
        return Directory(
            access=self.access,
            conversations=self.tables,
            accounts=self.tables,
            sends=self.sends,
            inbox=self.inbox,
            router=self.router,
            keyspace=self.keyspace,
            scripts=self.scripts,
            clock=self.clock,
            members_max=self.settings.members_max,
        )

    # --- beside answering -----------------------------------------------------------------------------

    @cached_property
    def signals(self) -> Signals:
        errands = Errands(SIGNALS_MAX)
        watching = Watching(
            access=self.access,
            hub=self.hub,
            registry=self.registry,
            bus=self.bus,
            keyspace=self.keyspace,
            keys=self.keys,
            clock=self.clock,
            node_id=self.node_id,
        )
        presences = Presences(
            access=self.access,
            watching=watching,
            hub=self.hub,
            registry=self.registry,
            keyspace=self.keyspace,
            keys=self.keys,
            errands=errands,
            clock=self.clock,
        )
        return Signals(watching, Typists(self.access, watching, errands, self.clock), presences, errands)

    @cached_property
    def tending(self) -> Tending:
        return Tending(
            hub=self.hub,
            bus=self.bus,
            registry=self.registry,
            router=self.router,
            deliver=self.deliver,
            repair=self.repair,
            sends=self.sends,
            signals=self.signals,
            clock=self.clock,
        )


class EpochChanges:
    """How often a primary of the keyspace has begun another life while we watched."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self) -> int:
        return self._count

    def note(self, old: str, new: str) -> None:
        self._count += 1


def _limits(settings: Settings) -> dict[str, Limit | None]:
    named = {name: getattr(settings.limits, name) for name in ("send", "read", "typing", "connect", "http")}
    return {name: Limit(limit.count, limit.window_s) if limit else None for name, limit in named.items()}
