"""Checks of one keyspace server: version, persistence, eviction, clock, latency, memory and load.

They are a dozen INFO, CONFIG GET, TIME and PING, and none takes the server longer than a fraction of a millisecond. A
command that a managed server refuses gives `unknown`, with the right that would permit it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from tidings.bounds import DOCTOR_LOAD_S, DOCTOR_PING_S, DOCTOR_PINGS, DOCTOR_SKEW_S
from tidings.clock import Clock
from tidings.operators.doctor.server_load import check_load, read_load
from tidings.operators.doctor.servers import Server, refusal
from tidings.stores.findings import Finding, advice, human_bytes, ok, quantile, unknown, wrong

VERSION_MIN = (7, 0)  # sharded channels and scripts that name their engine
MEMORY_SHARE_MAX = 0.8  # of maxmemory: above it a burst is refused
FRAGMENTATION_MAX = 2.0  # resident over used memory, where there is much of it
_MUCH_BYTES = 512 * 1024 * 1024
_CLOCK_LOOKS = 5  # the reading with the shortest round trip is the most exact


async def check_server(server: Server, clock: Clock) -> list[Finding]:
    info = await server.info("server", "replication", "memory", "persistence", "stats", "clients")
    config = await server.config("save", "maxclients")
    if not info:
        fix = server.permit("+info", "+config|get", "+slowlog|get", "+memory|usage", "+scan", "+object")
        return [unknown("keyspace.reachable", "INFO is refused, so most checks are not possible", fix, server.where)]
    before = await read_load(server, clock)
    findings = [
        ok("keyspace.reachable", f"{_name(info)} answers", server.where),
        *_check_version(server, info),
        *_check_role(server, info),
        *_check_persistence(server, info, config),
        *_check_eviction(server, info),
        *_check_memory(server, info),
        *_check_clients(server, info, config),
        await _check_clock(server, clock),
        await _check_latency(server, clock),
    ]
    await asyncio.sleep(DOCTOR_LOAD_S)
    return [*findings, check_load(server, before, await read_load(server, clock))]


def _name(info: dict[str, str]) -> str:
    is_valkey = "valkey_version" in info
    return f"Valkey {info['valkey_version']}" if is_valkey else f"Redis {info.get('redis_version', '?')}"


def _check_version(server: Server, info: dict[str, str]) -> Iterator[Finding]:
    """Valkey also reports a version of Redis (7.2), which names its features."""
    numbers = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2] if part.isdigit())
    if numbers < VERSION_MIN:
        fix = "Valkey 8 or newer, or Redis 7 or newer"
        yield wrong("keyspace.version", f"{_name(info)} is too old: it has no sharded channels", fix, server.where)


def _check_role(server: Server, info: dict[str, str]) -> Iterator[Finding]:
    if info.get("role") == "slave":
        primary = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        says = f"it is a replica of {primary}; Tidings needs the primary"
        yield wrong("keyspace.role", says, f"TIDINGS_KEYSPACE=redis://{primary}", server.where)


def _check_persistence(server: Server, info: dict[str, str], config: dict[str, str]) -> Iterator[Finding]:
    name, where = "keyspace.persistence", server.where
    fix = f"{server.cli} CONFIG SET appendonly yes; {server.cli} CONFIG REWRITE"
    for field, what in (("aof_last_write_status", "append to its AOF"), ("rdb_last_bgsave_status", "save its RDB")):
        if info.get(field, "ok") != "ok":
            yield wrong(name, f"it could not {what}: it will refuse writes", "see the server's log; df -h there", where)
    if info.get("aof_enabled") == "1":
        yield ok(name, "AOF is on", where)
    elif config.get("save", ""):
        yield advice(name, "RDB only: a restart loses minutes, and the counts of every user are rebuilt", fix, where)
    elif int(info.get("connected_slaves", 0)) > 0:
        yield advice(name, "no persistence, but replicas: it must never restart by itself as a primary", fix, where)
    elif "save" in config:
        says = "no persistence: a restart loses pushes under way and rate windows, and every inbox is rebuilt"
        yield wrong(name, says, fix, where)
    else:
        yield unknown(name, "no AOF; whether RDB is on is unknown (CONFIG is refused)", fix, where)


def _check_eviction(server: Server, info: dict[str, str]) -> Iterator[Finding]:
    policy, limit = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", 0))
    fix = f"{server.cli} CONFIG SET maxmemory-policy noeviction; {server.cli} CONFIG REWRITE"
    if policy != "noeviction" and limit:
        says = (
            f"it evicts keys ({policy} at {human_bytes(limit)}): leases and counters vanish, and no node starts on it"
        )
        yield wrong("keyspace.eviction", says, fix, server.where)
    elif policy != "noeviction":
        says = f"its policy is {policy}: the first maxmemory that somebody sets evicts leases and counters"
        yield wrong("keyspace.eviction", says, fix, server.where)
    else:
        yield ok("keyspace.eviction", "noeviction", server.where)
    if evicted := int(info.get("evicted_keys", 0)):
        yield advice("keyspace.evicted", f"{evicted} keys were evicted since it started", fix, server.where)


def _check_memory(server: Server, info: dict[str, str]) -> Iterator[Finding]:
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    ratio = float(info.get("mem_fragmentation_ratio", 1))
    says = f"{human_bytes(used)} used" + (f" of {human_bytes(limit)}" if limit else "")
    if limit and used > MEMORY_SHARE_MAX * limit:
        fix = f"{server.cli} CONFIG SET maxmemory {2 * limit}, or a larger machine"
        yield wrong("keyspace.memory", f"{says}: past it every send is refused", fix, server.where)
    elif used > _MUCH_BYTES and ratio > FRAGMENTATION_MAX:
        fix = f"{server.cli} CONFIG SET activedefrag yes"
        yield advice("keyspace.memory", f"{says}, but {ratio:g} times that is resident", fix, server.where)
    else:
        yield ok("keyspace.memory", says, server.where)


def _check_clients(server: Server, info: dict[str, str], config: dict[str, str]) -> Iterator[Finding]:
    refused = int(info.get("rejected_connections", 0))
    clients, most = int(info.get("connected_clients", 0)), int(config.get("maxclients", 0))
    fix = f"{server.cli} CONFIG SET maxclients {2 * most or 10_000}"
    if refused:
        yield advice("keyspace.clients", f"{refused} connections were refused since it started", fix, server.where)
    elif most and clients > MEMORY_SHARE_MAX * most:
        yield advice("keyspace.clients", f"{clients} of {most} connections are taken", fix, server.where)


async def _check_clock(server: Server, clock: Clock) -> Finding:
    readings = [await _skew_ms(server, clock) for _ in range(_CLOCK_LOOKS)]
    if any(one is None for one in readings):
        return unknown("keyspace.clock", "TIME is refused", server.permit("+time"), server.where)
    way_ms, skew_ms = min(one for one in readings if one is not None)
    if abs(skew_ms) - way_ms / 2 > 1000 * DOCTOR_SKEW_S:
        says = f"its clock is {abs(skew_ms) / 1000:.1f} s {'ahead of' if skew_ms > 0 else 'behind'} this machine's"
        return wrong("keyspace.clock", says, "on both: timedatectl set-ntp true; chronyc tracking", server.where)
    return ok("keyspace.clock", f"its clock differs by {abs(skew_ms):.0f} ms", server.where)


async def _skew_ms(server: Server, clock: Clock) -> tuple[float, float] | None:
    """The time of the round trip, and the lead of the server's clock."""
    before_ms = clock.now_ms()
    answer: Any = await server.ask("TIME")
    after_ms = clock.now_ms()
    if refusal(answer):
        return None
    there_ms = int(answer[0]) * 1000 + int(answer[1]) / 1000
    return float(after_ms - before_ms), there_ms - (before_ms + after_ms) / 2


async def _check_latency(server: Server, clock: Clock) -> Finding:
    times_s = []
    for _ in range(DOCTOR_PINGS):
        began_s = clock.monotonic_s()
        await server.ask("PING")
        times_s.append(clock.monotonic_s() - began_s)
    p50_ms, p99_ms = (1000 * quantile(times_s, share) for share in (0.5, 0.99))
    says = f"PING takes {p50_ms:.2f} ms (p99 {p99_ms:.2f} ms)"
    if p99_ms > 1000 * DOCTOR_PING_S:
        fix = "use a server in the same network, and see keyspace.slow and host.huge_pages"
        return advice("keyspace.latency", f"slow: {says}", fix, server.where)
    return ok("keyspace.latency", says, server.where)
