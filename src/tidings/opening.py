"""Opens the stores that the settings name: the scheme of a URL picks the adapter. wiring.py builds on what is opened.

A guest looks at an installation that is there, and never begins an empty one. It uses the Valkey of a node that runs on
the same data folder, else it starts it for its own time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidings.clock import Clock
from tidings.config import ENV, Settings
from tidings.config_values import SettingsError
from tidings.stores import scripts, scripts_archive, scripts_audit, scripts_push, scripts_routing, scripts_ticks
from tidings.stores.blobs_obstore import open_blobs
from tidings.stores.keys import Keys
from tidings.stores.keyspace_cluster import ClusterKeyspace, open_cluster
from tidings.stores.keyspace_embedded import EmbeddedValkey
from tidings.stores.keyspace_folder import running_socket
from tidings.stores.keyspace_remote import SingleKeyspace, open_keyspace
from tidings.stores.keyspace_wire import without_prefix
from tidings.stores.ports import Tables
from tidings.stores.ports_archive import ArchiveTables, Blobs
from tidings.stores.ports_limits import Overrides
from tidings.stores.ports_push import Devices, Pending
from tidings.stores.sqlite_archive import open_archive
from tidings.stores.sqlite_devices import open_devices
from tidings.stores.sqlite_overrides import open_overrides
from tidings.stores.tables_sqlite import SqliteTables, open_sqlite
from tidings.telemetry import Metrics

_MODULES = (scripts, scripts_ticks, scripts_push, scripts_routing, scripts_audit, scripts_archive)
LUA = tuple(source for module in _MODULES for source in module.SOURCES.values())

AnyKeyspace = SingleKeyspace | ClusterKeyspace


class DeviceTables(Devices, Pending, Protocol):
    """devices and pending_deliveries, from one adapter."""


@dataclass(frozen=True, kw_only=True)
class Stores:
    """What remains, opened; with the settings, the clock and the metrics that go with it."""

    settings: Settings
    clock: Clock
    metrics: Metrics
    keyspace: AnyKeyspace
    tables: Tables
    devices: DeviceTables
    overrides: Overrides
    archive: ArchiveTables
    blobs: Blobs
    keys: Keys


@asynccontextmanager
async def open_stores(settings: Settings, clock: Clock, *, is_guest: bool) -> AsyncIterator[Stores]:
    """Opened in the order in which they are needed, closed in the opposite one."""
    if is_guest:
        require_tables(settings)
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        url, prefix = await _keyspace_url(settings, clock, stack, is_guest)
        is_cluster = url.startswith("redis+cluster:")
        open_any = open_cluster if is_cluster else open_keyspace
        keyspace: AnyKeyspace = await open_any(url, LUA, clock, metrics.keyspace_commands.inc)
        stack.push_async_callback(keyspace.close)
        metrics.store_up.labels("keyspace").set_function(lambda: float(keyspace.is_up()))
        tables, devices = await open_tables(settings, clock, metrics)
        stack.push_async_callback(tables.close)
        metrics.store_up.labels("tables").set(1)
        yield Stores(
            settings=settings,
            clock=clock,
            metrics=metrics,
            keyspace=keyspace,
            tables=tables,
            devices=devices,
            overrides=await _overrides(tables, clock),
            archive=await _archive(tables, clock),
            blobs=open_blobs(blobs_url(settings), clock),
            keys=Keys(prefix),
        )


async def _keyspace_url(settings: Settings, clock: Clock, stack: AsyncExitStack, is_guest: bool) -> tuple[str, str]:
    """The URL to connect to, and the tenant's prefix."""
    if settings.keyspace == "embedded":
        if is_guest and (shared := running_socket(settings.data)) is not None:
            return shared, ""
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        valkey = await EmbeddedValkey.start(settings.data, clock)
        stack.push_async_callback(valkey.stop)
        return valkey.url, ""
    return without_prefix(settings.keyspace)


async def open_tables(settings: Settings, clock: Clock, metrics: Metrics) -> tuple[Tables, DeviceTables]:
    if settings.tables.startswith("dynamodb:"):
        return await _open_dynamodb(settings, clock, metrics)
    path = sqlite_path(settings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    tables = await open_sqlite(
        path,
        count_read=lambda table, rows: metrics.rows_read[table].inc(rows),
        count_write=lambda table, rows: metrics.writes[table].inc(rows),
        clock=clock,
    )
    return tables, await open_devices(tables.reads, tables.writes)


async def _open_dynamodb(settings: Settings, clock: Clock, metrics: Metrics) -> tuple[Tables, DeviceTables]:
    """Imported here: it is an extra, and nobody else needs what it needs."""
    try:
        from tidings.stores.dynamodb_devices import DynamoDevices
        from tidings.stores.tables_dynamodb import open_dynamodb
    except ImportError as error:
        raise SettingsError(f"tables: dynamodb:// needs pip install '.[dynamodb]' in the clone ({error})") from None
    tables = await open_dynamodb(
        settings.tables,
        count_read=lambda table, rows: metrics.rows_read[table].inc(rows),
        count_write=lambda table, rows: metrics.writes[table].inc(rows),
        count_units=lambda kind, units: metrics.table_units[kind].inc(units),
        clock=clock,
    )
    return tables, DynamoDevices(tables.store)


async def _overrides(tables: Tables, clock: Clock) -> Overrides:
    """In the same place as the tables."""
    if isinstance(tables, SqliteTables):
        return await open_overrides(tables.reads, tables.writes, clock)
    from tidings.stores.dynamodb_overrides import DynamoOverrides
    from tidings.stores.tables_dynamodb import DynamoTables

    assert isinstance(tables, DynamoTables)
    return DynamoOverrides(tables.store)


async def _archive(tables: Tables, clock: Clock) -> ArchiveTables:
    """In the same place as the tables."""
    if isinstance(tables, SqliteTables):
        return await open_archive(tables.reads, tables.writes, clock)
    from tidings.stores.dynamodb_archive import DynamoArchive
    from tidings.stores.tables_dynamodb import DynamoTables

    assert isinstance(tables, DynamoTables)
    return DynamoArchive(tables.store)


def require_tables(settings: Settings) -> None:
    """Raises SettingsError where there are none, or no folder that goes with them: mostly the wrong one was named."""
    if settings.tables.startswith("dynamodb:"):
        if settings.keyspace == "embedded":
            require_folder(settings)
    elif not (path := sqlite_path(settings)).exists():
        name = "tables" if "://" in settings.tables else "data"
        raise SettingsError(
            f"there are no tables at {path}; choose with --{name} or {ENV}{name.upper()}, "
            "or make them with `tidings tables create`"
        )


def require_folder(settings: Settings) -> None:
    if not settings.data.is_dir():
        raise SettingsError(f"there is no data folder at {settings.data}; choose with --data or {ENV}DATA")


def blobs_url(settings: Settings) -> str:
    return (settings.data / "blobs").absolute().as_uri() if settings.blobs == "file" else settings.blobs


def sqlite_path(settings: Settings) -> Path:
    if "://" in settings.tables:
        return Path(settings.tables.removeprefix("sqlite://"))
    return settings.data / "tidings.db"
