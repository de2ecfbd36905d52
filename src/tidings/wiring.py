"""Builds the object graph: the only place that names concrete adapters. Everything else is handed what it uses.

`open_node` is a whole node, listening, as an async context: the CLI serves it, tests and benchmarks use the same one.
`open_core` is the node without its sockets, for CLI verbs. A verb uses the Valkey of a node that runs on the same data
folder, else it starts it for its own time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tidings.bounds import DRAIN_S
from tidings.clock import Clock
from tidings.config import Settings
from tidings.config_values import SettingsError
from tidings.errors import StoreError
from tidings.gateway.server import loop_factory
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
async def open_core(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Core]:
    """The stores opened and the use cases on top of them."""
    clock = clock or Clock()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        url, prefix = await _keyspace_url(settings, clock, stack)
        keyspace = await open_keyspace(url, SOURCES.values(), clock, metrics.keyspace_commands.inc)
        stack.push_async_callback(keyspace.close)
        tables = await _open_tables(settings, clock, metrics)
        stack.push_async_callback(tables.close)
        yield _build(settings, clock, metrics, keyspace, tables, Keys(prefix))


async def _keyspace_url(settings: Settings, clock: Clock, stack: AsyncExitStack) -> tuple[str, str]:
    """The URL to connect to, and the tenant's prefix."""
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
    path = Path(settings.tables.removeprefix("sqlite://")) if "://" in settings.tables else settings.data / "tidings.db"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return await open_sqlite(
        path,
        count_read=lambda table, rows: metrics.rows_read[table].inc(rows),
        count_write=lambda table, rows: metrics.writes[table].inc(rows),
        clock=clock,
    )


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
        verify=Verify(tables, keyspace, scripts, rebuilds, unread),
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
