"""What stands out is judged: too large and ours is wrong, large with its user is told, others' is theirs."""

from __future__ import annotations

from pathlib import Path

from tests.support.doctor_targets import named, seed, seed_members, server_of, valkey
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.operators.doctor.census import Walk
from tidings.operators.doctor.families import Sorter, families
from tidings.operators.doctor.key_findings import check_census
from tidings.stores.findings import Finding
from tidings_proof.world.valkey import ValkeyProcess

KNOWN = families(Settings())


async def judge(patient: ValkeyProcess, budget_s: float = 30.0) -> list[Finding]:
    async with server_of(patient) as server:
        census = await Walk(server, Sorter(KNOWN, ""), Clock(), budget_s, 0.0).run()
        return list(check_census(census, KNOWN, server.cli))


async def test_a_key_of_ours_beyond_its_limit_is_wrong_and_may_be_unlinked(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        seed_members(patient, "unread:{ann}:c1", 200_000)
        finding = named(await judge(patient), "keyspace.big")
    assert finding.level == "wrong" and "200000 entries" in finding.says and "skiplist" in finding.says
    assert "normal is up to 11100" in finding.says
    assert finding.fix == f"valkey-cli -s {patient.socket} UNLINK 'unread:{{ann}}:c1'"


async def test_a_large_key_of_somebody_else_is_theirs_to_move(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        seed_members(patient, "leaderboard", 200_000)
        finding = named(await judge(patient), "keyspace.big")
    assert finding.level == "advice" and "Tidings did not make" in finding.says and "server of its own" in finding.fix


async def test_a_very_large_inbox_is_told_and_not_blamed(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        seed_members(patient, "inbox:{ann}", 120_000)
        finding = named(await judge(patient), "keyspace.big")
    assert finding.level == "advice" and "normal is up to 100000" in finding.says


async def test_a_key_of_another_type_under_our_name_is_wrong(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        patient.ask("SET", "inbox:{ann}", "x")
        finding = named(await judge(patient), "keyspace.big")
    assert finding.level == "wrong" and "is a string, not a zset" in finding.says


async def test_small_keys_that_are_not_packed_are_told(tmp_path: Path) -> None:
    with valkey(tmp_path, "--zset-max-listpack-entries", "0") as patient:
        seed(patient, 100)
        finding = named(await judge(patient), "keyspace.encoding")
    assert finding.level == "advice" and "50 of 50 small inbox keys" in finding.says
    assert "zset-max-listpack-entries 128" in finding.fix


async def test_what_was_seen_is_summed_up(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        seed(patient, 1_000)
        assert "1000 keys, all seen" in named(await judge(patient), "keyspace.keys").says
        assert "1000 keys, 0% seen" in named(await judge(patient, 0.0), "keyspace.keys").says
