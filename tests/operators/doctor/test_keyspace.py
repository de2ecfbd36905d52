"""A server that is not fit to be the index is told so, with the command that makes it fit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.doctor_targets import named, server_of, settings_for, valkey
from tidings.clock import Clock
from tidings.operators.doctor.keyspace import check_server
from tidings.operators.doctor.servers import open_servers
from tidings.stores.findings import Finding
from tidings_proof.world.valkey import ValkeyProcess


class Shifted(Clock):
    """A machine whose clock is off."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


async def look_at(patient: ValkeyProcess, clock: Clock | None = None) -> list[Finding]:
    async with server_of(patient) as server:
        return await check_server(server, clock or Clock())


async def test_a_good_server_has_nothing_wrong(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        findings = await look_at(patient)
    assert {finding.level for finding in findings} <= {"ok", "advice"}, findings
    assert named(findings, "keyspace.reachable").says.startswith("Valkey ")
    assert named(findings, "keyspace.persistence").says == "AOF is on"
    assert "PING takes" in named(findings, "keyspace.latency").says
    assert all(finding.where == patient.url for finding in findings)


async def test_a_server_without_persistence_is_wrong(tmp_path: Path) -> None:
    with valkey(tmp_path, "--appendonly", "no") as patient:
        finding = named(await look_at(patient), "keyspace.persistence")
        assert finding.level == "wrong"
        assert finding.fix.startswith(f"valkey-cli -s {patient.socket} CONFIG SET appendonly yes")
        patient.ask("CONFIG", "SET", "save", "3600 1")
        assert named(await look_at(patient), "keyspace.persistence").level == "advice"
        patient.ask("CONFIG", "SET", "appendonly", "yes")
        assert named(await look_at(patient), "keyspace.persistence").level == "ok"


async def test_a_server_that_evicts_is_wrong(tmp_path: Path) -> None:
    with valkey(tmp_path, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as patient:
        finding = named(await look_at(patient), "keyspace.eviction")
        assert finding.level == "wrong" and "allkeys-lru at 100.0 MiB" in finding.says
        assert "CONFIG SET maxmemory-policy noeviction" in finding.fix
        patient.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert named(await look_at(patient), "keyspace.eviction").level == "ok"


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
async def test_a_policy_that_evicts_is_wrong_also_before_anybody_sets_a_limit(tmp_path: Path, policy: str) -> None:
    with valkey(tmp_path, "--maxmemory-policy", policy) as patient:
        finding = named(await look_at(patient), "keyspace.eviction")
        assert finding.level == "wrong" and policy in finding.says


async def test_keys_that_were_evicted_are_told(tmp_path: Path) -> None:
    with valkey(tmp_path, "--maxmemory-policy", "allkeys-lru") as patient:
        patient.ask("SET", "k", "v" * 1000)
        patient.ask("CONFIG", "SET", "maxmemory", "1")
        patient.ask("SET", "k2", "v")
        patient.ask("CONFIG", "SET", "maxmemory", "0")
        assert "were evicted" in named(await look_at(patient), "keyspace.evicted").says


@pytest.mark.parametrize(("ahead_ms", "says"), [(-5_000, "5.0 s ahead of"), (5_000, "5.0 s behind")])
async def test_a_clock_five_seconds_off_is_wrong(valkey: ValkeyProcess, ahead_ms: int, says: str) -> None:
    finding = named(await look_at(valkey, Shifted(ahead_ms)), "keyspace.clock")
    assert finding.level == "wrong" and says in finding.says and "set-ntp true" in finding.fix


async def test_clocks_that_agree_are_fine(valkey: ValkeyProcess) -> None:
    assert named(await look_at(valkey), "keyspace.clock").level == "ok"


async def test_a_server_near_its_limit_is_wrong(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        used = int(str(patient.ask("INFO", "memory")).partition("used_memory:")[2].partition("\r")[0])
        patient.ask("CONFIG", "SET", "maxmemory", str(used + 1_000))
        finding = named(await look_at(patient), "keyspace.memory")
    assert finding.level == "wrong" and "every send is refused" in finding.says


async def test_refused_connections_are_told(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        async with server_of(patient) as server:
            patient.ask("CONFIG", "SET", "maxclients", "1")
            with suppress(OSError):  # it is sent away before, or after, it has spoken
                patient.command("PING")
            findings = await check_server(server, Clock())
    assert "were refused" in named(findings, "keyspace.clients").says


async def test_a_server_that_tells_nothing_is_unknown(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        patient.ask("ACL", "SETUSER", "few", "on", ">p", "~*", "+ping", "+client|setname")
        async with open_servers(settings_for(tmp_path, f"unix://few:p@{patient.socket}"), Clock()) as found:
            (finding,) = await check_server(found.servers[0], Clock())
    assert finding.level == "unknown" and finding.fix.startswith("as an administrator: ")
    assert "ACL SETUSER few +info" in finding.fix and "--user" not in finding.fix


async def test_a_replica_is_wrong_and_names_its_primary(tmp_path: Path) -> None:
    with valkey(tmp_path, "--replicaof", "127.0.0.1 1") as replica:
        finding = named(await look_at(replica), "keyspace.role")
    assert "it is a replica of 127.0.0.1:1;" in finding.says and finding.fix == "TIDINGS_KEYSPACE=redis://127.0.0.1:1"
