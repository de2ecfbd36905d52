"""The whole examination: every family of checks in turn, each within its time, none able to hide the others.

A check that fails in a way nobody thought of is a finding too, never a traceback. cli_doctor.py and the admin page call
`examine`; nothing is kept between two examinations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

from tidings.bounds import DOCTOR_CENSUS_S, DOCTOR_CHECK_S
from tidings.clock import Clock
from tidings.config import Settings
from tidings.config_values import is_loopback
from tidings.doctor import host, tables
from tidings.doctor import settings as settings_checks
from tidings.doctor.blobs import check_blobs
from tidings.doctor.census import Census, Walk
from tidings.doctor.families import Sorter, families
from tidings.doctor.findings import Finding, Report, unknown, worst_last
from tidings.doctor.keys import check_census
from tidings.doctor.keyspace import check_server
from tidings.doctor.servers import Found, Server, open_servers
from tidings.doctor.slow import check_slow
from tidings.opening import LUA, sqlite_path


async def examine(
    settings: Settings, sources: Mapping[str, str], clock: Clock, *, census_s: float = DOCTOR_CENSUS_S
) -> Report:
    """`census_s`: how long the keys of one server are walked; 0 leaves it out."""
    findings = list(settings_checks.check_settings(settings, sources))
    censuses: list[Census] = []
    async for found in _families(settings, clock):
        findings += found
    async with open_servers(settings, clock) as servers:
        findings += servers.findings
        for server in servers.servers:
            findings += await _within(check_server(server, clock), "keyspace", server.where)
            findings += await _within(check_slow(server, LUA), "keyspace", server.where)
        if census_s:
            for server in servers.servers:
                findings += await _within(
                    _count_keys(server, settings, servers, clock, census_s, censuses),
                    "keyspace",
                    server.where,
                    census_s,
                )
    return Report(findings=worst_last(findings), keyspace=tuple(censuses))


async def _families(settings: Settings, clock: Clock) -> AsyncIterator[Iterable[Finding]]:
    """What needs no server of the keyspace."""
    if settings.auth.jwks_url is not None:
        yield [await settings_checks.check_jwks(settings.auth.jwks_url)]
    yield list(host.check_kernel(has_valkey=_is_here(settings)))
    yield await _in_thread("host", lambda: host.check_disk(settings.data, clock))
    yield await _within(check_blobs(settings, clock), "blobs")
    if settings.tables.startswith("dynamodb:"):
        yield await _within(tables.check_dynamodb(settings.tables, clock), "tables")
        return
    file = sqlite_path(settings)
    if file.parent != settings.data:
        yield await _in_thread("host", lambda: host.check_disk(file.parent, clock))
    yield await _in_thread("tables", lambda: tables.check_sqlite(file, clock))


def _is_here(settings: Settings) -> bool:
    """Whether the keyspace runs on this machine."""
    address = settings.keyspace.partition("://")[2].rpartition("@")[2]
    name = address.partition(":")[0].partition("/")[0]
    return settings.keyspace == "embedded" or settings.keyspace.startswith("unix:") or is_loopback(name)


async def _count_keys(
    server: Server, settings: Settings, found: Found, clock: Clock, census_s: float, into: list[Census]
) -> Iterable[Finding]:
    known = families(settings)
    census = await Walk(server, Sorter(known, found.prefix), clock, census_s).run()
    into.append(census)
    return check_census(census, known, server.cli)


async def _in_thread(family: str, check: Callable[[], Iterable[Finding]]) -> Iterable[Finding]:
    return await _within(asyncio.to_thread(lambda: list(check())), family)


async def _within(
    check: Awaitable[Iterable[Finding]], family: str, where: str = "", more_s: float = 0.0
) -> list[Finding]:
    try:
        async with asyncio.timeout(DOCTOR_CHECK_S + more_s):
            return list(await check)
    except TimeoutError:
        return [unknown(f"{family}.check", f"not finished within {DOCTOR_CHECK_S + more_s:g} s", where=where)]
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return [unknown(f"{family}.check", f"it could not be finished: {why}", where=where)]
