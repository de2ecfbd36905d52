"""Examination of a PostgreSQL database: the doctor's findings about durability, replicas, long work and vacuum.

Nothing is made and nothing is written: every check reads settings, statistics and our own `meta`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from tidings.bounds import DOCTOR_PINGS
from tidings.clock import Clock
from tidings.stores.findings import Finding, advice, human_bytes, ok, read_times, unknown, wrong
from tidings.stores.tables.postgres.server.schema import SCHEMA_VERSION, read_meta

LAG_BYTES_MAX = 64 * 1024 * 1024  # of a replica: seconds of writes
LONG_S = 300  # a transaction that is open for longer holds up vacuum
DEAD_SHARE_MAX = 0.4  # dead rows beside living ones, before autovacuum should have come
_DURABLE = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on"}
_SYNCHRONOUS = ("on", "remote_apply", "remote_write", "local")
_REPLICAS = """
    SELECT coalesce(application_name, ''), sync_state, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)
    FROM pg_stat_replication
"""
_LONG = """
    SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::bigint FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start < clock_timestamp() - make_interval(secs => $1)
"""
_BLOAT = """
    SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables
    WHERE schemaname = $1 AND n_dead_tup > 10000 AND n_dead_tup > n_live_tup * $2
"""
_SIZE = "SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1"


async def check_database(options: dict[str, Any], schema: str, name: str, clock: Clock) -> AsyncIterator[Finding]:
    try:
        link = await asyncpg.connect(**options)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        says = f"cannot connect to {name}: {str(error) or type(error).__name__}"
        yield wrong("tables.reachable", says, "start the database, or correct TIDINGS_TABLES")
        return
    try:
        async for finding in _checks(link, schema, name, clock):
            yield finding
    except asyncpg.PostgresError as error:
        yield unknown("tables.reachable", f"{name}: {error}")
    finally:
        await link.close()


async def _checks(link: Any, schema: str, name: str, clock: Clock) -> AsyncIterator[Finding]:
    if await link.fetchval("SELECT to_regclass($1)", f'"{schema}".meta') is None:
        yield ok(
            "tables.reachable", f"{name} holds no tables yet; the first start, or `tidings tables create`, makes them"
        )
        return
    yield await _schema(link, schema, name)
    yield await _writable(link, name)
    async for finding in _durable(link, name):
        yield finding
    async for finding in _replicas(link, name):
        yield finding
    yield await _long(link)
    yield await _bloat(link, schema)
    times = []
    for _ in range(DOCTOR_PINGS):
        start_s = clock.monotonic_s()
        await link.fetchval("SELECT 1")
        times.append(clock.monotonic_s() - start_s)
    yield ok("tables.latency", read_times(times))


async def _schema(link: Any, schema: str, name: str) -> Finding:
    version = int((await read_meta(link, schema))["schema_version"])
    if version > SCHEMA_VERSION:
        says = f"{name} has schema version {version}, this Tidings knows {SCHEMA_VERSION}"
        return wrong("tables.schema", says, "start the newer Tidings, which made it")
    size = human_bytes(await link.fetchval(_SIZE, schema))
    return ok("tables.schema", f"{name}: {size}, schema version {version}")


async def _writable(link: Any, name: str) -> Finding:
    if await link.fetchval("SELECT pg_is_in_recovery()"):
        return wrong("tables.write", f"{name} is a replica", "name the primary in TIDINGS_TABLES")
    if await link.fetchval("SELECT current_setting('transaction_read_only')") == "on":
        fix = "ALTER DATABASE ... SET default_transaction_read_only = off"
        return wrong("tables.write", f"{name} is read-only", fix)
    return ok("tables.write", f"{name} takes writes")


async def _durable(link: Any, name: str) -> AsyncIterator[Finding]:
    for setting, wanted in _DURABLE.items():
        value = await link.fetchval("SELECT current_setting($1)", setting)
        if value != wanted:
            says = f"{setting} is {value}: " + _COST[setting]
            found = advice if setting == "autovacuum" else wrong
            yield found("tables.durable", says, f"ALTER SYSTEM SET {setting} = {wanted}; then reload")
    value = await link.fetchval("SELECT current_setting('synchronous_commit')")
    if value not in _SYNCHRONOUS:
        says = f"synchronous_commit is {value}: a crash may lose acknowledged messages"
        yield wrong("tables.durable", says, "ALTER SYSTEM SET synchronous_commit = on; then reload")
    else:
        yield ok("tables.durable", f"synchronous_commit is {value}")


_COST = {
    "fsync": "a crash of the host may lose acknowledged messages and damage the tables",
    "full_page_writes": "a crash of the host may damage the tables",
    "autovacuum": "the tables grow and slow down",
}


async def _replicas(link: Any, name: str) -> AsyncIterator[Finding]:
    replicas = await link.fetch(_REPLICAS)
    if not replicas:
        return
    if not any(state in ("sync", "quorum") for _, state, _ in replicas):
        says = f"{name} has only asynchronous replicas: a failover may lose acknowledged messages"
        yield wrong("tables.replicas", says, "set synchronous_standby_names, so that one replica has every commit")
    for replica, state, lag in replicas:
        if lag > LAG_BYTES_MAX:
            yield advice(
                "tables.lag", f"replica {replica} ({state}) is {human_bytes(lag)} behind", "check its disk and network"
            )


async def _long(link: Any) -> Finding:
    found = await link.fetch(_LONG, LONG_S)
    if found:
        says = "; ".join(f"pid {pid} has a transaction open for {seconds} s" for pid, seconds in found)
        return advice("tables.long_transactions", says, "end them: vacuum cannot remove what they may still see")
    return ok("tables.long_transactions", f"no transaction is open for more than {LONG_S} s")


async def _bloat(link: Any, schema: str) -> Finding:
    found = await link.fetch(_BLOAT, schema, DEAD_SHARE_MAX)
    if found:
        says = "; ".join(f"{table} has {dead:,} dead rows beside {live:,}" for table, live, dead in found)
        return advice("tables.vacuum", says, "VACUUM these tables, and let autovacuum run more often")
    return ok("tables.vacuum", "autovacuum keeps up")
