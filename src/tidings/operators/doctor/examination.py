"""Examination: runs every family of checks in turn, each within its time, so that none can hide the others.

A check that fails in an unexpected way is a finding too, never a traceback. Nothing is kept between two examinations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

from tidings.bounds import DOCTOR_CENSUS_S, DOCTOR_CHECK_S
from tidings.clock import Clock
from tidings.config.settings import Settings, tables_url
from tidings.config.values import is_loopback
from tidings.operators.doctor import host
from tidings.operators.doctor import settings as settings_checks
from tidings.operators.doctor.blobs import check_blobs
from tidings.operators.doctor.census import Census, Walk
from tidings.operators.doctor.families import Sorter, families
from tidings.operators.doctor.key_findings import check_census
from tidings.operators.doctor.keyspace import check_server
from tidings.operators.doctor.report import Report, worst_last
from tidings.operators.doctor.servers import Found, Server, open_servers
from tidings.operators.doctor.slow_commands import check_slow
from tidings.stores.findings import Finding, unknown, wrong
from tidings.stores.keyspace.scripts import LUA
from tidings.stores.tables.open import adapter_of


async def examine(
    settings: Settings, sources: Mapping[str, str], clock: Clock, *, census_s: float = DOCTOR_CENSUS_S
) -> Report:
    """Run all checks. `census_s`: the time to walk the keys of one server; 0 skips the walk."""
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
    """The checks that need no server of the keyspace."""
    if settings.auth.jwks_url is not None:
        yield [await settings_checks.check_jwks(settings.auth.jwks_url)]
    yield list(host.check_kernel(has_valkey=_is_here(settings)))
    yield await _in_thread("host", lambda: host.check_disk(settings.data, clock))
    yield await _within(check_blobs(settings, clock), "blobs")
    url = tables_url(settings)
    try:
        adapter = adapter_of(url)
    except ValueError as error:
        yield [wrong("tables.reachable", str(error), "install the library, or name other tables")]
        return
    folder = adapter.folder(url)
    if folder is not None and folder != settings.data:
        yield await _in_thread("host", lambda: host.check_disk(folder, clock))
    yield await _within(adapter.examine(url, clock), "tables")


def _is_here(settings: Settings) -> bool:
    """True: the keyspace runs on this machine."""
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
        return [
            unknown(f"{family}.check", f"the check did not finish within {DOCTOR_CHECK_S + more_s:g} s", where=where)
        ]
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return [unknown(f"{family}.check", f"the check failed: {why}", where=where)]
