"""The keys of a server are walked in small steps: nobody waits, and what stands out is found."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.support.doctor_targets import seed, seed_members, server_of, valkey
from tidings.bounds import DOCTOR_SCAN_COUNT
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.operators.doctor.census import LOOK_AGAIN_S, Census, Walk
from tidings.operators.doctor.families import Sorter, families
from tidings.operators.doctor.slow_commands import parse_commandstats
from tidings_proof.world.valkey import ValkeyProcess

TURN_US_MAX = 5_000  # what a check may take a server at a time


async def walk(patient: ValkeyProcess, *, prefix: str = "", budget_s: float = 90.0, again_s: float = 0.0) -> Census:
    async with server_of(patient) as server:
        return await Walk(server, Sorter(families(Settings()), prefix), Clock(), budget_s, again_s).run()


async def test_memory_is_told_by_family(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        seed(patient, 2_000)
        patient.ask("SET", "cache:1", "x")
        census = await walk(patient)
    kinds = {kind.family: kind for kind in census.kinds}
    assert census.is_whole and census.keys_seen == census.keys_total == 2_001
    assert {name: kind.keys for name, kind in kinds.items()} == {"inbox": 1_000, "mark": 1_000, "not ours": 1}
    assert kinds["inbox"].encodings == {"listpack": 200} and kinds["inbox"].entries_mean == 1
    assert kinds["inbox"].bytes > 50 * 1_000


async def test_a_set_of_200_000_members_is_found_and_described(tmp_path: Path) -> None:
    with valkey(tmp_path, "--slowlog-log-slower-than", str(TURN_US_MAX)) as patient:
        seed(patient, 1_000)
        seed_members(patient, "unread:{ann}:c1", 200_000)
        census = await walk(patient)
    big = census.biggest[0]
    assert (big.key, big.family, big.entries, big.encoding) == ("unread:{ann}:c1", "unread", 200_000, "skiplist")
    assert 30 < big.bytes_each < 100 and not big.is_normal
    assert all(key.is_normal for key in census.biggest[1:])


async def test_keys_of_another_tenant_are_not_ours(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        patient.ask("ZADD", "a.inbox:{ann}", 1, "c")
        patient.ask("ZADD", "b.inbox:{ann}", 1, "c")
        census = await walk(patient, prefix="a.")
    assert {kind.family: kind.keys for kind in census.kinds} == {"inbox": 1, "not ours": 1}


async def test_a_name_that_is_no_text_is_asked_for_as_it_is_and_shown_escaped(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        async with server_of(patient) as server:
            await server.ask("SET", b"cache:\xff\xfe", b"x" * 300_000)
        census = await walk(patient)
    big = census.biggest[0]
    assert (big.key, big.family, big.type, big.entries) == ("cache:\\xff\\xfe", "not ours", "string", 300_000)
    assert b"cache" in msgspec.json.encode(census)


async def test_a_walk_without_time_says_that_it_saw_nothing(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        seed(patient, 1_000)
        census = await walk(patient, budget_s=0.0)
    assert (census.keys_total, census.keys_seen, census.is_whole, census.kinds) == (1_000, 0, False, ())


async def test_the_hottest_keys_are_the_servers_own_where_it_counts(tmp_path: Path) -> None:
    with valkey(tmp_path, "--maxmemory-policy", "allkeys-lfu") as patient:
        seed(patient, 100)
        patient.ask_all([["ZCARD", "inbox:{u42}"]] * 2_000)
        census = await walk(patient)
    assert census.heat == "lfu" and census.hottest[0].key == "inbox:{u42}"
    assert census.hottest[0].heat > census.hottest[1].heat


async def test_elsewhere_they_are_those_in_use_at_two_looks(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        seed(patient, 50)
        walking = asyncio.ensure_future(walk(patient, again_s=LOOK_AGAIN_S))
        while not walking.done():
            patient.ask("ZCARD", "inbox:{u42}")
            await asyncio.sleep(0.02)
        census = await walking
    assert (census.heat, [key.key for key in census.hottest]) == ("in use", ["inbox:{u42}"])


async def test_keys_that_are_no_text_are_walked_too(tmp_path: Path) -> None:
    import redis

    with valkey(tmp_path) as patient:
        redis.Redis(unix_socket_path=str(patient.socket)).set(b"\xff\x00key", b"v")
        census = await walk(patient)
    assert census.biggest[0].family == "not ours" and census.biggest[0].bytes > 0


BULK = ("MEMORY USAGE", "OBJECT IDLETIME", "OBJECT ENCODING", "TYPE", "ZCARD", "HLEN")  # asked many in one write


async def check_that_nobody_waits(folder: Path, keys: int) -> Census:
    with valkey(folder, "--slowlog-log-slower-than", str(TURN_US_MAX), "--appendonly", "no") as patient:
        seed(patient, keys)
        seed_members(patient, "unread:{ann}:c1", 200_000)
        patient.ask_all([["SLOWLOG", "RESET"], ["CONFIG", "RESETSTAT"]])
        census = await walk(patient, budget_s=600.0)
        turns = longest_turns_us(patient)
        assert {name: us for name, us in turns.items() if us >= TURN_US_MAX} == {}
    return census


def longest_turns_us(patient: ValkeyProcess) -> dict[str, float]:
    """What slow commands cost, and each that is asked in bulk: what one write holds is done in one go."""
    lines = str(patient.ask("INFO", "commandstats")).splitlines()
    stats = parse_commandstats(dict(line.split(":", 1) for line in lines if ":" in line))
    assert not any(busy.command == "KEYS" for busy in stats)
    assert any(busy.command == "MEMORY USAGE" for busy in stats)
    each = {busy.command: busy.us_each for busy in stats if busy.command in BULK}
    for command, us in each.items():
        if us * DOCTOR_SCAN_COUNT >= TURN_US_MAX:  # also a mean is of the time that passed: ask once more
            key = "mark:{u41}" if command == "HLEN" else "inbox:{u42}"
            each[command] = min(us, cost_us(patient, [*command.split(), key]))
    bulk = {command: us * DOCTOR_SCAN_COUNT for command, us in each.items()}
    slow = [entry[3] for entry in patient.ask("SLOWLOG", "GET", 20)]
    return bulk | {" ".join(words[:3]): cost_us(patient, words) for words in slow}


def cost_us(patient: ValkeyProcess, words: list[str]) -> float:
    """The shortest of ten: SLOWLOG has the time that passed, and a busy machine takes the processor away meanwhile."""
    patient.ask_all([["CONFIG", "SET", "slowlog-log-slower-than", "0"], ["SLOWLOG", "RESET"], *[words] * 10])
    entries = patient.ask("SLOWLOG", "GET", 20)
    patient.ask("CONFIG", "SET", "slowlog-log-slower-than", str(TURN_US_MAX))
    return float(min(entry[2] for entry in entries if entry[3] == words))


def test_a_command_that_really_takes_long_is_noticed(tmp_path: Path) -> None:
    with valkey(tmp_path, "--slowlog-log-slower-than", str(TURN_US_MAX)) as patient:
        seed_members(patient, "unread:{ann}:c1", 200_000)
        assert cost_us(patient, ["ZRANGE", "unread:{ann}:c1", "0", "-1"]) > TURN_US_MAX


async def test_nobody_waits_while_50_000_keys_are_walked(tmp_path: Path) -> None:
    census = await check_that_nobody_waits(tmp_path, 50_000)
    assert census.is_whole and census.keys_seen == 50_001


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_nobody_waits_while_a_million_keys_are_walked(tmp_path: Path) -> None:
    census = await check_that_nobody_waits(tmp_path, 1_000_000)
    assert census.is_whole and census.keys_seen == 1_000_001
    assert census.biggest[0].key == "unread:{ann}:c1"
