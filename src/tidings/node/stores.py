"""Stores: opens what the settings name; the scheme of a URL picks the adapter. graph.py builds the parts on them.

A guest reads an installation that exists, and never begins an empty one. A guest uses the Valkey of the node that runs
on the same data folder; where none runs, the guest starts that Valkey for its own time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tidings.clock import Clock
from tidings.config.settings import ENV, Settings, blobs_url, tables_url
from tidings.config.values import SettingsError
from tidings.stores.blobs.obstore import open_blobs
from tidings.stores.blobs.open_files import open_files
from tidings.stores.blobs.ports import Blobs, FileBytes
from tidings.stores.keyspace.embedded import EmbeddedValkey
from tidings.stores.keyspace.embedded_folder import running_socket
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.open import AnyKeyspace, open_any
from tidings.stores.keyspace.scripts import LUA
from tidings.stores.keyspace.wire import without_prefix
from tidings.stores.tables.open import Adapter, adapter_of
from tidings.stores.tables.ports import Counts, Tables
from tidings.tasks import Ending
from tidings.telemetry.metrics import Metrics

log = logging.getLogger("tidings.node")
STORE_END_S = 5.0  # of DRAIN_S: a store is closed; a commit under way may wait this long for the lock of SQLite


_OUR_NAMES = ("valkey", "tidings.db", "blobs", "auth.secret", "node.id", ".", "lost+found")  # in a data folder


@dataclass(frozen=True)
class Queues:
    """The keyspace of the audit and push streams. A burst there need not delay the index of messages."""

    keyspace: AnyKeyspace
    keys: Keys


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The open stores, with the settings, the clock and the metrics of the process."""

    settings: Settings
    clock: Clock
    metrics: Metrics
    keyspace: AnyKeyspace
    tables: Tables
    blobs: Blobs
    files: FileBytes
    keys: Keys
    queues_apart: AnyKeyspace | None = None  # the keyspace of the streams, where the settings name one

    @property
    def queues(self) -> Queues:
        return Queues(self.queues_apart or self.keyspace, self.keys)


@asynccontextmanager
async def open_stores(settings: Settings, clock: Clock, *, is_guest: bool) -> AsyncIterator[Stores]:
    """Open the stores in the order in which they are needed, and close them in the opposite order."""
    if is_guest:
        require_tables(settings)
    else:
        protect(settings.data)
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        url, prefix = await _keyspace_url(settings, clock, stack, is_guest)
        keyspace = await _open_any(url, "keyspace", clock, metrics, stack)
        apart = settings.keyspace_queues
        queues = await _open_any(apart, "queues", clock, metrics, stack) if apart else None
        tables = await open_tables(settings, clock, metrics)
        stack.push_async_callback(_end, "tables", tables.close)
        metrics.store_up.labels("tables").set(1)
        yield Stores(
            settings=settings,
            clock=clock,
            metrics=metrics,
            keyspace=keyspace,
            tables=tables,
            blobs=open_blobs(blobs_url(settings), clock),
            files=open_files(blobs_url(settings), clock),
            keys=Keys(prefix),
            queues_apart=queues,
        )


async def _open_any(url: str, name: str, clock: Clock, metrics: Metrics, stack: AsyncExitStack) -> AnyKeyspace:
    """Open the server or the cluster of the URL. `name` is its label in the metrics."""
    keyspace = await open_any(url, LUA, clock, metrics.keyspace_commands.inc)
    stack.push_async_callback(_end, name, keyspace.close)
    metrics.store_up.labels(name).set_function(lambda: float(keyspace.is_up()))
    return keyspace


async def _end(store: str, close: Callable[[], Awaitable[object]]) -> None:
    await Ending(STORE_END_S)(store, close)


async def _keyspace_url(settings: Settings, clock: Clock, stack: AsyncExitStack, is_guest: bool) -> tuple[str, str]:
    """Return the URL to connect to, and the prefix of the tenant."""
    if settings.keyspace == "embedded":
        if is_guest and (shared := running_socket(settings.data)) is not None:
            return shared, ""
        valkey = await EmbeddedValkey.start(settings.data, clock)
        stack.push_async_callback(valkey.stop)
        return valkey.url, ""
    return without_prefix(settings.keyspace)


def protect(data: Path) -> None:
    """Make the data folder readable by its owner only, also where somebody made the folder before.

    A folder that holds other things too, or belongs to another user, is left alone: it may be a home or /tmp."""
    if not data.is_dir() or data.stat().st_mode & 0o077 == 0:
        return
    is_ours = data.stat().st_uid == os.geteuid() and all(path.name.startswith(_OUR_NAMES) for path in data.iterdir())
    if is_ours:
        data.chmod(0o700)
    else:
        cause = "it holds other things too, or belongs to another user"
        log.warning("data folder stays readable by others", extra={"folder": str(data), "cause": cause})


async def open_tables(settings: Settings, clock: Clock, metrics: Metrics) -> Tables:
    url = tables_url(settings)
    counts = Counts(
        read=metrics.count_rows_read,
        write=metrics.count_writes,
        units=lambda kind, units: metrics.table_units[kind].inc(units),
    )
    return await tables_adapter(settings).open(url, counts, clock)


def tables_adapter(settings: Settings) -> Adapter:
    """The adapter that the settings name. Raises SettingsError when a library of the adapter is missing."""
    try:
        return adapter_of(tables_url(settings))
    except ValueError as error:
        raise SettingsError(str(error)) from None


def require_tables(settings: Settings) -> None:
    """Raise SettingsError where there are no tables, or no folder beside them: mostly the wrong one was named."""
    adapter, url = tables_adapter(settings), tables_url(settings)
    if not adapter.exists(url):
        name = "tables" if "://" in settings.tables else "data"
        raise SettingsError(
            f"there are no tables at {adapter.name(url)}; choose with --{name} or {ENV}{name.upper()}, "
            "or make them with `tidings tables create`"
        )
    if adapter.folder(url) is None and settings.keyspace == "embedded":
        require_folder(settings)


def require_folder(settings: Settings) -> None:
    if not settings.data.is_dir():
        raise SettingsError(f"there is no data folder at {settings.data}; choose with --data or {ENV}DATA")
