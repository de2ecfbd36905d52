"""Builds the object graph on the opened stores: everything is handed exactly what it uses, and nobody "the server".

`open_core` is a node without its sockets: what CLI verbs and tests use; node.py puts the gateway on top. opening.py and
this module are the only places that name concrete adapters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property

from tidings.bounds import SIGNALS_MAX
from tidings.clock import Clock
from tidings.config import Settings
from tidings.messaging.access import Access
from tidings.messaging.admitting import Admitting
from tidings.messaging.answering import Answering
from tidings.messaging.conversations import Directory
from tidings.messaging.crossings import Crossings
from tidings.messaging.deliver import Deliver
from tidings.messaging.doubts import Doubts
from tidings.messaging.errands import Errands
from tidings.messaging.history import History
from tidings.messaging.holds import Holds
from tidings.messaging.inbox import Inbox
from tidings.messaging.indexing import Indexing
from tidings.messaging.limiter import Limiter
from tidings.messaging.newcomers import Newcomers
from tidings.messaging.notify import Notify
from tidings.messaging.numbering import Numbering
from tidings.messaging.pending import Due
from tidings.messaging.presence import Presences
from tidings.messaging.rebuild import Rebuilds
from tidings.messaging.receipts import Receipts
from tidings.messaging.repair import Repair
from tidings.messaging.resume import Resume
from tidings.messaging.rewrites import Rewrites
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
from tidings.opening import LUA, Stores, open_stores
from tidings.routing.bus import Bus
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router
from tidings.stores.keyspace_cluster import ClusterKeyspace
from tidings.stores.scripts import Scripts
from tidings.stores.scripts_ticks import TickScripts
from tidings.wiring_archive import ColdTier
from tidings.wiring_limits import Limiting
from tidings.wiring_push import Pushing
from tidings.wiring_tracing import Tracing, open_tracing

__all__ = ["LUA", "Core", "Stores", "build", "open_core"]


@asynccontextmanager
async def open_core(settings: Settings, clock: Clock | None = None, *, is_guest: bool = False) -> AsyncIterator[Core]:
    """The stores opened and the use cases on top of them. A guest may use the Valkey of a running node."""
    async with open_stores(settings, clock or Clock(), is_guest=is_guest) as stores:
        yield build(stores)


def build(stores: Stores) -> Core:
    return Core(stores)


class Core:
    """A node without its sockets. Each part is a property, built when first asked for with exactly what it uses."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.settings = stores.settings
        self.clock = stores.clock
        self.metrics = stores.metrics
        self.keyspace = stores.keyspace
        self.tables = stores.tables
        self.devices = stores.devices
        self.overrides = stores.overrides
        self.archive = stores.archive
        self.blobs = stores.blobs
        self.keys = stores.keys
        self.cold = ColdTier(stores)
        self.limiting = Limiting(stores, self.scripts, self.hub.users)
        self.node_id = stores.settings.node.id
        self.epoch_changes = EpochChanges()
        stores.keyspace.on_epoch(self.epoch_changes.note)
        stores.keyspace.on_epoch(self.due.epoch_changed)
        self.unread.on_read = self.receipts.read
        self.unread.on_change = self.notify.badge
        self.router.on_counts = self.crossings.told

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
        return Slots(self.cold.messages, self.clock, self._count_repair)

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
    def doubts(self) -> Doubts:
        return Doubts(self.keyspace, self.scripts, self.clock)

    @cached_property
    def unread(self) -> Unread:
        return Unread(
            self.access,
            self.tables,
            self.keyspace,
            self.scripts,
            self.rebuilds,
            self.router,
            self.doubts,
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
            on_delivered=self.due.received,
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

    @property
    def limiter(self) -> Limiter:
        return self.limiting.limiter

    @cached_property
    def indexing(self) -> Indexing:
        return Indexing(
            self.keyspace,
            self.scripts,
            self.tables,
            self.epoch_changes,
            self.registry.lease_time_ms,
            self.due.calls,
            is_ordered=not isinstance(self.keyspace, ClusterKeyspace),
        )

    @cached_property
    def crossings(self) -> Crossings:
        return Crossings(self.hub, self.unread, self.clock)

    @cached_property
    def deliver(self) -> Deliver:
        return Deliver(
            hub=self.hub,
            access=self.access,
            slots=self.slots,
            inbox=self.inbox,
            unread=self.unread,
            router=self.router,
            newcomers=Newcomers(self.inbox, self.hub, self.router),
            bus=self.bus,
            crossings=self.crossings,
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
            messages=self.tables,
            indexing=self.indexing,
            deliver=self.deliver,
            rows=self.rows,
            clock=self.clock,
            node_id=self.node_id,
            epoch_changes=self.epoch_changes,
            count_repair=self._count_repair,
        )

    @cached_property
    def tracing(self) -> Tracing:
        return open_tracing(self.settings.otel, self.metrics, self.clock, self.node_id)

    @cached_property
    def sends(self) -> Sends:
        holds, doubt, again = Holds(), self.deliver.doubt, self.repair.announcement_again
        stores = (self.keyspace, self.scripts, self.tables)
        numbering = Numbering(*stores, self.access, self.clock, self.node_id, doubt, again)
        return Sends(
            access=self.access,
            holds=holds,
            answering=Answering(holds, self.clock, self.tracing.measures),
            admitting=Admitting(self.limiter, holds, self.keyspace, self.scripts, self.clock),
            numbering=numbering,
            storing=Storing(self.tables, numbering, self.clock),
            indexing=self.indexing,
            deliver=self.deliver,
            rows=self.rows,
            repair=self.repair,
            conversations=self.tables,
            clock=self.clock,
            measures=self.tracing.measures,
        )

    @cached_property
    def rewrites(self) -> Rewrites:
        return Rewrites(self.access, self.tables, self.sends, self.clock)

    @cached_property
    def directory(self) -> Directory:
        return Directory(
            access=self.access,
            conversations=self.tables,
            accounts=self.tables,
            sends=self.sends,
            inbox=self.inbox,
            inboxes=self.tables,
            router=self.router,
            keyspace=self.keyspace,
            scripts=self.scripts,
            doubts=self.doubts,
            clock=self.clock,
            members_max=self.settings.members_max,
        )

    # --- those who are not there ----------------------------------------------------------------------

    @cached_property
    def pushing(self) -> Pushing:
        return Pushing(self._stores, self.access, self.cold.messages, self.unread)

    @property
    def notify(self) -> Notify:
        return self.pushing.notify

    @property
    def due(self) -> Due:
        return self.pushing.due

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
            doubts=self.doubts,
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
